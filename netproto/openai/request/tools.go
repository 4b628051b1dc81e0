package request

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// tool is a function that the model may call.
type tool struct {
	Name       string
	parameters json.RawMessage // JSON schema
	at         string          // path of the parameters in the request
	strict     bool
	definition json.RawMessage // in the form for the prompt
	Namespace  string          // group of the function in the request; "" for none
}

// toolChoice determines which calls an answer may have.
type toolChoice struct {
	Mode string // "none", "auto" or "required"
	name string // with required: the only function allowed; "" for any
}

// toolName matches the valid names of functions.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func (f *fields) tools(r *Chat) {
	all, _ := f.list("tools", maxTools)
	for i, raw := range all {
		all[i] = without(raw, ignoredInTools)
	}
	f.elements("tools", all, func(o *fields) {
		t := o.tool()
		t.definition = all[len(r.Tools)]
		f.offer(r, t)
	})
	f.choose(r, f.toolChoice)
}

func (f *fields) offer(r *Chat, t tool) {
	if r.offers(t.Name) {
		f.fail("tools", "two functions are called %s", t.Name)
	}
	r.Tools = append(r.Tools, t)
}

// offers reports whether a function with this name is available.
func (r *Chat) offers(name string) bool {
	return slices.ContainsFunc(r.Tools, func(t tool) bool { return t.Name == name })
}

// choose parses which functions must be called, and adds their definitions to the conversation.
func (f *fields) choose(r *Chat, choice func(*Chat)) {
	r.Choice = toolChoice{Mode: "auto"}
	choice(r)
	parallel := !r.Single
	f.flag("parallel_tool_calls", &parallel)
	r.Single = !parallel
	if r.Choice.Mode != "none" {
		for _, t := range r.Tools {
			r.Talk.Tools = append(r.Talk.Tools, t.definition)
		}
	}
	if r.Choice.Mode == "required" && r.Settings.Structured() && f.err == nil {
		f.err = Invalid(r.formatAt, "%s: an answer that must be a call has no format of its own: leave it out",
			r.formatAt)
	}
}

func (f *fields) tool() (t tool) {
	f.one("type", "function", "give function: no other tools are known")
	f.flag("strict", &t.strict)
	if !f.object("function", func(o *fields) { o.function(&t, "parameters") }) {
		f.missing("function", "give the definition of the function")
	}
	return t
}

// definition is the definition of a function in the form that models are trained on.
type definition struct {
	Type     string  `json:"type"`
	Function defined `json:"function"`
}

type defined struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// function parses the definition of a function; parameters is the name of the field with their JSON schema.
func (f *fields) function(t *tool, parameters string) {
	if !f.text("name", &t.Name) {
		f.missing("name", "give the name of the function")
	} else if !toolName.MatchString(t.Name) {
		f.fail("name", "give 1 to 64 letters, digits, and _ - .")
	}
	description, ok := "", false
	f.text("description", &description)
	f.flag("strict", &t.strict)
	t.at = f.path(parameters)
	if t.parameters, ok = f.take(parameters); ok && !isObject(t.parameters) {
		f.fail(parameters, "give a JSON schema of an object")
	}
	if f.err == nil {
		t.definition = Encode(definition{"function", defined{t.Name, description, t.parameters}})
	}
	if !describes(t.parameters) {
		t.parameters = json.RawMessage(noParameters)
	}
}

// describes reports whether a JSON schema describes parameters. A schema with only the type object describes none: a
// function that accepts any parameters would have additionalProperties.
func describes(parameters json.RawMessage) bool {
	var all map[string]json.RawMessage
	if json.Unmarshal(parameters, &all) != nil {
		return false // there is none
	}
	for name, value := range all {
		switch name {
		case "type":
			if string(value) != `"object"` {
				return true
			}
		case "required":
			if string(value) != "[]" {
				return true
			}
		case "$schema", "title", "description":
		default:
			return true
		}
	}
	return false
}

// toolChoice parses which function must be called, if any.
func (f *fields) toolChoice(r *Chat) {
	raw, ok := f.take("tool_choice")
	if !ok {
		return
	}
	var mode string
	if json.Unmarshal(raw, &mode) != nil {
		f.namedChoice(r, raw)
		return
	}
	switch mode {
	case "none", "auto": // also without tools
	case "required":
		if len(r.Tools) == 0 {
			f.fail("tool_choice", "there are no tools to choose from: give some, or leave it out")
		}
	default:
		f.fail("tool_choice", "give none, auto, required, or an object that names a function")
	}
	r.Choice.Mode = mode
}

