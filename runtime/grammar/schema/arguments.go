package schema

import (
	"context"
	"encoding/json"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// Arguments says what the values of a call in tags are, which do not show their types. One goroutine may use it.
type Arguments struct {
	r      *reader
	ways   [][]*node                   // of the object of arguments
	others map[string]*grammar.Grammar // by parameter: of values that are no strings; nil: there are none
}

// ReadArguments reads the schema of a call of one function: see [CompileCall].
func ReadArguments(ctx context.Context, raw []byte) (*Arguments, error) {
	r, err := readSchema(newMaker(ctx), raw)
	if err != nil {
		return nil, err
	}
	r.closed = true
	a, c := &Arguments{r: r, others: map[string]*grammar.Grammar{}}, newCompiler(r)
	calls, err := c.expandChoices([]*node{r.root})
	for _, facts := range calls {
		ways, err := c.expandChoices(objectOf(facts).schemasOf("arguments"))
		if err != nil {
			return nil, err
		}
		a.ways = append(a.ways, ways...)
	}
	return a, err
}

// IsText reports whether all values of a parameter are strings.
func (a *Arguments) IsText(parameter string) (bool, error) {
	g, err := a.grammarOf(parameter)
	return g == nil, err
}

// Value returns the value of a parameter, in JSON, that a text in tags stands for: where it can be another value than a
// string, it is that.
func (a *Arguments) Value(parameter, value string) (json.RawMessage, error) {
	g, err := a.grammarOf(parameter)
	if err != nil {
		return nil, err
	}
	if g != nil {
		if s := g.Next(g.Start(), []byte(value)...); s != nil && s.Done() {
			return json.RawMessage(jsonWord(value)), nil
		}
	}
	return json.RawMessage(regular.Quote(value)), nil
}

// jsonWord returns the JSON of a value that may be spelled by Python.
func jsonWord(value string) string {
	for word, python := range pythonWords {
		if value == python {
			return word
		}
	}
	return value
}

// grammarOf returns the grammar of the values of a parameter that are no strings; nil if there are none.
func (a *Arguments) grammarOf(parameter string) (*grammar.Grammar, error) {
	if g, known := a.others[parameter]; known {
		return g, nil
	}
	c := newCompiler(a.r)
	start := c.State()
	for _, facts := range a.ways {
		values, err := c.namedPropertySchemas(&properties{objects: objectOf(facts)}, parameter)
		if err != nil {
			return nil, err
		}
		others, err := c.startOf("no string ", c.addOthers, values)
		if err != nil {
			return nil, err
		}
		c.Jump(start, others)
	}
	if err := c.buildPendingRules(); err != nil {
		return nil, err
	}
	g, some := c.Trim(start)
	if !some {
		g = nil
	}
	a.others[parameter] = g
	return g, nil
}
