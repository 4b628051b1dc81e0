// Package regular makes regular sets of JSON texts, as automata over bytes: strings that match patterns, and numbers
// within bounds.
package regular

import "errors"

// ErrSize is returned for an automaton that would be too large.
var ErrSize = errors.New("it makes too large an automaton")

// ErrWork is returned for a schema that is small and yet takes too long.
var ErrWork = errors.New("it takes too long to make an automaton of it")

// Limits of a set, as counts, so that the same schemas are refused on every machine.
const (
	maxStates    = 1 << 16
	maxNFAStates = 1 << 18 // states of a graph
	maxKeys      = 1 << 26 // bytes of the keys of its sets of states
	maxSteps     = 1 << 26 // states, arcs and schemas that are visited: about a second
	stopEach     = 1 << 14
)

// Maker makes sets, and limits their total work.
type Maker struct {
	Stop func() error // called after each stopEach steps; an error ends the work

	steps    int
	matchers map[string]*Set // by pattern
	char     *Set            // any character of a string; nil before the first use
}

// Spend counts steps. It returns [ErrWork] if there were too many, or the error of Stop.
func (m *Maker) Spend(steps int) error {
	before := m.steps
	if m.steps += steps; m.steps > maxSteps {
		return ErrWork
	}
	if before/stopEach != m.steps/stopEach {
		return m.Stop()
	}
	return nil
}

// Bounds limit a count: of characters, items or properties.
type Bounds struct {
	Min int32
	Max int32 // or Unbounded
}

// Unbounded is the Max of a count without one.
const Unbounded = -1

// Any returns the bounds of an unlimited count.
func Any() Bounds { return Bounds{0, Unbounded} }

// Bounded reports whether there is a Max.
func (b Bounds) Bounded() bool { return b.Max != Unbounded }

// Empty reports whether no count is within b.
func (b Bounds) Empty() bool { return b.Bounded() && b.Min > b.Max }

// And returns the bounds that hold where b and o do.
func (b Bounds) And(o Bounds) Bounds {
	b.Min = max(b.Min, o.Min)
	if !b.Bounded() || o.Bounded() && o.Max < b.Max {
		b.Max = o.Max
	}
	return b
}
