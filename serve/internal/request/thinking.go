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

func (r *Chat) setThinking(on bool) {
	r.setValue(enableThinking, json.RawMessage(Encode(on)))
}

func (r *Chat) setValue(name string, value json.RawMessage) {
	if r.Talk.Values == nil {
		r.Talk.Values = map[string]json.RawMessage{}
	}
	r.Talk.Values[name] = value
}

func (r *Chat) mayThink() bool { return string(r.Talk.Values[enableThinking]) != "false" }

// parseThinking parses the fields by which clients of several servers let a model think. A model that does not think
// ignores them: see [unsupportedFields].
func (f *fields) parseThinking(r *Chat, d Defaults) {
	f.parseObject("chat_template_kwargs", func(o *fields) {
		for name, value := range o.all {
			r.setValue(name, value)
		}
		o.all = nil
	})
	if !d.Thinks {
		return
	}
	for _, name := range []string{enableThinking, "think"} { // of vLLM, and of Ollama
		f.parseThinkFlag(r, name)
	}
	f.parseEffort(r, "reasoning_effort")
	f.parseThinkingBudget(r, "thinking_budget")
	f.parseObject("reasoning", func(o *fields) { // of OpenRouter, and of /v1/responses
		o.parseThinkFlag(r, "enabled")
		o.parseEffort(r, "effort")
		o.parseThinkingBudget(r, "max_tokens")
		o.parseBool("exclude", &r.Hidden)
		o.ignoreHarmless("summary", "generate_summary")
	})
	f.parseThinkingObject(r)
	shown := true
	f.parseBool("include_reasoning", &shown)
	r.Hidden = r.Hidden || !shown
}

func (f *fields) parseThinkFlag(r *Chat, name string) {
	on := false
	if f.parseBool(name, &on) {
		r.setThinking(on)
	}
}

// parseEffort parses how much the model is to think: the model knows only whether.
func (f *fields) parseEffort(r *Chat, name string) {
	effort := ""
	if f.parseString(name, &effort) && effort != "" {
		r.setThinking(effort != "none" && effort != "minimal")
	}
}

// parseThinkingBudget parses the maximum number of tokens of the thought: with 0 the model is not to think, and -1 is
// no limit.
func (f *fields) parseThinkingBudget(r *Chat, name string) {
	if f.parseInt(name, -1, math.MaxInt32, &r.Budget) && r.Budget == 0 {
		r.setThinking(false)
	}
	r.Budget = max(r.Budget, 0)
}

func (f *fields) parseThinkingObject(r *Chat) {
	f.parseObject("thinking", func(o *fields) {
		kind := ""
		o.parseString("type", &kind)
		switch kind {
		case "enabled":
			r.setThinking(true)
			o.parseInt("budget_tokens", 0, math.MaxInt32, &r.Budget)
		case "disabled":
			r.setThinking(false)
		default: // adaptive: the template decides
			delete(r.Talk.Values, enableThinking)
		}
		o.ignoreHarmless("display", "budget_tokens")
	})
}
