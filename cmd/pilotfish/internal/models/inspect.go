package models

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// inspection is the output of `pilotfish inspect --json`. Its fields are a contract.
type inspection struct {
	File        string            `json:"file"`
	Version     uint32            `json:"version"`
	Bytes       int64             `json:"bytes"`
	Parameters  int64             `json:"parameters"` // elements of all tensors
	TensorBytes int64             `json:"tensor_bytes"`
	Types       []typeSize        `json:"types"`    // sorted by size, largest first
	Metadata    map[string]any    `json:"metadata"` // arrays above the limit are an arraySummary
	Tensors     []inspectedTensor `json:"tensors"`
}

// typeSize is the size of the tensors of one type.
type typeSize struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`

	GPUType  string `json:"gpu_type"`  // type on a GPU, which differs if it has no kernels for this one
	GPUBytes int64  `json:"gpu_bytes"` // their size there
}

// arraySummary replaces an array that is too long to print.
type arraySummary struct {
	Type   string `json:"type"`
	Length int    `json:"length"`
}

// String returns only the length, since the type has its own column.
func (a arraySummary) String() string { return fmt.Sprintf("%d elements", a.Length) }

// inspectedTensor is one tensor. Shape is in the order of the file, with the length of a row first.
type inspectedTensor struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int    `json:"bytes"`

	LeftOut bool `json:"left_out,omitempty"` // a model is loaded without it
}

// NewInspectCommand returns the command that shows the contents of a model file.
func NewInspectCommand(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "inspect FILE [flags]",
		Short:   "Show the metadata, tensors and sizes of a model",
		Example: `  pilotfish inspect model.gguf`,
		Args:    cli.OneArg("a model: a GGUF file, or the name of a downloaded model"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := a.ModelPath(c.Context(), args[0])
			if err != nil {
				return err
			}
			f, err := gguf.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			in := inspectFile(f, path)
			if asJSON {
				return a.PrintJSON(in)
			}
			return in.printTable(a.Stdout, f)
		},
	}
	cli.Add(c.Flags(), "json", &asJSON, false)
	return c
}

// mostElements is the length of arrays that are printed in full.
const mostElements = 8

func inspectFile(f *gguf.File, path string) inspection {
	in := inspection{File: path, Version: f.Version(), Bytes: f.Size(), Metadata: map[string]any{}}
	for key, v := range f.Metadata() {
		in.Metadata[key] = jsonValue(v)
	}
	sizes, leftOut := map[string]typeSize{}, engine.LeftOut(f)
	for _, t := range f.Tensors() {
		in.Tensors = append(in.Tensors, inspectedTensor{
			Name: t.Name, Type: t.Type.String(), Shape: t.Shape, Bytes: len(t.Data),
			LeftOut: slices.Contains(leftOut, t.Name),
		})
		in.Parameters += int64(t.Elems())
		in.TensorBytes += int64(len(t.Data))
		there := engine.KernelType(t.Type)
		elems, size := there.Block()
		s := sizes[t.Type.String()]
		sizes[t.Type.String()] = typeSize{
			Type: t.Type.String(), Tensors: s.Tensors + 1, Bytes: s.Bytes + int64(len(t.Data)),
			GPUType: there.String(), GPUBytes: s.GPUBytes + int64(t.Elems()/elems*size),
		}
	}
	for _, s := range sizes {
		in.Types = append(in.Types, s)
	}
	slices.SortFunc(in.Types, func(a, b typeSize) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Type, b.Type))
	})
	return in
}

// jsonValue converts v to a value for encoding/json. A longer array than [mostElements] becomes its summary. Numbers
// that JSON cannot represent (NaN, infinities) become strings.
func jsonValue(v gguf.Value) any {
	if v.Kind() != gguf.KindArray {
		switch x := v.Any().(type) {
		case float32:
			return jsonFloat(float64(x), 32, x)
		case float64:
			return jsonFloat(x, 64, x)
		default:
			return x
		}
	}
	if v.Len() > mostElements {
		return arraySummary{Type: v.Type(), Length: v.Len()}
	}
	elements := []any{}
	for e := range v.Elements() {
		elements = append(elements, jsonValue(e))
	}
	return elements
}

func jsonFloat(x float64, bits int, number any) any {
	if x-x != 0 {
		return strconv.FormatFloat(x, 'g', -1, bits)
	}
	return number
}

// printTable writes a table, with the metadata in the order of the file.
func (in inspection) printTable(out io.Writer, f *gguf.File) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: GGUF %d, %s, %s parameters in %d tensors\n\n", in.File, in.Version,
		humanize.Bytes(uint64(in.Bytes)), strings.TrimSpace(humanize.SIWithDigits(float64(in.Parameters), 1, "")),
		len(in.Tensors))
	for key, v := range f.Metadata() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", shortenText(key, 100), v.Type(), shortenText(fmt.Sprint(in.Metadata[key]), 100))
	}
	fmt.Fprintln(w)
	for _, t := range in.Tensors {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s", shortenText(t.Name, 100), t.Type,
			strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Shape), " ", "×"), "[]"), humanize.Bytes(uint64(t.Bytes)))
		if t.LeftOut {
			fmt.Fprint(w, "\tleft out")
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	for _, s := range in.Types {
		fmt.Fprintf(w, "%s\t%d tensors\t%s", s.Type, s.Tensors, humanize.Bytes(uint64(s.Bytes)))
		if s.GPUType != s.Type {
			fmt.Fprintf(w, "\ton a GPU %s, %s", s.GPUType, humanize.Bytes(uint64(s.GPUBytes)))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// shortenText quotes s if it has control characters, and cuts it to n characters.
func shortenText(s string, n int) string {
	if quoted := strconv.Quote(s); len(quoted) != len(s)+2 {
		s = quoted
	}
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
