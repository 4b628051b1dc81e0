// Command instructions counts what the mat-vec kernels cost for each weight. There is no Mac where this program is
// written, so that another GPU of which clang knows the instructions stands in: the same source is compiled for it, and
// the instructions of the inner loop are counted. The figures are an estimate of what Apple's compiler makes.
//
// The inner loop is the one with the most fma. All instructions of its body count, those for vectors and scalars alike,
// with those of loops inside once; only hints about waiting do not. They are divided by the weights that a lane takes
// in one iteration. For several rows of activations, the figure is what a weight costs for all of them together.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

func main() {
	keep := flag.String("keep", "", "folder for the assembler's text")
	flag.Parse()
	c, err := translate.NewCompiler(translate.Options{})
	for _, op := range operations {
		if err == nil {
			err = table(c, op, *keep)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

// table prints the instructions for each weight, by type and rows of activations.
func table(c *translate.Compiler, op, keep string) error {
	fmt.Printf("| %s |", op)
	for _, t := range rows {
		fmt.Printf(" %d |", t)
	}
	fmt.Printf(" registers | private bytes |\n|%s\n", strings.Repeat(" --- |", len(rows)+3))
	for _, weight := range kernels.Types() {
		all, text, err := measure(c, op, weight)
		if keep != "" && text != "" {
			path := filepath.Join(keep, op+"_"+strings.ToLower(weight)+".s")
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		registers, private := "", ""
		fmt.Printf("| %s |", weight)
		for _, n := range all {
			fmt.Printf(" %.2f |", n.perWeight)
			registers += fmt.Sprintf(" %d", n.registers)
			private += fmt.Sprintf(" %d", n.private)
		}
		fmt.Printf("%s |%s |\n", registers, private)
	}
	return nil
}
