package serve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// TestServedValues: each field of a token, of a summary and of a turn is that of its name.
func TestServedValues(t *testing.T) {
	token := pilotfish.Token{ID: 1, Kind: "thought", Text: "a", Origin: "cloud", Confidence: 0.5, Unverified: true,
		At: time.Second, LogProb: -0.25, Top: []pilotfish.Candidate{{ID: 2, LogProb: -0.5}}}
	served := answer.Token{ID: 1, Kind: "thought", Text: "a", Origin: "cloud", Confidence: 0.5, Unverified: true,
		At: time.Second, LogProb: -0.25, Top: []answer.Candidate{{ID: 2, LogProb: -0.5}}}
	assert.Equal(t, served, servedToken(token))
	stats := pilotfish.Stats{Text: "b", Stop: "stop", Stopped: "c", Shortened: true, ReusedTokens: 3, Tokens: 4,
		CloudTokens: 5, End: &token, Receipt: pilotfish.Receipt{Tokens: 6, Bytes: 7, To: "d"}}
	stats.Asks = 8
	assert.Equal(t, answer.Summary{Text: "b", Stop: "stop", Stopped: "c", Shortened: true, Reused: 3,
		Cloud: 5, Asks: 8, Sent: answer.Sent{Tokens: 6, Bytes: 7, To: "d"}, End: &served}, servedSummary(stats))
	stats.End = nil
	assert.Nil(t, servedSummary(stats).End)
	turn := answer.Message{Role: "assistant", Content: "a", Thought: "b",
		Calls: []answer.Call{{ID: "c", Name: "d", Arguments: []byte("{}")}}, Local: true}
	assert.Equal(t, pilotfish.Turn{Role: "assistant", Content: "a", Thought: "b",
		Calls: []pilotfish.ToolCall{{Name: "d", Arguments: []byte("{}")}}}, turnOf(turn))
}

// TestKeyCharacters: an API key has characters that a header can carry, and is long enough.
func TestKeyCharacters(t *testing.T) {
	const rest = "123456789012345"
	for first, ok := range map[string]bool{"!": true, "~": true, " ": false, "\x7f": false, "\x1f": false, "é": false,
		"": false} {
		assert.Equal(t, ok, checkKey("x", first+rest) == nil, "%q", first)
	}
}

// TestServedMarks: the name of a special token is text, unless special tokens are requested.
func TestServedMarks(t *testing.T) {
	m, err := pilotfish.Open(clitest.TinyModel(t, "q8_0"), pilotfish.Options{})
	require.NoError(t, err)
	defer m.Close()
	s, err := newServedModel(m)
	require.NoError(t, err)
	for special, want := range map[bool]bool{true: true, false: false} {
		ids, err := s.Tokenize("<|im_end|>", special)
		require.NoError(t, err)
		assert.Equal(t, want, len(ids) == 1)
	}
}
