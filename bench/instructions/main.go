// Command instructions counts what the kernels cost: mat-vecs for each weight, attention for each multiplication or for
// each row, key and head, and the matrix products of long passes. There is no Mac where this program is written, so
// that another GPU of which clang knows the instructions stands in: the same source is compiled for it, and the
// instructions of the inner loop are counted. The figures are an estimate of what Apple's compiler makes.
//
// The inner loop is the one with the most fma. All instructions of its body count, those for vectors and scalars alike,
// with those of loops inside; only hints about waiting and barriers do not. A product of 8 × 8 matrices counts as its
// 16 fma of 32 lanes, every other operation of a simdgroup as one instruction. For several rows of activations, the
// figure of a mat-vec is what a weight costs for all of them together.
package main

import (
	"errors"
	"flag"
	"fmt"
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
	if err := run(*keep); err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

// run measures all kernels and prints what they cost. If keep is a folder the assembler's text stays there.
func run(keep string) error {
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
		table(op, types, all)
	}
	return printLong(c)
}

// measureType measures the mat-vecs of a type.
func measureType(c *translate.Compiler, weight, keep string) (map[string][]figures, error) {
	all, text, err := measure(c, weight, operations[:])
	if keep != "" && text != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(keep, strings.ToLower(weight)+".s"), []byte(text), 0o666))
	}
	return all, err
}

// table prints the instructions for each weight, by type and rows of activations.
func table(op string, types []string, all []map[string][]figures) {
	fmt.Printf("| %s |", op)
	for _, t := range rows {
		fmt.Printf(" %d |", t)
	}
	fmt.Printf(" registers | private bytes |\n|%s\n", strings.Repeat(" --- |", len(rows)+3))
	for i, weight := range types {
		registers, private := "", ""
		fmt.Printf("| %s |", weight)
		for _, n := range all[i][op] {
			fmt.Printf(" %.2f |", n.perWeight)
			registers += fmt.Sprintf(" %d", n.registers)
			private += fmt.Sprintf(" %d", n.private)
		}
		fmt.Printf("%s |%s |\n", registers, private)
	}
}

// printLong prints what attention and long passes cost.
func printLong(c *translate.Compiler) error {
	l, err := measureLong(c)
	if err != nil {
		return err
	}
	fmt.Printf("| attention, keys in F16, heads of 64 | |\n| --- | --- |\n")
	fmt.Printf("| 1 to 8 rows: instructions of a lane for each multiplication | %.2f |\n", l.few)
	fmt.Printf("| more rows: of a simdgroup for each of a row, key and head | %.2f |\n", l.many)
	fmt.Printf("| a layer and row that sees %d keys, thousands of a simdgroup | %.0f |\n", context, l.attends())
	fmt.Printf("| matrix products of that layer and row, Q8_0, thousands | %.0f |\n", l.multiplies())
	return nil
}
