package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
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

// TestOneTokenOfAText: bytes that are those of a word and of a special token of that name identify neither; those of
// other tokens do.
func TestOneTokenOfAText(t *testing.T) {
	f, err := gguf.Parse(demo.Small())
	require.NoError(t, err)
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	require.NoError(t, err)
	types, err := f.Ints("tokenizer.ggml.token_type")
	require.NoError(t, err)
	var texts []string
	for _, text := range tokens.All() {
		texts = append(texts, string(text))
	}
	word := int32(slices.IndexFunc(texts, func(s string) bool { return strings.HasPrefix(s, "Ġ") && len(s) > 4 }))
	require.Positive(t, word)
	texts, types = append(texts, " "+strings.TrimPrefix(texts[word], "Ġ")), append(types, 3) // a control token
	path := filepath.Join(t.TempDir(), "model.gguf")
	file, err := os.Create(path)
	require.NoError(t, err)
	w := gguf.NewWriter(file)
	gguf.PutArray(w, "tokenizer.ggml.tokens", texts)
	gguf.PutArray(w, "tokenizer.ggml.token_type", types)
	for key, v := range f.Metadata() {
		if key != "tokenizer.ggml.tokens" && key != "tokenizer.ggml.token_type" {
			w.PutValue(key, v)
		}
	}
	require.NoError(t, errors.Join(w.Close(), file.Close()))
	o, err := withTokens(path, UpstreamOptions{})
	require.NoError(t, err)
	v := o.Vocabulary
	require.Equal(t, len(texts), v.Size())
	assert.Equal(t, v.Piece(word), v.Piece(int32(v.Size()-1)))
	for id := range int32(v.Size()) {
		want := id
		if id == word || int(id) == v.Size()-1 {
			want = -1
		}
		require.Equal(t, want, v.Find(v.Piece(id)), id)
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
