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

// thinks parses the fields by which clients of several servers let a model think. A model that does not think takes
// only values that it satisfies: those of [idleFields].
func (f *fields) thinks(r *Chat, d Defaults) {
	f.templateValues(r, d)
	if !d.Thinks {
		return
	}
	for _, name := range []string{enableThinking, "think"} { // of vLLM, and of Ollama
		f.thinkFlag(r, name)
	}
	f.effort(r, "reasoning_effort")
	f.budget(r, "thinking_budget", 0)
	f.object("reasoning", func(o *fields) { // of OpenRouter, and of /v1/responses
		o.thinkFlag(r, "enabled")
		o.effort(r, "effort")
		o.budget(r, "max_tokens", 0)
		o.flag("exclude", &r.Hidden)
		o.harmless("summary", "generate_summary")
	})
	f.thinkingObject(r)
	shown := true
	f.flag("include_reasoning", &shown)
	r.Hidden = r.Hidden || !shown
	f.idle("separate_reasoning", idle{values: "true"})
	f.idle("stream_reasoning", idle{values: "true"})
	f.idle("reasoning_format", idle{values: `"auto" "deepseek"`})
}

func (f *fields) templateValues(r *Chat, d Defaults) {
	f.object("chat_template_kwargs", func(o *fields) {
		if !d.Thinks {
			o.idle(enableThinking, idle{"false", hintThinks})
			o.idle("thinking", idle{"false", hintThinks})
		}
		for name, value := range o.all {
			r.setValue(name, value)
		}
		o.all = nil
	})
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
	if !f.text(name, &effort) {
		return
	}
	switch effort {
	case "none", "minimal":
		r.setThinking(false)
	case "low", "medium", "high", "xhigh":
		r.setThinking(true)
	default:
		f.fail(name, "give none, minimal, low, medium, high or xhigh")
	}
}

// budget parses the maximum number of tokens of the thought, at least low. With 0 the model is not to think.
func (f *fields) budget(r *Chat, name string, low int) {
	if f.count(name, low, math.MaxInt32, &r.Budget) && r.Budget == 0 {
		r.setThinking(false)
	}
}

// thinkingObject parses the object of Anthropic's API.
func (f *fields) thinkingObject(r *Chat) {
	f.object("thinking", func(o *fields) {
		kind := ""
		o.text("type", &kind)
		switch kind {
		case "enabled":
			r.setThinking(true)
			o.budget(r, "budget_tokens", 1)
		case "disabled":
			r.setThinking(false)
		case "adaptive", "":
			delete(r.Talk.Values, enableThinking)
		default:
			o.fail("type", "give enabled, disabled or adaptive")
		}
		o.harmless("display", "budget_tokens")
	})
}
