package engine

import (
	"os"
	"path/filepath"
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
	o, err := withTokens(path, UpstreamOptions{Model: "m"})
	require.NoError(t, err)
	assert.Equal(t, "m", o.Model)
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
	}
	choice, _, _, err := o.Draw(terms.Sampling{}, 0, []terms.Candidate{{ID: 7, LogProb: -1}, {ID: 8, LogProb: -2}}, 8)
	require.NoError(t, err)
	assert.EqualValues(t, 7, choice)
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
