package grammar

import (
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// maxStates is the maximum number of states of a grammar.
const maxStates = 1 << 18

// Builder builds the states of a grammar. A rule consists of the states that are reachable from its start without a
// call.
type Builder struct {
	make  *regular.Maker
	g     *Grammar
	parts map[string]int32 // starts of regular parts, by keys
}

// NewBuilder returns a Builder that makes regular parts with m.
func NewBuilder(m *regular.Maker) *Builder {
	return &Builder{m, &Grammar{bounds: []regular.Bounds{regular.Any()}}, map[string]int32{}}
}

// Full reports whether there are more states than a grammar may have.
func (b *Builder) Full() bool { return len(b.g.states) > maxStates }

// Trim returns the grammar of the rule that begins at start, for [Grammar.Next] only. It returns false if the rule has
// no value. The Builder must not be used afterwards.
func (b *Builder) Trim(start int32) (*Grammar, bool) {
	b.g.start = start
	return b.g, b.g.pruneDeadStates()
}

// Build is like Trim, but for all uses of the grammar. [Grammar.Ignored] returns ignored.
func (b *Builder) Build(start int32, ignored []string) (*Grammar, bool) {
	g, some := b.Trim(start)
	if some {
		g.computeShortestEnds()
		g.ignored = ignored
	}
	return g, some
}

// State adds a state.
func (b *Builder) State() int32 { return b.addState(0) }

func (b *Builder) addState(bounds int32) int32 {
	b.g.states = append(b.g.states, state{bounds: bounds})
	return int32(len(b.g.states) - 1)
}

func (b *Builder) addBounds(bounds regular.Bounds) int32 {
	b.g.bounds = append(b.g.bounds, bounds)
	return int32(len(b.g.bounds) - 1)
}

func (b *Builder) stateAt(s int32) *state { return &b.g.states[s] }

// End adds a state at which its rule ends.
func (b *Builder) End() int32 {
	s := b.State()
	b.stateAt(s).accept = true
	return s
}

// Jump adds a transition between two states without a byte.
func (b *Builder) Jump(from, to int32) { b.addJump(from, to, keep) }

func (b *Builder) addJump(from, to int32, o op) {
	b.stateAt(from).jumps = append(b.stateAt(from).jumps, jump{o, to})
}

// Literal adds a path for a text between two states.
func (b *Builder) Literal(from int32, text string, to int32) {
	for i := range len(text) {
		next := to
		if i+1 < len(text) {
			next = b.addState(b.stateAt(from).bounds)
		}
		b.stateAt(from).arcs = append(b.stateAt(from).arcs, arc{lo: text[i], hi: text[i], to: next})
		from = next
	}
}

// Spaced is Literal with an optional space after the text.
func (b *Builder) Spaced(from int32, text string, to int32) {
	space := b.addState(b.stateAt(from).bounds)
	b.Literal(from, text, space)
	b.Literal(space, " ", to)
	b.Jump(space, to)
}

// Call adds a path between two states for a value of the rule that begins at start.
func (b *Builder) Call(from, start, to int32) {
	b.stateAt(from).calls = append(b.stateAt(from).calls, call{start, to})
}

// Part adds a regular set, and returns its start. With a key other than "" it is built only once.
func (b *Builder) Part(key string, make func() (*regular.Set, error)) (int32, error) {
	if start, ok := b.parts[key]; ok && key != "" {
		return start, nil
	}
	d, err := make()
	if err == nil {
		err = b.make.Spend(20 * len(d.Arcs))
	}
	if err != nil {
		return 0, err
	}
	if d.Empty() {
		return b.State(), nil // it leads nowhere
	}
	free, err := b.make.Freedom(d)
	if err != nil {
		return 0, err
	}
	first := int32(len(b.g.states))
	for i, arcs := range d.Arcs {
		s := state{accept: d.End[i], regular: true, free: free[i]}
		for _, x := range arcs {
			s.arcs = append(s.arcs, arc{lo: x.Lo, hi: x.Hi, to: first + x.To})
		}
		b.g.states = append(b.g.states, s)
	}
	if key != "" {
		b.parts[key] = first
	}
	return first, nil
}

// String adds the strings with a length in characters, and returns their start.
func (b *Builder) String(length regular.Bounds) (int32, error) {
	key := fmt.Sprintf("any string %d %d", length.Min, length.Max)
	if start, ok := b.parts[key]; ok {
		return start, nil
	}
	char, err := b.make.Char()
	if err != nil {
		return 0, err
	}
	of := b.addBounds(length)
	start, loop := b.addState(of), b.addState(of)
	b.parts[key] = start
	b.Literal(start, `"`, loop)
	// The states of one character, of which the first is the loop: each way through it counts.
	names := make([]int32, len(char.Arcs))
	for i := range names {
		names[i] = b.addState(of)
	}
	names[0] = loop
	for i, arcs := range char.Arcs {
		for _, x := range arcs {
			to, o := names[x.To], keep
			if char.End[x.To] {
				to = loop
			}
			if i == 0 {
				o = count
			}
			b.stateAt(names[i]).arcs = append(b.stateAt(names[i]).arcs, arc{x.Lo, x.Hi, o, to})
		}
	}
	end := b.End()
	b.stateAt(loop).free = regular.InString
	b.stateAt(loop).arcs = append(b.stateAt(loop).arcs, arc{'"', '"', enough, end})
	sortArcs(b.stateAt(loop).arcs)
	return start, nil
}

// Counted adds the texts of a set with a length in characters, each followed by another text, and returns their start.
// The set has every beginning of its texts that ends with a whole character.
func (b *Builder) Counted(d *regular.Set, length regular.Bounds, after string) (int32, error) {
	free, err := b.make.Freedom(d)
	if err != nil {
		return 0, err
	}
	of := b.addBounds(length)
	first := int32(len(b.g.states))
	for range d.Arcs {
		b.addState(of)
	}
	end := b.addState(of)
	for i, arcs := range d.Arcs {
		s := b.stateAt(first + int32(i))
		s.free = free[i]
		for _, x := range arcs {
			o := keep
			if d.End[i] { // the first byte of a character
				o = count
			}
			s.arcs = append(s.arcs, arc{x.Lo, x.Hi, o, first + x.To})
		}
		if d.End[i] {
			b.addJump(first+int32(i), end, enough)
		}
	}
	b.Literal(end, after, b.End())
	return first, nil
}

// Step is a value of a rule in a list, after which the list is at another level.
type Step struct {
	Start int32 // of the rule
	Level int
}

// List adds a value, further ones as more allows, each after a comma, and then "]", which leads to the state closed. A
// list at level k begins at from[k], and continues with one of steps[k]. It may end at the levels from least on.
func (b *Builder) List(from []int32, steps [][]Step, least int, more regular.Bounds, closed int32) {
	of := b.addBounds(more)
	end, loops := b.addState(of), make([]int32, len(steps))
	for k := range loops {
		loops[k] = b.addState(of)
	}
	for k, loop := range loops {
		comma, next := b.addState(of), b.addState(of)
		b.addJump(loop, comma, count)
		b.Spaced(comma, ",", next)
		for _, s := range steps[k] {
			b.Call(from[k], s.Start, loops[s.Level])
			b.Call(next, s.Start, loops[s.Level])
		}
		if k >= least {
			b.addJump(loop, end, enough)
		}
	}
	b.Literal(end, "]", closed)
}

func sortArcs(arcs []arc) {
	slices.SortStableFunc(arcs, func(a, b arc) int { return int(a.lo) - int(b.lo) })
}

// Error describes what in a schema is wrong or not supported.
type Error struct {
	Path string // of the keyword or schema: a JSON pointer, such as "#/properties/age/multipleOf"
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the error without the path.
func (e *Error) Unwrap() error { return e.Err }
