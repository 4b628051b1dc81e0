package request

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

const hello = `"messages":[{"role":"user","content":"hi"}],"seed":7`

// TestSettings: the settings are those of the request, or the defaults.
func TestSettings(t *testing.T) {
	for body, want := range map[string]terms.Settings{
		``:                    {Temperature: 1, TopP: 1, Seed: 7},
		`,"temperature":0.5`:  {Temperature: 0.5, TopP: 1, Seed: 7},
		`,"temperature":0`:    {TopP: 1, Seed: 7},
		`,"temperature":null`: {Temperature: 1, TopP: 1, Seed: 7},
		`,"seed":-1`:          {Temperature: 1, TopP: 1, Seed: 1<<64 - 1},
		`,"seed":18446744073709551615,"pilotfish":{"local":true}`: {
			Temperature: 1, TopP: 1, Seed: 1<<64 - 1, Local: true},
		`,"top_p":0.25`:   {Temperature: 1, TopP: 0.25, Seed: 7},
		`,"top_p":0`:      {Temperature: 1, TopP: 1, TopK: 1, Seed: 7},
		`,"top_k":5`:      {Temperature: 1, TopP: 1, TopK: 5, Seed: 7},
		`,"max_tokens":9`: {Temperature: 1, TopP: 1, MaxTokens: 9, Seed: 7},
		`,"logit_bias":{"3":-100,"256":7.5}`: {Temperature: 1, TopP: 1, Seed: 7,
			LogitBias: map[int32]float32{3: -100, 256: 7.5}},
		`,"logit_bias":{}`:                          {Temperature: 1, TopP: 1, Seed: 7},
		`,"stop":"x"`:                               {Temperature: 1, TopP: 1, Stop: []string{"x"}, Seed: 7},
		`,"stop":["x","yz"]`:                        {Temperature: 1, TopP: 1, Stop: []string{"x", "yz"}, Seed: 7},
		`,"logprobs":true`:                          {Temperature: 1, TopP: 1, LogProbs: true, Seed: 7},
		`,"logprobs":true,"top_logprobs":20`:        {Temperature: 1, TopP: 1, LogProbs: true, Top: 20, Seed: 7},
		`,"max_completion_tokens":5,"max_tokens":5`: {Temperature: 1, TopP: 1, MaxTokens: 5, Seed: 7},
		`,"max_tokens":9,"max_completion_tokens":5,"n_predict":7`: {Temperature: 1, TopP: 1, MaxTokens: 5, Seed: 7},
		`,"ignore_eos":true,"repetition_penalty":1.5`: {Temperature: 1, TopP: 1, IgnoreEnd: true, RepeatPenalty: 1.5,
			Seed: 7},
		`,"response_format":{"type":"text"}`:           {Temperature: 1, TopP: 1, Seed: 7},
		`,"response_format":{"type":"json_object"}`:    {Temperature: 1, TopP: 1, JSON: true, Seed: 7},
		`,"user":"u","metadata":{"a":1},"store":false`: {Temperature: 1, TopP: 1, Seed: 7},
		`,"service_tier":"auto","safety_identifier":"x","prompt_cache_key":"y","prediction":{}`: {
			Temperature: 1, TopP: 1, Seed: 7,
		},
		`,"reasoning_effort":"none","verbosity":"medium","modalities":["text"]`: {Temperature: 1, TopP: 1, Seed: 7},
		`,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"null"}}}`: {
			Temperature: 1, TopP: 1, Seed: 7, Schema: []byte(`{"type":"null"}`), Closed: true},
		`,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}},` +
			`"pilotfish":{"complete":true}`: {
			Temperature: 1, TopP: 1, Seed: 7, Schema: []byte(`{}`), Complete: true},
	} {
		r, wrong := ReadChat([]byte(`{`+hello+body+`}`), Defaults{Temperature: 1})
		require.Nil(t, wrong, body)
		assert.Equal(t, want, r.Settings, body)
	}
}

// TestNumbers: each declared number has its own name, at both ends of its range; values out of range are refused by
// name.
func TestNumbers(t *testing.T) {
	for i, n := range new(terms.Settings).Numbers() {
		for _, v := range []float64{n.Low, n.High, n.Low - 2, n.High + 1} {
			r, wrong := ReadChat([]byte(fmt.Sprintf(`{%s,"%s":%.0f}`, hello, n.Name, v)), Defaults{})
			if v < n.Low || v > n.High {
				require.NotNil(t, wrong, "%s %v", n.Name, v)
				assert.Equal(t, n.Name, wrong.Param)
				continue
			}
			require.Nil(t, wrong, "%s %v", n.Name, v)
			if n.Name == "top_p" && v == 0 {
				v = 1 // and a top_k of 1, because a share of 0 leaves only the best token
			}
			assert.Equal(t, v, r.Settings.Numbers()[i].Value(), n.Name)
		}
	}
}

