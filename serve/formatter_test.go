package serve

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestOffsets: offsets of tokens are counted in characters.
func TestOffsets(t *testing.T) {
	s := newTestServer(t, &fakeModel{answer: func(string, terms.Settings) string { return "aü€b" }}, nil)
	answer := object(t, ask(t, s, "/v1/completions", `{"prompt":"x","logprobs":0}`).Body.Bytes())
	assert.Equal(t, []any{0., 1., 1., 2., 2., 2., 3.}, at(answer, "choices", 0, "logprobs", "text_offset"))
}
