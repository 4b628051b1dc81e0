// Command metalsource prints the source of the GPU's kernels as the program compiles it, for Apple's compiler to look at.
package main

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/kernels"
)

func main() { fmt.Print(kernels.Source()) }
