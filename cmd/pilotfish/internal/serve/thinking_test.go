package serve

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestServeThoughts: the server returns thoughts of a model that marks them separately, passes to the template whether
// to think, and ends a thought that reaches its budget before the answer's format begins.
func TestServeThoughts(t *testing.T) {
	s := clitest.StartServe(t, "-m", clitest.ThinkingModel(t))
	ask := func(more string) (message map[string]any, thought float64) {
		status, text := s.Ask(t, askChat, fmt.Sprintf(`{"messages":[{"role":"user","content":"x"}],`+
			`"logit_bias":{"%d":100},%s}`, clitest.ThinkToken, more))
		require.Equal(t, 200, status, text)
		var v struct {
			Choices []struct{ Message map[string]any }
			Usage   struct {
				Details struct {
					Thought float64 `json:"reasoning_tokens"`
				} `json:"completion_tokens_details"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		return v.Choices[0].Message, v.Usage.Details.Thought
	}
	m, thought := ask(`"max_tokens":3`)
	assert.Equal(t, "", m["content"])
	assert.Equal(t, "<think><think>", m["reasoning_content"])
	assert.Equal(t, 3.0, thought)
	m, thought = ask(`"max_tokens":3,"chat_template_kwargs":{"enable_thinking":false}`)
	assert.Equal(t, "<think><think><think>", m["content"], "no thoughts")
	assert.Nil(t, m["reasoning_content"])
	assert.Zero(t, thought)
	m, thought = ask(`"thinking_budget":4,"response_format":{"type":"json_schema",` +
		`"json_schema":{"name":"x","schema":{"const":7}}}`)
	assert.Equal(t, "7", m["content"])
	assert.Equal(t, "<think><think><think>", m["reasoning_content"])
	assert.Greater(t, thought, 5.0)
}
