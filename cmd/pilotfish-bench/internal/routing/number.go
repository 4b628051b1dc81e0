package routing

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// numberFlag is a flag of an integer in a range, or a word that stands for one.
type numberFlag struct {
	to        *int
	words     map[string]int
	low, high int
}

// String implements pflag.Value.
func (n *numberFlag) String() string {
	for word, value := range n.words {
		if value == *n.to {
			return word
		}
	}
	return strconv.Itoa(*n.to)
}

// Set implements pflag.Value.
func (n *numberFlag) Set(text string) error {
	v, isWord := n.words[text]
	if !isWord {
		var err error
		if v, err = strconv.Atoi(text); err != nil || v < n.low || v > n.high {
			return fmt.Errorf("give %s, or a number from %d to %d", strings.Join(n.wordNames(), ", "), n.low, n.high)
		}
	}
	*n.to = v
	return nil
}

// Type implements pflag.Value.
func (n *numberFlag) Type() string { return strings.Join(n.wordNames(), "|") + "|N" }

func (n *numberFlag) wordNames() []string { return slices.Sorted(maps.Keys(n.words)) }

// maxNumber is more than any number of a flag can be of use.
const maxNumber = 1 << 20

// newAutoNumber returns a flag of a number from 1 on, or auto.
func newAutoNumber(to *int, auto int) *numberFlag {
	return &numberFlag{to, map[string]int{"auto": auto}, 1, maxNumber}
}

// lookupOff turns guesses from repetitions off.
const lookupOff = -1

// newLookupNumber returns the flag of the maximum number of tokens in a pass with guesses.
func newLookupNumber(to *int) *numberFlag {
	return &numberFlag{to, map[string]int{"auto": 0, "off": lookupOff}, 2, engine.MostLookup}
}
