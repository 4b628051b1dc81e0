package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// The tags of a call of a function, as Qwen3.5 and Qwen3-Coder write it:
//
//	<function=NAME>
//	<parameter=KEY>
//	VALUE
//	</parameter>
//	</function>
//
// with any number of parameters. A string stands for itself, without quotes and escapes; other values are JSON.
const (
	FunctionTag  = "<function="
	ParameterTag = "<parameter="
	TagEnd       = ">\n"
	ValueEnd     = "\n" + parameterEnd + "\n"
	CallEnd      = "</function>\n"

	parameterEnd = "</parameter>" // in no string
)

// pythonWords are the spellings of values by Python, which templates write into prompts.
var pythonWords = map[string]string{"true": "True", "false": "False", "null": "None"}

// CompileCall makes the grammar of calls in tags from the schema of their JSON: objects with a name, which is constant,
// and arguments. Parameters and strings that tags cannot hold are left out. Otherwise it is like [Compile] with closed.
func CompileCall(ctx context.Context, raw []byte) (*grammar.Grammar, error) {
	return compile(ctx, raw, true, (*compiler).callStart)
}

func (c *compiler) callStart() (int32, error) {
	start := c.State()
	ways, err := c.expandChoices([]*node{c.root})
	for _, facts := range ways {
		o := objectOf(facts)
		arguments, err := c.startOf("in tags ", c.addParameters, o.schemasOf("arguments"))
		if err != nil {
			return 0, err
		}
		for _, name := range listedValues(o.schemasOf("name")) {
			open, end := c.State(), c.State()
			c.Literal(start, FunctionTag+unquote(name)+TagEnd, open)
			c.Call(open, arguments, end)
			c.Literal(end, CallEnd, c.End())
		}
	}
	return start, err
}

// unquote returns a string that is JSON.
func unquote(value string) (s string) {
	_ = json.Unmarshal([]byte(value), &s) // it was made by regular.Quote
	return s
}

func (c *compiler) addParameters(start int32, facts []*node) error {
	if listedValues(facts) != nil {
		return errorf(pathOf(facts), "listed objects are not supported as arguments in tags")
	}
	if c.allowedKinds(facts)&object == 0 {
		return nil
	}
	return c.addObjectIn(start, facts, true)
}

// isTagName reports whether a tag can hold the name of a parameter.
func isTagName(name string) bool { return name != "" && !strings.ContainsAny(name, ">\n") }

// tagNames returns the names of a set that tags can hold.
func (c *compiler) tagNames(names *regular.Set) (*regular.Set, error) {
	can, err := c.Matching(`^[^>\n]+$`)
	if err == nil {
		names, err = c.And(names, can)
	}
	if err != nil {
		return nil, err
	}
	return c.Unquote(names)
}

// addTagged adds the values of a parameter, each with the end of its tag.
func (c *compiler) addTagged(start int32, facts []*node) error {
	others, end := c.State(), c.State()
	c.Call(start, others, end)
	c.Literal(end, ValueEnd, c.End())
	if err := c.addOthers(others, facts); err != nil {
		return err
	}
	list := listedValues(facts)
	if list == nil && c.allowedKinds(facts)&text != 0 {
		return c.addTexts(start, facts)
	}
	list, err := c.fittingValues(facts, list)
	if err != nil {
		return err
	}
	var texts []string
	for _, v := range list {
		switch s := unquote(v); {
		case v[0] != '"':
		case strings.Contains(s, parameterEnd):
			c.recordOmission(pathOf(facts), "tags cannot hold the end of their own")
		default:
			texts = append(texts, s+ValueEnd)
		}
	}
	return c.addRegularPart(start, pathOf(facts), "", func() (*regular.Set, error) { return regular.Of(texts) })
}

// addOthers adds the values of a parameter that are no strings.
func (c *compiler) addOthers(start int32, facts []*node) error {
	list := listedValues(facts)
	if list == nil {
		k, not := c.allowedKinds(facts), exceptedValues(facts, boolean|null)
		for _, word := range literalWords(k) {
			if !slices.Contains(not, word) {
				c.Literal(start, pythonWords[word], c.End())
			}
		}
		return c.addKinds(start, facts, k&^text)
	}
	list, err := c.fittingValues(facts, list)
	if err != nil {
		return err
	}
	var values []string
	for _, v := range list {
		if word := pythonWords[v]; word != "" {
			values = append(values, word)
		}
		if v[0] != '"' {
			values = append(values, v)
		}
	}
	return c.addRegularPart(start, pathOf(facts), "", func() (*regular.Set, error) { return regular.Values(values) })
}

// addTexts adds strings without quotes, each with the end of the tag.
func (c *compiler) addTexts(start int32, facts []*node) error {
	s, path := stringConditions(facts)
	if s.Length.Empty() {
		return nil
	}
	c.recordFormats(facts, s)
	if length := s.Length; s.Any() && (length.Bounded() || length.Min > 1) {
		s.Length = regular.Any()
		d, err := c.plainTexts(s)
		if err != nil {
			return &grammar.Error{Path: path, Err: err}
		}
		begin, err := c.Counted(d, length, ValueEnd)
		c.Jump(start, begin)
		return err
	}
	key := fmt.Sprintf("text %v %q %q %q", s.Length, s.Match, s.Not, s.Except)
	return c.addRegularPart(start, path, key, func() (*regular.Set, error) {
		d, err := c.plainTexts(s)
		if err != nil {
			return nil, err
		}
		return c.Before(d, ValueEnd)
	})
}

// plainTexts returns strings without quotes, except those with the end of a tag.
func (c *compiler) plainTexts(s regular.Strings) (*regular.Set, error) {
	s.Not = append(slices.Clip(s.Not), parameterEnd)
	d, err := c.Strings(s)
	if err != nil {
		return nil, err
	}
	return c.Unquote(d)
}
