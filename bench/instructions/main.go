// Command instructions counts the instructions of the kernels: mat-vecs per weight, attention per multiplication or per
// row, key and head, and the matrix products of long passes. This program is developed without a Mac, so it uses
// another GPU with instructions that clang supports: the same source is compiled for it, and the instructions of the
// inner loop are counted. The figures estimate the output of Apple's compiler.
//
// The inner loop is the one with the most fma. All vector and scalar instructions of its body count, including those of
// inner loops; only wait hints and barriers do not. A product of 8 × 8 matrices counts as its 16 fma of 32 lanes, every
// other operation of a simdgroup as one instruction. For several rows of activations, the figure of a mat-vec is the
// cost of a weight for all rows together.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

func main() {
	keep := flag.String("keep", "", "folder for the assembler's text")
	flag.Parse()
	if err := run(os.Stdout, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

// run measures all kernels and prints the results. If keep is a folder, the assembly is stored there.
func run(to io.Writer, keep string) error {
	c, err := translate.NewCompiler(translate.Options{})
	if err != nil {
		return err
	}
	types := kernels.Types()
	all, errs := make([]map[string][]figures, len(types)), make([]error, len(types))
	var running sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, weight := range types {
		running.Go(func() {
			turns <- struct{}{}
			all[i], errs[i] = measureType(c, weight, keep)
			<-turns
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, op := range operations {
		table(to, op, types, all)
	}
	l, err := measureLong(c, false)
	if err != nil {
		return err
	}
	l.table(to)
	return nil
}

// measureType measures the mat-vecs of a type of weights.
func measureType(c *translate.Compiler, weight, keep string) (map[string][]figures, error) {
	all, text, err := measure(c, weight, operations[:])
	if keep != "" && text != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(keep, strings.ToLower(weight)+".s"), []byte(text), 0o666))
	}
	return all, err
}

// table prints the instructions per weight, by type and rows of activations.
func table(to io.Writer, op string, types []string, all []map[string][]figures) {
	fmt.Fprintf(to, "| %s |", op)
	for _, t := range rows {
		fmt.Fprintf(to, " %d |", t)
	}
	fmt.Fprintf(to, " registers | private bytes |\n|%s\n", strings.Repeat(" --- |", len(rows)+3))
	for i, weight := range types {
		registers, private := "", ""
		fmt.Fprintf(to, "| %s |", weight)
		for _, n := range all[i][op] {
			fmt.Fprintf(to, " %.2f |", n.perWeight)
			registers += fmt.Sprintf(" %d", n.registers)
			private += fmt.Sprintf(" %d", n.private)
		}
		fmt.Fprintf(to, "%s |%s |\n", registers, private)
	}
}

// table prints the costs of attention and long passes.
func (l long) table(to io.Writer) {
	fmt.Fprintf(to, "| attention, keys in F16, heads of 64 | |\n| --- | --- |\n")
	fmt.Fprintf(to, "| 1 to 8 rows: instructions of a lane for each multiplication | %.2f |\n", l.few)
	fmt.Fprintf(to, "| more rows: of a simdgroup for each of a row, key and head | %.2f |\n", l.many)
	fmt.Fprintf(to, "| a layer and row that sees %d keys, thousands of a simdgroup | %.0f |\n", context, l.attends())
	fmt.Fprintf(to, "| matrix products of that layer and row, Q8_0, thousands | %.0f |\n", l.multiplies())
}
