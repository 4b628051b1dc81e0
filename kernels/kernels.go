// Package kernels holds the Metal kernels of a Qwen2 model, one .metal file per operation, and beside each the Go struct
// of its arguments. README.md says how they are laid out. kernels/cpu has the same operations on slices.
package kernels

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.metal
var files embed.FS

// order is the order in which the files make one source: each may use what stands before it.
var order = [...]string{
	"common.metal", "weights.metal", "dot.metal", "wide.metal",
	"embed.metal", "norm.metal", "qkv.metal", "attend.metal", "add.metal", "gateup.metal", "head.metal", "merge.metal",
}

// Source is all kernels as one source. Line directives keep the names of the files in what a compiler says.
func Source() string {
	var b strings.Builder
	for _, name := range order {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded: order names one that is not there
		}
		fmt.Fprintf(&b, "#line 1 %q\n%s\n", name, text)
	}
	return b.String()
}