// TestInfillSettings: given settings are used; samplers that the list leaves out are off.
func TestInfillSettings(t *testing.T) {
	for more, want := range map[string]terms.Settings{
		`"temperature":0,"top_k":0,"top_p":1,"min_p":0`:                {TopP: 1},
		`"samplers":["top_k","top_p","infill"],"top_p":0.99,"seed":-1`: {Temperature: 1, TopK: 40, TopP: 0.99},
		`"samplers":["temperature"],"repeat_penalty":1.1`:              {Temperature: 0.8, TopP: 1},
		`"samplers":["temperature","penalties","min_p"],"repeat_penalty":1.1`: {
			Temperature: 0.8, TopP: 1, MinP: 0.05, RepeatPenalty: 1.1},
		`"samplers":[],"top_k":7,"t_max_prompt_ms":500,"t_max_predict_ms":500`: {
			Temperature: 0.8, TopP: 0.95, TopK: 7, MinP: 0.05},
	} {
		r, wrong := ReadInfill([]byte(`{"input_prefix":"a","input_suffix":"c",`+more+`}`), Defaults{})
		require.Nil(t, wrong, more)
		assert.Equal(t, want, r.Settings, more)
	}
}

// TestThinkingAsked: the fields by which clients of several servers turn thinking on or off, or limit it, all work.
func TestThinkingAsked(t *testing.T) {
	for _, c := range []struct{ api, field, want string }{
		{"chat", ``, ""}, {"chat", `"chat_template_kwargs":{"enable_thinking":false}`, "false"},
		{"chat", `"chat_template_kwargs":{"enable_thinking":true,"other":[1]}`, "true"},
		{"chat", `"enable_thinking":false`, "false"}, {"chat", `"think":true`, "true"},
		{"chat", `"reasoning_effort":"none"`, "false"}, {"chat", `"reasoning_effort":"minimal"`, "false"},
		{"chat", `"reasoning_effort":"high"`, "true"}, {"chat", `"reasoning_effort":"xhigh"`, "true"},
		{"chat", `"reasoning_effort":"low"`, "true"}, {"chat", `"reasoning_effort":"medium"`, "true"},
		{"chat", `"think":false`, "false"}, {"chat", `"enable_thinking":true`, "true"},
		{"chat", `"reasoning":{"enabled":false}`, "false"},
		{"chat", `"reasoning":{"effort":"low"}`, "true"}, {"chat", `"thinking":{"type":"disabled"}`, "false"},
		{"chat", `"thinking_budget":0`, "false"},
		{"responses", `"reasoning":{"effort":"none","summary":"auto"}`, "false"},
		{"responses", `"reasoning":{"effort":"medium"}`, "true"}, {"responses", ``, ""}, {"messages", ``, "false"},
		{"messages", `"thinking":{"type":"disabled"}`, "false"}, {"messages", `"thinking":{"type":"adaptive"}`, ""},
		{"messages", `"thinking":{"type":"of_2030"}`, ""}, {"chat", `"reasoning_effort":"ultra"`, "true"},
		{"messages", `"thinking":{"type":"enabled","budget_tokens":1024}`, "true"},
		{"messages", `"thinking":{"type":"disabled","budget_tokens":1024,"display":"omitted"}`, "false"},
	} {
		t.Run(c.api+" "+c.field, func(t *testing.T) {
			body := map[string]string{"chat": hello, "responses": `"input":"hi"`, "messages": hello}[c.api]
			if c.field != "" {
				body += "," + c.field
			}
			r, wrong := read(c.api, `{`+body+`}`, Defaults{Thinks: true})
			require.Nil(t, wrong)
			assert.Equal(t, c.want, string(r.Talk.Values[enableThinking]))
		})
	}
	for field, want := range map[string]Thinking{
		`"thinking_budget":7`: {Budget: 7}, `"thinking_budget":-1`: {},
		`"thinking":{"type":"enabled","budget_tokens":0}`: {},
		`"reasoning":{"max_tokens":8}`:                    {Budget: 8},
		`"thinking":{"type":"enabled","budget_tokens":9}`: {Budget: 9}, `"reasoning":{"exclude":true}`: {Hidden: true},
		`"include_reasoning":false`: {Hidden: true}, `"include_reasoning":true`: {},
		`"reasoning":{"exclude":true},"include_reasoning":true`: {Hidden: true},
	} {
		r, wrong := read("chat", `{`+hello+`,`+field+`}`, Defaults{Thinks: true})
		require.Nil(t, wrong, field)
		assert.Equal(t, want, r.Thinking, field)
	}
	for param, field := range map[string]string{
		"thinking.budget_tokens": `"thinking":{"type":"enabled","budget_tokens":-1}`,
		"thinking_budget":        `"thinking_budget":-2`,
		"reasoning.enabled":      `"reasoning":{"enabled":1}`,
	} {
		_, wrong := read("chat", `{`+hello+`,`+field+`}`, Defaults{Thinks: true})
		require.NotNil(t, wrong, param)
		assert.Equal(t, param, wrong.Param)
	}

}
