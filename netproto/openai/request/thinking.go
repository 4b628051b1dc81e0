package request

import (
	"encoding/json"
	"math"
)

// Thinking is what a request asks of the thought before the answer.
type Thinking struct {
	Budget int  // maximum number of its tokens; 0: no limit
	Hidden bool // the thought is not part of the response
}

// The name of the value by which templates let the model think or not.
const enableThinking = "enable_thinking"

// setThinking lets the model think, or not.
func (r *Chat) setThinking(on bool) {
	r.setValue(enableThinking, json.RawMessage(Encode(on)))
}

func (r *Chat) setValue(name string, value json.RawMessage) {
	if r.Talk.Values == nil {
		r.Talk.Values = map[string]json.RawMessage{}
	}
	r.Talk.Values[name] = value
}

// mayThink reports whether the request lets a model that thinks do so.
func (r *Chat) mayThink() bool { return string(r.Talk.Values[enableThinking]) != "false" }

// thinks parses the fields by which clients of several servers let a model think. A model that does not think ignores
// them: see [idleFields].
func (f *fields) thinks(r *Chat, d Defaults) {
	f.object("chat_template_kwargs", func(o *fields) {
		for name, value := range o.all {
			r.setValue(name, value)
		}
		o.all = nil
	})
	if !d.Thinks {
		return
	}
	for _, name := range []string{enableThinking, "think"} { // of vLLM, and of Ollama
		f.thinkFlag(r, name)
	}
	f.effort(r, "reasoning_effort")
	f.budget(r, "thinking_budget")
	f.object("reasoning", func(o *fields) { // of OpenRouter, and of /v1/responses
		o.thinkFlag(r, "enabled")
		o.effort(r, "effort")
		o.budget(r, "max_tokens")
		o.flag("exclude", &r.Hidden)
		o.harmless("summary", "generate_summary")
	})
	f.thinkingObject(r)
	shown := true
	f.flag("include_reasoning", &shown)
	r.Hidden = r.Hidden || !shown
}

func (f *fields) thinkFlag(r *Chat, name string) {
	on := false
	if f.flag(name, &on) {
		r.setThinking(on)
	}
}

// effort parses how much the model is to think: the model knows only whether.
func (f *fields) effort(r *Chat, name string) {
	effort := ""
	if f.text(name, &effort) && effort != "" {
		r.setThinking(effort != "none" && effort != "minimal")
	}
}

// budget parses the maximum number of tokens of the thought: with 0 the model is not to think, and -1 is no limit.
func (f *fields) budget(r *Chat, name string) {
	if f.count(name, -1, math.MaxInt32, &r.Budget) && r.Budget == 0 {
		r.setThinking(false)
	}
	r.Budget = max(r.Budget, 0)
}

// thinkingObject parses the object of Anthropic's API.
func (f *fields) thinkingObject(r *Chat) {
	f.object("thinking", func(o *fields) {
		kind := ""
		o.text("type", &kind)
		switch kind {
		case "enabled":
			r.setThinking(true)
			o.count("budget_tokens", 0, math.MaxInt32, &r.Budget)
		case "disabled":
			r.setThinking(false)
		default: // adaptive: the template decides
			delete(r.Talk.Values, enableThinking)
		}
		o.harmless("display", "budget_tokens")
	})
}
