package speed

import (
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// MostRows is the maximum number of rows of a forward pass that [Matrix] measures: as for a draft tree.
const MostRows = 8

// Matrix configures a measurement: [Matrix.Run] measures all combinations of its lists.
type Matrix struct {
	Model  string
	Engine engine.Options // Context grows to hold the longest run

	Depths  []int // tokens of context before the measured part, at least one; for rows and generation at least 8
	Prompts []int // tokens of prompts; empty or 0 leaves prompts out
	Decodes []int // tokens generated; empty or 0 leaves generation out
	Rows    []int // rows of one forward pass, 1 to [MostRows]; empty leaves that out. A cost is relative to that of 1

	Repeat   int                        // samples of each; at least 1
	OnSample func(_ Cell, done, of int) // called after each sample; may be nil

	memory [][]byte // memory for measuring the bandwidth, in tests: less than [record.FarBytes]
	// in tests: bytes per second, instead of [cpu.ReadBandwidth]
	read func(threads int, memory ...[]byte) float64
}

// Cell is one combination. It does not measure those of Prompt, Decode and Rows that are 0.
type Cell struct{ Depth, Prompt, Decode, Rows int }

func filterPositive(list []int) (some []int) {
	for _, n := range list {
		if n > 0 {
			some = append(some, n)
		}
	}
	return some
}

// listCells returns the combinations. A single prompt length and a single generation length share one; several lengths
// have separate ones, so that nothing is measured twice. Rows begin with one.
func (m *Matrix) listCells() (all []Cell) {
	prompts, decodes, rows := filterPositive(m.Prompts), filterPositive(m.Decodes), m.Rows
	if len(rows) > 0 && !slices.Contains(rows, 1) {
		rows = append([]int{1}, rows...)
	}
	for _, depth := range m.Depths {
		for _, n := range rows {
			all = append(all, Cell{Depth: depth, Rows: n})
		}
		if len(prompts) == 1 && len(decodes) == 1 {
			all = append(all, Cell{Depth: depth, Prompt: prompts[0], Decode: decodes[0]})
			continue
		}
		for _, n := range prompts {
			all = append(all, Cell{Depth: depth, Prompt: n})
		}
		for _, n := range decodes {
			all = append(all, Cell{Depth: depth, Decode: n})
		}
	}
	return all
}

func (c Cell) neededContext() int {
	return max(c.Depth+c.Prompt+1, c.contextTokens()+c.Decode+1, c.contextTokens()+c.Rows)
}

func (c Cell) contextTokens() int { return max(firstPrompt, c.Depth) }
