package request

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
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
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// parseTools parses the functions that the model may call. own is the type of functions in this API. Tools of other
// types, which the server or its cloud would have to run or to describe, are left out.
func (f *fields) parseTools(r *Chat, own, namespace string) {
	all, _ := f.parseList("tools", maxTools)
	i := -1
	f.parseElements("tools", all, func(o *fields) {
		i++
		kind := ""
		o.parseString("type", &kind)
		o.ignoreHarmless(ignoredInTools...)
		switch {
		case kind == "namespace" && namespace == "":
			name := ""
			o.parseString("name", &name)
			o.parseTools(r, own, name)
		case kind != own && kind != "":
			o.ignoreTool(kind)
		default:
			o.parseTool(r, namespace, all[i])
		}
	})
	if len(r.Tools) > maxTools && namespace == "" {
		f.failField("tools", "%d functions are too many: give at most %d", len(r.Tools), maxTools)
	}
}

func (f *fields) ignoreTool(kind string) {
	f.all = nil
	if f.strict {
		f.failField("type", "this server runs no tools, and knows functions alone: leave out %s", Shown(kind))
	}
	f.recordIgnored(f.at + ": " + plainName(kind))
}

// parseTool parses a function. The prompt has its definition as in the request, if that has the form that models are
// trained on.
func (f *fields) parseTool(r *Chat, namespace string, raw json.RawMessage) {
	var callers []string
	f.parseValue("allowed_callers", &callers, "give a list of strings")
	if callers != nil && !slices.Contains(callers, "direct") { // programs that the server would have to run
		f.ignoreTool("allowed_callers")
		return
	}
	t := tool{Namespace: namespace}
	f.parseBool("strict", &t.strict)
	var more []string
	if f.parseObject("function", func(o *fields) {
		o.parseDefinition(&t)
		more = o.remainingNames()
	}) && len(more) == 0 {
		t.definition = withoutFields(raw,
			slices.Concat(f.remainingNames(), ignoredInTools, []string{"allowed_callers"}))
	} else if t.Name == "" && f.err == nil {
		f.parseDefinition(&t)
	}
	f.addTool(r, t)
}

// parseFunctions parses the older form of tools, in which an answer has at most one call.
func (f *fields) parseFunctions(r *Chat) {
	f.parseObjects("functions", maxTools, func(o *fields) {
		var t tool
		o.parseDefinition(&t)
		f.addTool(r, t)
		r.Older, r.Single = true, true
	})
}

func (f *fields) addTool(r *Chat, t tool) {
	for _, other := range r.Tools {
		if other.Name == t.Name && bytes.Equal(other.definition, t.definition) {
			return
		}
	}
	if r.hasTool(t.Name) {
		f.failField("name", "two functions are called %s: give each a name of its own", t.Name)
	}
	r.Tools = append(r.Tools, t)
}

func (r *Chat) hasTool(name string) bool {
	return slices.ContainsFunc(r.Tools, func(t tool) bool { return t.Name == name })
}

// applyToolChoice parses which functions must be called, and adds their definitions to the conversation. An answer that
// must be a call has no format of its own.
func (f *fields) applyToolChoice(r *Chat) {
	r.Choice = toolChoice{Mode: "auto"}
	if !isEmpty(f.all["tool_choice"]) {
		f.parseToolChoice(r, "tool_choice")
	} else {
		f.parseToolChoice(r, "function_call") // the older form
	}
	parallel := !r.Single
	f.parseBool("parallel_tool_calls", &parallel)
	r.Single = r.Single || !parallel
	if r.Choice.Mode != "none" {
		for _, t := range r.Tools {
			r.Talk.Tools = append(r.Talk.Tools, t.definition)
		}
	}
	if s := &r.Settings; r.Choice.Mode == "required" && s.Structured() {
		s.JSON, s.Schema, s.Closed = false, nil, false
		f.recordIgnored(r.formatAt)
	}
}

// toolDefinition is the definition of a function in the form that models are trained on.
type toolDefinition struct {
	Type     string             `json:"type"`
	Function functionDefinition `json:"function"`
}

type functionDefinition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

func (f *fields) parseDefinition(t *tool) {
	parameters := "parameters"
	if f.all["input_schema"] != nil { // in Anthropic's API
		parameters = "input_schema"
	}
	if !f.parseString("name", &t.Name) {
		f.failMissing("name", "give the name of the function")
	} else if !toolName.MatchString(t.Name) {
		f.failField("name", "give 1 to 128 letters, digits, and _ - .")
	}
	description, ok := "", false
	f.parseString("description", &description)
	f.parseBool("strict", &t.strict)
	t.at = f.fieldPath(parameters)
	if t.parameters, ok = f.takeField(parameters); ok && isEmpty(t.parameters) && !isObject(t.parameters) {
		t.parameters = nil
	} else if ok && !isObject(t.parameters) {
		f.failField(parameters, "give a JSON schema of an object")
	}
	if f.err == nil {
		t.definition = Encode(toolDefinition{"function", functionDefinition{t.Name, description, t.parameters}})
	}
	if !hasParameters(t.parameters) {
		t.parameters = json.RawMessage(noParameters)
	}
}

