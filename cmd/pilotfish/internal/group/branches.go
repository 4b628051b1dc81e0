package group

import (
	"errors"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// branchCount is the value of --branches in the form of the engine: [engine.AutoBranches], or a number.
type branchCount int

// String implements pflag.Value.
func (b *branchCount) String() string {
	if *b == engine.AutoBranches {
		return "auto"
	}
	return strconv.Itoa(int(*b))
}

// Set implements pflag.Value.
func (b *branchCount) Set(s string) error {
	if s == "auto" {
		*b = engine.AutoBranches
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("give auto, or a number of guesses from 1 on")
	}
	*b = branchCount(n)
	return nil
}

// Type implements pflag.Value.
func (b *branchCount) Type() string { return "auto|N" }
