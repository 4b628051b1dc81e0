// Command metalsource writes the sources of the GPU's kernels into a folder, as the program compiles them: for each
// type of weights, and for the kernels that read none, a file of each form of their matrix products. Apple's compiler
// can then look at them.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pilotfish-ai/pilotfish/kernels"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: metalsource FOLDER")
		os.Exit(2)
	}
	if err := writeSource(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "metalsource:", err)
		os.Exit(1)
	}
}

func writeSource(folder string) error {
	for _, weight := range append(kernels.Types(), "") {
		for form, equal := range map[string]bool{"": false, "_equal": true} {
			path := filepath.Join(folder, "kernels"+weight+form+".metal")
			if err := os.WriteFile(path, []byte(kernels.Source(weight, equal)), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
