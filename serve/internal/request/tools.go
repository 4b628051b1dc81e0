package request

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
)

// tool is a function that the model may call.
type tool struct {
	answer.Tool
	at         string // path of the parameters in the request
	strict     bool
	definition json.RawMessage // in the form for the prompt
	Namespace  string          // group of the function in the request; "" for none
}

// toolChoice determines which calls an answer may have.
type toolChoice struct {
	Mode string // "none", "auto" or "required"
	name string // with required: the only function allowed; "" for any
}

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

func (f *fields) parseDefinition(t *tool) {
	parameters := "parameters"
	if f.all["input_schema"] != nil { // in Anthropic's API
		parameters = "input_schema"
	}
	if !f.parseString("name", &t.Name) {
		f.failMissing("name", "give the name of the function")
	} else if !answer.IsToolName(t.Name) {
		f.failField("name", "give 1 to 128 letters, digits, and _ - .")
	}
	ok := false
	f.parseString("description", &t.Description)
	f.parseBool("strict", &t.strict)
	t.at = f.fieldPath(parameters)
	if t.Parameters, ok = f.takeField(parameters); ok && isEmpty(t.Parameters) && !isObject(t.Parameters) {
		t.Parameters = nil
	} else if ok && !isObject(t.Parameters) {
		f.failField(parameters, "give a JSON schema of an object")
	}
	if f.err == nil {
		t.definition = t.Definition()
	}
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

// CallSchemas returns the JSON schemas of calls of the functions, to be used with Settings.Call. Parameters with an
// unsupported schema may be any object, unless the request requires the schema. It returns the cause of ctx when that
// ends.
func (r *Chat) CallSchemas(ctx context.Context, m Model) (answer.Calls, error) {
	var allowed []tool
	var tools []answer.Tool
	for _, t := range r.Tools {
		if r.Choice.name == "" || t.Name == r.Choice.name {
			allowed, tools = append(allowed, t), append(tools, t.Tool)
		}
	}
	return answer.NewCalls(tools, func(i int, schema []byte) (supported bool, err error) {
		ignored, err := m.Check(ctx, terms.Settings{TopP: 1, Schema: schema, Closed: true, Call: true})
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case i < 0 && err != nil:
			return false, Invalid("tools", "tools: all of them together: %v", err)
		case i < 0:
		case err == nil:
			r.addIgnoredKeywords(allowed[i].at, answer.ParameterPaths(ignored))
		case allowed[i].strict:
			return false, Invalid("tools", "tools: parameters of %s: %v (as arguments are an object)", tools[i].Name,
				err)
		default:
			r.addIgnoredKeywords(allowed[i].at, []string{""}) // all keywords
			return false, nil
		}
		return true, nil
	})
}