// hasParameters reports whether a JSON schema describes parameters. A schema with only the type object describes none:
// a function that accepts any parameters would have additionalProperties.
func hasParameters(parameters json.RawMessage) bool {
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

func (f *fields) parseToolChoice(r *Chat, name string) {
	mode := ""
	if isObject(f.all[name]) {
		f.parseObject(name, func(o *fields) { o.parseChoiceObject(r) })
	} else if f.parseValue(name, &mode, "give none, auto, required, or an object that names a function") {
		f.setChoiceMode(name, mode, r)
	}
}

func (f *fields) setChoiceMode(name, mode string, r *Chat) {
	switch mode {
	case "none", "auto", "": // also without tools
		r.Choice.Mode = cmp.Or(mode, "auto")
	case "required", "any":
		if r.Choice.Mode = "required"; len(r.Tools) == 0 {
			f.failField(name, "there are no tools to choose from: give some, or leave it out")
		}
	default:
		f.failField(name, "give none, auto, required, or an object that names a function")
	}
}

func (f *fields) parseChoiceObject(r *Chat) {
	kind := "function"
	f.parseString("type", &kind)
	f.parseBool("disable_parallel_tool_use", &r.Single)
	switch kind {
	case "function", "tool":
		r.Choice.Mode, r.Choice.name = "required", f.parseFunctionName(r)
	case "allowed_tools":
		if !f.parseObject(kind, func(o *fields) { o.parseAllowedTools(r) }) {
			f.parseAllowedTools(r)
		}
	case "none", "auto", "any", "required":
		f.setChoiceMode("type", kind, r)
	default:
		f.failField("type", "this server runs no tools, and can require functions alone: leave it out")
	}
}

func (f *fields) parseFunctionName(r *Chat) (name string) {
	read := func(o *fields) {
		o.parseRequired("name", &name, "give the function's name")
		if !r.hasTool(name) {
			o.failField("name", "no tool has this name")
		}
	}
	if !f.parseObject("function", read) {
		read(f)
	}
	return name
}

// parseAllowedTools leaves out the functions that may not be called.
func (f *fields) parseAllowedTools(r *Chat) {
	var names []string
	all, given := f.parseList("tools", maxTools)
	f.parseElements("tools", all, func(o *fields) {
		kind := "function"
		if o.parseString("type", &kind); kind == "function" {
			names = append(names, o.parseFunctionName(r))
		} else {
			o.ignoreTool(kind)
		}
	})
	if given {
		r.Tools = slices.DeleteFunc(r.Tools, func(t tool) bool { return !slices.Contains(names, t.Name) })
	}
	mode := "auto"
	f.parseString("mode", &mode)
	f.setChoiceMode("mode", mode, r)
}

// CallSchemas returns the JSON schemas of calls of the functions, to be used with Settings.Closed. Parameters with an
// unsupported schema may be any object, unless the request requires the schema. It returns the cause of ctx when that
// ends.
func (r *Chat) CallSchemas(ctx context.Context, m Model) (s answer.Calls, err error) {
	var all []json.RawMessage
	s.Each = map[string][]byte{}
	for i, t := range r.Tools {
		if r.Choice.name != "" && t.Name != r.Choice.name {
			continue
		}
		if t.parameters, err = r.resolveParameters(ctx, m, i); err != nil {
			return s, err
		}
		s.One = callSchema(t, "")
		s.Each[t.Name] = s.One
		all = append(all, callSchema(t, "/anyOf/"+strconv.Itoa(len(all))))
	}
	if len(all) == 1 {
		return s, nil
	}
	s.One = Encode(map[string]any{"anyOf": all})
	_, err = m.Check(ctx, terms.Settings{TopP: 1, Schema: s.One, Closed: true})
	if err != nil && ctx.Err() == nil {
		err = Invalid("tools", "tools: all of them together: %v", err)
	}
	return s, err
}

// resolveParameters returns the schema of a tool's parameters in the form to use, and records keywords without effect.
func (r *Chat) resolveParameters(ctx context.Context, m Model, i int) (json.RawMessage, error) {
	t := r.Tools[i]
	ignored, err := m.Check(ctx, terms.Settings{TopP: 1, Schema: callSchema(t, ""), Closed: true})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
		var paths []string
		for _, path := range ignored {
			_, path, _ = strings.Cut(path, "/properties/arguments")
			paths = append(paths, "#"+strings.TrimPrefix(path, "/allOf/1"))
		}
		r.addIgnoredKeywords(t.at, paths)
		return t.parameters, nil
	case t.strict:
		return nil, Invalid("tools", "tools: parameters of %s: %v (as arguments are an object)", t.Name, err)
	}
	r.addIgnoredKeywords(t.at, []string{""}) // all keywords
	return json.RawMessage(anyObject), nil
}

// JSON schemas for parameters with an unsupported schema, and for no parameters.
const (
	anyObject    = `{"type":"object"}`
	noParameters = `{"type":"object","properties":{}}`
)

// callSchema returns the JSON schema of a call of a function, which will be at a place in another schema. References in
// the schema of the parameters are adjusted to that place.
func callSchema(t tool, place string) []byte {
	place += "/properties/arguments"
	arguments := t.parameters
	// a schema without a type, or with several, must not allow other values than objects
	if !allowsOnlyObjects(arguments) {
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

func allowsOnlyObjects(schema []byte) bool {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && string(s.Type) == `"object"`
}

// reference matches the beginning of a reference within a JSON schema. It does not match in a string, where the quotes
// are escaped.
var reference = regexp.MustCompile(`"\$ref"\s*:\s*"#`)
