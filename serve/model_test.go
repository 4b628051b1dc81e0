package serve

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

// chosen is a cloud that always has the same token.
type chosen int32

func (c chosen) Ask(context.Context, pilotfish.Question) (pilotfish.Answer, error) {
	return pilotfish.Answer{Token: int32(c)}, nil
}

// TestOwnModel: a server with the zero options answers from a model under the name in its file, does not fill gaps if
// the model cannot, and shows nothing of a model that was closed. With a route, tokens are the large model's, with the
// small model's own ones beside them.
func TestOwnModel(t *testing.T) {
	m, err := pilotfish.Load(demo.Small(), "small", pilotfish.Options{})
	require.NoError(t, err)
	s := New(m, Options{})
	w := ask(t, s, "/v1/models", "")
	assert.Equal(t, m.Name(), at(object(t, w.Body.Bytes()), "data", 0, "id"))
	const body = `"messages":[{"role":"user","content":"Who?"}],"max_tokens":3,"pilotfish":{"provenance":true}`
	w = ask(t, s, chatPath, `{`+body+`}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	v := object(t, w.Body.Bytes())
	assert.Equal(t, 3.0, at(v, "usage", "completion_tokens"))
	assert.Regexp(t, "^fp_[0-9a-f]{12}$", at(v, "system_fingerprint"))
	assert.Nil(t, at(v, "choices", 0, "pilotfish", "tokens", 0, "edge_text"))
	own := at(v, "choices", 0, "pilotfish", "tokens", 0, "text")
	end, err := m.Tokenize("<|im_end|>", true)
	require.NoError(t, err)
	w = ask(t, s, textPath, fmt.Sprintf(`{"prompt":"Who?","echo":true,"logprobs":2,"logit_bias":{"%d":100}}`, end[0]))
	v = object(t, w.Body.Bytes())
	assert.Len(t, at(v, "choices", 0, "logprobs", "top_logprobs", 1), 2)
	all := at(v, "choices", 0, "logprobs", "tokens").([]any)
	assert.Equal(t, "<|im_end|>", all[len(all)-1])
	w = ask(t, s, textPath, `{"prompt":"x","suffix":"y"}`)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "no_infill")

	always, err := pilotfish.NewRouter(pilotfish.RouterOptions{Policy: "always"})
	require.NoError(t, err)
	route := pilotfish.Via(chosen('!'), always)
	routed := New(m, Options{Route: &route})
	first := at(object(t, ask(t, routed, chatPath, `{`+body+`}`).Body.Bytes()), "choices", 0, "pilotfish", "tokens", 0)
	assert.Equal(t, pilotfish.Large, at(first, "origin"))
	assert.Equal(t, own, at(first, "edge_text"))
	require.NoError(t, routed.Close())
	line, err := m.TextTokens("\n")
	require.NoError(t, err)
	assert.Equal(t, "\n", s.tokenText(line[0]), "of one byte, whose name differs")

	require.NoError(t, m.Close())
	assert.Empty(t, s.tokenText('a'))
	assert.False(t, s.mayThink(nil))
	assert.Zero(t, s.vocabularySize())
	assert.NotEqual(t, http.StatusOK, ask(t, s, chatPath, `{`+body+`}`).Code)
	require.NoError(t, s.Close())
}