// namedChoice parses the one function that must be called.
func (f *fields) namedChoice(r *Chat, raw json.RawMessage) {
	if !isObject(raw) {
		f.fail("tool_choice", "give none, auto, required, or an object that names a function")
		return
	}
	f.within(f.path("tool_choice"), raw, func(o *fields) {
		o.one("type", "function", "give function: no other choice is known")
		if !o.object("function", func(in *fields) { in.chosen(r) }) {
			o.missing("function", `give the function's name: {"type": "function", "function": {"name": …}}`)
		}
	})
}

// chosen parses the name of the one function that must be called.
func (f *fields) chosen(r *Chat) {
	r.Choice.Mode = "required"
	if !f.text("name", &r.Choice.name) {
		f.missing("name", "give the function's name")
	} else if !r.offers(r.Choice.name) {
		f.fail("name", "no tool has this name")
	}
}

// CallSchemas returns the JSON schemas of calls of the functions, to be used with Settings.Closed. Parameters with an
// unsupported schema may be any object, unless the request requires the schema. It returns the cause of ctx when that
// ends.
func (r *Chat) CallSchemas(ctx context.Context, m answer.Model) (s answer.Calls, err error) {
	var all []json.RawMessage
	s.Each = map[string][]byte{}
	for i, t := range r.Tools {
		if r.Choice.name != "" && t.Name != r.Choice.name {
			continue
		}
		if t.parameters, err = r.followed(ctx, m, i); err != nil {
			return s, err
		}
		s.One = callOf(t, "")
		s.Each[t.Name] = s.One
		all = append(all, callOf(t, "/anyOf/"+strconv.Itoa(len(all))))
	}
	if len(all) == 1 {
		return s, nil
	}
	s.One = Encode(map[string]any{"anyOf": all})
	_, err = m.Check(ctx, answer.Settings{TopP: 1, Schema: s.One, Closed: true})
	if err != nil && ctx.Err() == nil {
		err = Invalid("tools", "tools: all of them together: %v", err)
	}
	return s, err
}

// followed returns the schema of a tool's parameters in the form to use, and records keywords without effect.
func (r *Chat) followed(ctx context.Context, m answer.Model, i int) (json.RawMessage, error) {
	t := r.Tools[i]
	ignored, err := m.Check(ctx, answer.Settings{TopP: 1, Schema: callOf(t, ""), Closed: true})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
		var paths []string
		for _, path := range ignored {
			_, path, _ = strings.Cut(path, "/properties/arguments")
			paths = append(paths, "#"+strings.TrimPrefix(path, "/allOf/1"))
		}
		r.ignores(t.at, paths)
		return t.parameters, nil
	case t.strict:
		return nil, Invalid("tools", "tools: parameters of %s: %v (as arguments are an object)", t.Name, err)
	}
	r.ignores(t.at, []string{""}) // all keywords
	return json.RawMessage(anyObject), nil
}

// JSON schemas for parameters with an unsupported schema, and for no parameters.
const (
	anyObject    = `{"type":"object"}`
	noParameters = `{"type":"object","properties":{}}`
)

// callOf returns the JSON schema of a call of a function, which will be at a place in another schema. References in the
// schema of the parameters are adjusted to that place.
func callOf(t tool, place string) []byte {
	place += "/properties/arguments"
	arguments := t.parameters
	if !saysObject(arguments) { // a schema without a type, or with several, must not allow other values than objects
		place += "/allOf/1"
		arguments = slices.Concat([]byte(`{"allOf":[`+anyObject+`,`), arguments, []byte(`]}`))
	}
	inner := reference.ReplaceAll(arguments, []byte(`"$$ref":"#`+place))
	var b bytes.Buffer
	b.WriteString(`{"type":"object","properties":{"name":{"const":`)
	b.Write(Encode(t.Name))
	b.WriteString(`},"arguments":`)
	b.Write(inner)
	b.WriteString(`},"required":["name","arguments"],"additionalProperties":false}`)
	return b.Bytes()
}

// saysObject reports whether a JSON schema explicitly allows only objects.
func saysObject(schema []byte) bool {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && string(s.Type) == `"object"`
}

// reference matches the beginning of a reference within a JSON schema. It does not match in a string, where the quotes
// are escaped.
var reference = regexp.MustCompile(`"\$ref"\s*:\s*"#`)
