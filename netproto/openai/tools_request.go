package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tool is a function that the model may call.
type tool struct {
	name       string
	parameters json.RawMessage // JSON schema
	strict     bool
}

// toolChoice says which calls an answer may have.
type toolChoice struct {
	mode string // "none", "auto" or "required"
	name string // with required: of this function alone; "" for any
}

// toolNames are the names that functions may have.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// tools reads the functions that may be called.
func (f *fields) tools(r *chatRequest) {
	all, given := f.list("tools", mostTools)
	for i, raw := range all {
		all[i] = without(raw, ignoredInTools)
		o := parseFields(f.element("tools", i), all[i])
		t := o.tool()
		if err := o.end(); err != nil {
			f.fails(err)
			return
		}
		for _, other := range r.tools {
			if other.name == t.name {
				f.fail("tools", "two functions are called %s", t.name)
			}
		}
		r.tools = append(r.tools, t)
	}
	r.choice = toolChoice{mode: "none"}
	if given && len(all) > 0 {
		r.choice.mode = "auto"
	}
	f.toolChoice(r)
	parallel := true
	f.flag("parallel_tool_calls", &parallel)
	r.single = !parallel
	if r.choice.mode != "none" {
		r.talk.Tools = all
	}
	if r.choice.mode == "required" && r.format.constrained() {
		f.fail("response_format", "an answer that must be a call has no format of its own: leave it out")
	}
}

// tool reads a definition.
func (f *fields) tool() (t tool) {
	kind := ""
	f.text("type", &kind)
	if kind != "function" {
		f.fail("type", "give function: no other tools are known")
	}
	f.flag("strict", &t.strict)
	raw, ok := f.take("function")
	if !ok {
		f.missing("function", "give the definition of the function")
		return t
	}
	o := parseFields(f.path("function"), raw)
	if !o.text("name", &t.name) {
		o.missing("name", "give the name of the function")
	} else if !toolName.MatchString(t.name) {
		o.fail("name", "give 1 to 64 letters, digits, and _ - .")
	}
	description := ""
	o.text("description", &description)
	o.flag("strict", &t.strict)
	if t.parameters, ok = o.take("parameters"); ok && !isObject(t.parameters) {
		o.fail("parameters", "give a JSON schema of an object")
	}
	if !describes(t.parameters) {
		t.parameters = json.RawMessage(noParameters)
	}
	if err := o.end(); err != nil {
		f.fails(err)
	}
	return t
}

// describes reports whether the JSON schema of parameters says anything of them. One that only says that there is an
// object has nobody think of parameters: a function that takes any would say so by additionalProperties.
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

// toolChoice reads which function is to be called, if any.
func (f *fields) toolChoice(r *chatRequest) {
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
	case "none":
	case "auto": // also without tools, of which there is nothing to choose then
		if len(r.tools) == 0 {
			return
		}
	case "required":
		if len(r.tools) == 0 {
			f.fail("tool_choice", "there are no tools to choose from: give some, or leave it out")
		}
	default:
		f.fail("tool_choice", "give none, auto, required, or an object that names a function")
	}
	r.choice.mode = mode
}

// namedChoice reads the one function that is to be called.
func (f *fields) namedChoice(r *chatRequest, raw json.RawMessage) {
	if !isObject(raw) {
		f.fail("tool_choice", "give none, auto, required, or an object that names a function")
		return
	}
	o := parseFields(f.path("tool_choice"), raw)
	kind, name := "", ""
	o.text("type", &kind)
	if kind != "function" {
		o.all = nil
		o.fail("type", "give function: no other choice is known")
	}
	const form = `give the function's name: {"type": "function", "function": {"name": …}}`
	if raw, ok := o.take("function"); !ok {
		o.missing("function", form)
	} else {
		in := parseFields(o.path("function"), raw)
		if !in.text("name", &name) {
			in.missing("name", form)
		}
		if err := in.end(); err != nil {
			o.fails(err)
		}
	}
	r.choice = toolChoice{"required", name}
	if !slices.ContainsFunc(r.tools, func(t tool) bool { return t.name == name }) {
		o.fail("function.name", "no tool has this name")
	}
	if err := o.end(); err != nil {
		f.fails(err)
	}
}

// callSchema is the JSON schema of a call of one of the functions, and that of each by its name, to be followed with
// [Settings].Closed. Parameters that the model cannot follow are any object, unless the request insists on them. It
// ends with the cause of ctx when that does.
func (r *chatRequest) callSchema(ctx context.Context, m Model) (one []byte, each map[string][]byte, err error) {
	var all []json.RawMessage
	each = map[string][]byte{}
	for i, t := range r.tools {
		if r.choice.name != "" && t.name != r.choice.name {
			continue
		}
		if t.parameters, err = r.followed(ctx, m, i); err != nil {
			return nil, nil, err
		}
		each[t.name] = callOf(t, "")
		all = append(all, callOf(t, "/anyOf/"+strconv.Itoa(len(all))))
		one = each[t.name]
	}
	if len(all) == 1 {
		return one, each, nil
	}
	one = encode(map[string]any{"anyOf": all})
	_, err = m.Check(ctx, Settings{TopP: 1, Schema: one, Closed: true})
	if err != nil && ctx.Err() == nil {
		err = invalid("tools", "tools: all of them together: %v", err)
	}
	return one, each, err
}

// followed returns the parameters of a tool as the model follows them, and notes what of them it does not.
func (r *chatRequest) followed(ctx context.Context, m Model, i int) (json.RawMessage, error) {
	t, where := r.tools[i], fmt.Sprintf("tools[%d].function.parameters", i)
	ignored, err := m.Check(ctx, Settings{TopP: 1, Schema: callOf(t, ""), Closed: true})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
		var paths []string
		for _, path := range ignored {
			_, path, _ = strings.Cut(path, "/properties/arguments")
			paths = append(paths, "#"+strings.TrimPrefix(path, "/allOf/1"))
		}
		r.ignores(where, paths)
		return t.parameters, nil
	case t.strict:
		return nil, invalid("tools", "tools: parameters of %s: %v (as arguments are an object)", t.name, err)
	}
	r.ignores(where, []string{""}) // all of them
	return json.RawMessage(anyObject), nil
}

// JSON schemas of parameters that cannot be followed, and of none.
const (
	anyObject    = `{"type":"object"}`
	noParameters = `{"type":"object","properties":{}}`
)

// callOf is the JSON schema of a call of a function, which stands at a place in another one. References within the
// parameters are to themselves, and have to go on to be.
func callOf(t tool, place string) []byte {
	place += "/properties/arguments"
	arguments := t.parameters
	if !saysObject(arguments) { // a schema without a type, or of several, must not lead to arguments that are no object
		place += "/allOf/1"
		arguments = slices.Concat([]byte(`{"allOf":[`+anyObject+`,`), arguments, []byte(`]}`))
	}
	inner := reference.ReplaceAll(arguments, []byte(`"$$ref":"#`+place))
	var b bytes.Buffer
	b.WriteString(`{"type":"object","properties":{"name":{"const":`)
	b.Write(encode(t.name))
	b.WriteString(`},"arguments":`)
	b.Write(inner)
	b.WriteString(`},"required":["name","arguments"],"additionalProperties":false}`)
	return b.Bytes()
}

// saysObject reports whether a JSON schema is of objects alone, and says so itself.
func saysObject(schema []byte) bool {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && string(s.Type) == `"object"`
}

// reference matches the beginning of a reference within a JSON schema. In a string the quotes would stand behind
// backslashes.
var reference = regexp.MustCompile(`"\$ref"\s*:\s*"#`)
