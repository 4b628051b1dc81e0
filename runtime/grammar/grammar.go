// Package grammar computes which bytes, and which tokens of a vocabulary, may come next in a text that must be a JSON
// value of some form. Package schema compiles JSON schemas to grammars.
//
// A [Grammar] is an automaton over bytes, with rules for values that call each other, because values nest. A [State] is
// the set of places in the automaton that the bytes so far can lead to, each with the rules to return to. A state
// determines a mask over the vocabulary; see [Matcher]. Every text that begins a value can be completed.
package grammar

import (
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// state is a place in a rule.
type state struct {
	arcs   []arc  // taken with a byte
	jumps  []jump // taken without one
	calls  []call // a value at this place
	bounds int32  // bounds of the rule's count: an index
	accept bool   // the rule may end here

	regular bool // of a part with only arcs, which do not count
	free    regular.Freedom
}

// arc leads to a state with any byte of lo to hi.
type arc struct {
	lo, hi byte
	op     op
	to     int32
}

// jump leads to a state without a byte.
type jump struct {
	op op
	to int32
}

// call is a value of a rule. After it the text continues at a state.
type call struct {
	start int32 // of the rule
	back  int32
}

// op is the effect of a transition on the count of a rule.
type op uint8

const (
	keep   op = iota
	count     // one more, if there may be
	enough    // only if there are enough
)

func applyOp(b regular.Bounds, o op, n int32) (int32, bool) {
	switch {
	case o == count && !b.Bounded():
		return min(n+1, b.Min), true // a larger count makes no difference
	case o == count:
		return n + 1, n < b.Max
	case o == enough:
		return n, n >= b.Min
	}
	return n, true
}

// Grammar is an immutable automaton.
type Grammar struct {
	states []state
	bounds []regular.Bounds
	start  int32
	ends   [][]shortestEnd // of states, by the number of missing repetitions

	ignored []string
}

// Ignored returns the paths of keywords that have no effect: those that no draft of JSON schema defines, and unknown
// formats. It returns at most 100 of them.
func (g *Grammar) Ignored() []string { return g.ignored }

// Bytes returns about how much memory the grammar uses.
func (g *Grammar) Bytes() int {
	n := 0
	for i := range g.states {
		s := &g.states[i]
		n += int(unsafe.Sizeof(*s)) + cap(s.arcs)*int(unsafe.Sizeof(arc{})) + cap(s.jumps)*int(unsafe.Sizeof(jump{})) +
			cap(s.calls)*int(unsafe.Sizeof(call{}))
	}
	for _, of := range g.ends {
		n += int(unsafe.Sizeof(of)) + len(of)*int(unsafe.Sizeof(shortestEnd{}))
	}
	return n + len(g.bounds)*int(unsafe.Sizeof(regular.Bounds{}))
}

// frame is a rule that waits for the end of a value.
type frame struct {
	back int32 // the state after the value
	n    int32 // its count
	up   *frame
}

// equalFrames reports whether two frames, and all above them, are equal.
func (f *frame) equalFrames(g *frame) bool {
	for f != g {
		if f == nil || g == nil || f.back != g.back || f.n != g.n {
			return false
		}
		f, g = f.up, g.up
	}
	return true
}

// thread is one way to read the bytes so far: a state with arcs, the count of its rule, and the frames of waiting
// rules.
type thread struct {
	at, n int32
	up    *frame
}

// State is the state of a text in a grammar. It is immutable.
type State struct {
	threads []thread
	done    bool
}

// Done reports whether the text is a whole value.
func (s *State) Done() bool { return s.done }

// Start returns the state at the beginning of a text.
func (g *Grammar) Start() *State {
	s := new(State)
	s.threads, s.done = g.appendClosure(nil, g.start, 0, nil)
	return s
}

// Next returns the state after more bytes; nil if they cannot follow.
func (g *Grammar) Next(s *State, text ...byte) *State {
	here, spare, done := s.threads, []thread(nil), s.done
	for _, b := range text {
		spare, done = g.stepByte(spare[:0], here, b)
		if len(spare) == 0 && !done {
			return nil
		}
		here, spare = spare, nil
	}
	return &State{here, done}
}

// maxThreads is the maximum number of ways to read a text that are followed. Further ones are given up: the allowed
// texts are then fewer, but still of the schema.
const maxThreads = 256

// stepByte appends the threads after a byte, and reports whether the text is then a whole value.
func (g *Grammar) stepByte(to, threads []thread, b byte) (_ []thread, done bool) {
	for _, t := range threads {
		s := &g.states[t.at]
		for _, a := range s.arcs {
			if b < a.lo {
				break // arcs are sorted
			}
			if b > a.hi {
				continue
			}
			n, ok := applyOp(g.bounds[s.bounds], a.op, t.n)
			if !ok {
				continue
			}
			var over bool
			to, over = g.appendClosure(to, a.to, n, t.up)
			done = done || over
		}
	}
	return to, done
}

// appendClosure appends the places that can be reached from a state without a byte, and reports whether one is the end
// of the text.
func (g *Grammar) appendClosure(to []thread, at, n int32, up *frame) (_ []thread, done bool) {
	s := &g.states[at]
	if len(s.arcs) > 0 {
		to = addUniqueThread(to, thread{at, n, up})
	}
	var over bool
	for _, j := range s.jumps {
		if n, ok := applyOp(g.bounds[s.bounds], j.op, n); ok {
			to, over = g.appendClosure(to, j.to, n, up)
			done = done || over
		}
	}
	for _, c := range s.calls {
		to, over = g.appendClosure(to, c.start, 0, &frame{c.back, n, up})
		done = done || over
	}
	switch {
	case !s.accept:
	case up == nil:
		done = true
	default:
		to, over = g.appendClosure(to, up.back, up.n, up.up)
		done = done || over
	}
	return to, done
}

// addUniqueThread appends a thread unless it is there already, or there are maxThreads.
func addUniqueThread(to []thread, t thread) []thread {
	for _, o := range to {
		if o.at == t.at && o.n == t.n && o.up.equalFrames(t.up) {
			return to
		}
	}
	if len(to) >= maxThreads {
		return to
	}
	return append(to, t)
}
