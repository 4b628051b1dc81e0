// Package schema compiles JSON schemas of drafts 4 to 2020-12 to grammars, within limits that docs/use/structured.md
// lists.
//
// A schema is read into nodes (read.go, document.go). A value fits some nodes together in one of several ways
// (ways.go), each of which becomes states of a rule (values.go, object.go). The values that do not fit a node form a
// node, too (negation.go).
//
// The texts of a grammar are a subset of those that the schema allows, in one spelling: compact JSON with at most one
// space after each comma and colon, keys in the order in which the schema names them, and characters escaped only if
// required.
package schema

import (
	"context"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

func errorf(path, format string, args ...any) error {
	return &grammar.Error{Path: path, Err: fmt.Errorf(format, args...)}
}

// Compile makes the grammar of the values of a JSON schema. With closed, objects that list properties have no others,
// unless additionalProperties says otherwise: authors who list properties usually mean these only. A schema that is
// wrong, is not supported, or allows no value at all gives a [grammar.Error].
//
// Steps and memory are limited. When ctx ends, Compile returns its cause.
func Compile(ctx context.Context, raw []byte, closed bool) (*grammar.Grammar, error) {
	return compile(ctx, raw, closed, (*compiler).rootStart)
}

func (c *compiler) rootStart() (int32, error) { return c.ruleStart(c.root) }

func compile(
	ctx context.Context, raw []byte, closed bool, begin func(c *compiler) (start int32, err error),
) (*grammar.Grammar, error) {
	g, err := compileSchema(newMaker(ctx), raw, closed, begin)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return g, err
}

func newMaker(ctx context.Context) *regular.Maker {
	return &regular.Maker{Stop: func() error { return context.Cause(ctx) }}
}

func compileSchema(
	m *regular.Maker, raw []byte, closed bool, begin func(c *compiler) (start int32, err error),
) (*grammar.Grammar, error) {
	r, err := readSchema(m, raw)
	if err != nil {
		return nil, err
	}
	r.closed = closed
	c := newCompiler(r)
	start, err := begin(c)
	if err == nil {
		err = c.buildPendingRules()
	}
	if err != nil {
		return nil, err
	}
	g, some := c.Build(start, r.ignored)
	if !some {
		return nil, c.noValueError()
	}
	return g, nil
}

func (c *compiler) noValueError() error {
	if c.left == nil && c.narrowed != "" {
		c.recordOmission(c.narrowed, "values have the types that its keywords are about, if it names no type")
	}
	if c.left != nil {
		return errorf("#", "no value that fits can be described: %w", c.left)
	}
	return errorf("#", "no value fits")
}

// compiler makes states from nodes.
type compiler struct {
	*reader
	*grammar.Builder
	rules   map[string]int32 // starts, by the nodes that they are of
	pending []func() error   // functions that build the rest of rules that have a start

	apartOf map[*node][]*node // alternatives of oneOf: see exclusiveOptions
	negated map[*node]*node   // negations of nodes
	unfit   map[*node]*node   // schemas of values that do not fit nodes: see complementNode
	any     *node             // of all values
	loose   bool              // values may include some that do not fit: see areDisjoint

	left     error  // why some values that fit are not generated; nil if all are
	narrowed string // path of a schema that has not all types that it allows: see allowedKinds
}

// recordOmission records the first reason why values that fit are not generated.
func (c *compiler) recordOmission(path, reason string, args ...any) {
	if c.left == nil {
		c.left = errorf(path, reason, args...)
	}
}

func newCompiler(r *reader) *compiler {
	return &compiler{reader: r, Builder: grammar.NewBuilder(r.Maker), rules: map[string]int32{},
		apartOf: map[*node][]*node{}, negated: map[*node]*node{}, unfit: map[*node]*node{}, any: r.newNode("#")}
}

func (c *compiler) buildPendingRules() error {
	for len(c.pending) > 0 {
		next := c.pending[0]
		c.pending = c.pending[1:]
		if err := next(); err != nil {
			return err
		}
		if c.Full() {
			return errorf("#", "%w", regular.ErrSize)
		}
	}
	return nil
}
