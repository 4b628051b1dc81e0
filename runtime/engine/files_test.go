package engine

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// TestWithTokens: the options of engines get all that follows from the file's tokens, and keep the rest.
func TestWithTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, demo.Small(), 0o600))
	tokens, err := ReadTokenizer(path)
	require.NoError(t, err)
	o, err := withTokens(path, UpstreamOptions{AuditEvery: 3})
	require.NoError(t, err)
	assert.Equal(t, 3, o.AuditEvery)
	assert.Equal(t, identityOf(tokens), o.Identity)
	assert.Equal(t, tokens.Used(), o.Vocabulary.Size())
	var ends []int32
	for id := range int32(tokens.Size()) {
		if tokens.IsEnd(id) {
			ends = append(ends, id)
		}
	}
	assert.NotEmpty(t, ends)
	assert.Equal(t, ends, o.Ends)
	for id := range int32(o.Vocabulary.Size()) {
		piece, text := o.Vocabulary.Piece(id), tokens.Bytes(id)
		if tokens.IsControl(id) {
			text = []byte(tokens.Text(id))
		}
		assert.Equal(t, text, piece)
		assert.Equal(t, id, o.Vocabulary.Find(piece))
	}
	assert.EqualValues(t, -1, o.Vocabulary.Find([]byte("no token has this text")))
	choice, _, _, err := o.Draw(terms.Sampling{}, 0, []terms.Candidate{{ID: 7, LogProb: -1}, {ID: 8, LogProb: -2}}, 8)
	require.NoError(t, err)
	assert.EqualValues(t, 7, choice)
}

// TestVocabularyTwice: a piece that is the spelling of one token and the text of another stands for neither.
func TestVocabularyTwice(t *testing.T) {
	f, err := gguf.Parse(demo.Small())
	require.NoError(t, err)
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	require.NoError(t, err)
	plain, err := tokenizer.FromGGUF(f)
	require.NoError(t, err)
	space := plain.Encode(" ", false)
	require.Len(t, space, 1)
	var edited []string
	for _, text := range tokens.All() {
		edited = append(edited, string(text))
	}
	for id := range int32(plain.Used()) {
		if plain.IsControl(id) {
			edited[id] = " " // a text token has it in another spelling
			break
		}
	}
	require.Contains(t, edited, " ")
	var b bytes.Buffer
	w := gguf.NewWriter(&b)
	for k, v := range f.Metadata() {
		if k != "tokenizer.ggml.tokens" {
			w.PutValue(k, v)
		}
	}
	gguf.PutArray(w, "tokenizer.ggml.tokens", edited)
	require.NoError(t, w.Close())
	f, err = gguf.Parse(b.Bytes())
	require.NoError(t, err)
	twice, err := tokenizer.FromGGUF(f)
	require.NoError(t, err)
	assert.Equal(t, space[0], newVocabulary(plain).Find([]byte(" ")))
	assert.EqualValues(t, -1, newVocabulary(twice).Find([]byte(" ")))
	assert.Equal(t, plain.Encode("a", false)[0], newVocabulary(twice).Find([]byte("a")))
}

// TestTellCosts: a question that the text passed costs its wait, less what was hidden where it hit, and its bytes both
// ways. One that was not asked, or not for the text, costs nothing.
func TestTellCosts(t *testing.T) {
	for outcome, want := range map[draft.Outcome]float64{
		draft.Hit: 2 - 1.5 + 0.75, draft.Miss: 2 + 0.75, draft.Late: 2 + 0.75, draft.Failed: 2 + 0.75,
		draft.Known: 0, draft.Unasked: 0, draft.Dropped: 0, draft.Probing: 0, draft.Probed: 0, draft.Checked: 0,
	} {
		prices := router.Prices{Gain: 100, Second: 1, Byte: 0.25}
		r, err := router.New(router.Options{Policy: router.Value, Prices: prices})
		require.NoError(t, err)
		costs := r.NewCosts()
		tellCosts(costs, &draft.Escalation{
			Outcome: outcome, Wait: 2 * time.Second, Hidden: 1500 * time.Millisecond, BytesUp: 2, BytesDown: 1,
		})
		assert.InDelta(t, 1-want/prices.Gain, r.With(costs).Threshold(), 1e-12, outcome)
	}
}

// TestReadFrom: a file is closed after a part of it was read or refused, and errors name it.
func TestReadFrom(t *testing.T) {
	dir := t.TempDir()
	model, learned := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "router.gguf")
	require.NoError(t, os.WriteFile(model, demo.Small(), 0o600))
	to, err := os.Create(learned)
	require.NoError(t, err)
	net, err := router.NewNet([]router.Layer{{In: 2, Out: 1, Weight: []float32{1, 2}, Bias: []float32{3}}}, false)
	require.NoError(t, err)
	require.NoError(t, net.Write(gguf.NewWriter(to)))
	require.NoError(t, to.Close())
	held.Same(t, func() {
		_, err := ReadTokenizer(model)
		require.NoError(t, err)
		read, err := ReadRouter(learned)
		require.NoError(t, err)
		assert.Equal(t, 2, read.Net.Dim())
		_, err = ReadRouter(model)
		require.ErrorIs(t, err, router.ErrNotRouter)
		assert.ErrorContains(t, err, "load "+model)
		_, err = ReadTokenizer(learned)
		assert.ErrorContains(t, err, "load "+learned)
		_, err = ReadTokenizer(filepath.Join(dir, "none"))
		assert.ErrorIs(t, err, os.ErrNotExist)
	})
}
