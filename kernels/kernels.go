// Package kernels holds the Metal kernels of a Qwen2 or Qwen3 model, one .metal file per operation, and for each the Go
// struct of its arguments. README.md describes their layout. kernels/cpu has the same operations on slices.
package kernels

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.metal
var files embed.FS

// order is the order in which the files are joined to one source: each file may use those before it.
var order = [...]string{
	"common.metal", "weights.metal", "dot.metal", "wide.metal",
	"embed.metal", "norm.metal", "qkv.metal", "attend.metal", "attendwide.metal", "add.metal", "gateup.metal",
	"project.metal", "conv.metal", "delta.metal", "draw.metal", "head.metal", "merge.metal",
}

// weightless are the files that are used only by kernels that read no weights.
var weightless = [...]string{"norm.metal", "attend.metal", "attendwide.metal", "conv.metal", "delta.metal",
	"merge.metal"}

// Types returns the types of weights that the kernels support, by their names in GGUF files.
func Types() []string {
	return []string{"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_0", "Q4_K", "Q5_K", "Q6_K"}
}

// Source returns the source of all kernels for one type of weights, one of [Types]; if weight is empty, it returns
// those that read no weights. So each kernel is compiled only where it is used. Line directives keep the names of the
// files in a compiler's messages.
//
// Long passes multiply matrices of floats by matrices of halves. With equal, the halves are converted first: for
// compilers that multiply only matrices of one type.
func Source(weight string, equal bool) string {
	var b strings.Builder
	if equal {
		b.WriteString("#define EQUAL_OPERANDS\n")
	}
	if weight != "" {
		fmt.Fprintf(&b, "#define WEIGHT %s\n#define WEIGHT_NAME %s\n", weight, strings.ToLower(weight))
	}
	for _, name := range order {
		if weight != "" && slices.Contains(weightless[:], name) {
			continue
		}
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded: order names one that is not there
		}
		fmt.Fprintf(&b, "#line 1 %q\n%s\n", name, text)
	}
	return b.String()
}
