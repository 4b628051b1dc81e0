// Command vet finds what go vet finds, for the system in GOOS and GOARCH, without compiling a package for it.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(vet.Suite...) }
