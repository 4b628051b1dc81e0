package pilotfish

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// TestListen: a gateway of this process answers with its access tokens alone, and gives everything back.
func TestListen(t *testing.T) {
	held.Same(t, func() {
		m, err := Load(demo.Small(), "small", Options{Context: 256})
		require.NoError(t, err)
		l, err := Listen("127.0.0.1:0", m, ListenOptions{Tokens: map[string]string{"lab": "sixteen bytes of"}})
		require.NoError(t, err)
		_, err = m.Dial(t.Context(), l.Addr().String(), DialOptions{Pin: l.Pin(), Token: "another of sixteen"})
		assert.ErrorIs(t, err, netproto.WrongSecret)
		g, err := m.Dial(t.Context(), l.Addr().String(), DialOptions{Pin: l.Pin(), Token: "sixteen bytes of"})
		require.NoError(t, err)
		a, err := g.Ask(t.Context(), Question{Context: []int32{1, 2, 3}})
		require.NoError(t, err)
		assert.NotZero(t, a.Token)
		require.NoError(t, g.Close())
		_, err = Listen("127.0.0.1:0", m, ListenOptions{Tokens: map[string]string{"lab": "short"}})
		assert.ErrorContains(t, err, "listen 127.0.0.1:0: ")
		_, err = Listen("nowhere", m, ListenOptions{})
		require.Error(t, err)
		require.NoError(t, l.Close())
		require.NoError(t, m.Close())
	})
}

// TestPull: a model is downloaded once, and opened by its name.
func TestPull(t *testing.T) {
	file := demo.Small()
	sum, got := sha256.Sum256(file), 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/tree/") {
			fmt.Fprintf(w, `[{"type":"file","path":"small-q8_0.gguf","size":%d,"lfs":{"oid":%q,"size":%d}}]`, len(file),
				hex.EncodeToString(sum[:]), len(file))
			return
		}
		got++
		_, _ = w.Write(file) // an error fails the download
	}))
	defer web.Close()
	t.Setenv("PILOTFISH_MODELS", t.TempDir())
	t.Setenv("HF_ENDPOINT", web.URL)
	last := int64(0)
	for range 2 {
		path, err := Pull(t.Context(), "fish/small", func(done, _ int64) { last = done })
		require.NoError(t, err)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, sum, sha256.Sum256(b))
	}
	assert.Equal(t, 1, got)
	assert.EqualValues(t, len(file), last)
	m, err := Open("fish/small", Options{})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	for _, name := range []string{"small", "fish/small:other.gguf"} {
		_, err = Pull(t.Context(), name, nil)
		assert.Error(t, err, name)
	}
}

// TestCountTokens: the counts are those of the prompts.
func TestCountTokens(t *testing.T) {
	m, err := Load(demo.Small(), "small", Options{})
	require.NoError(t, err)
	defer m.Close()
	turns := []Message{{Role: "system", Content: "be brief"}, {Role: "user", Content: "who?"}}
	ids, err := m.ChatTokens(turns, nil)
	require.NoError(t, err)
	n, err := m.CountTokens(turns, nil)
	require.NoError(t, err)
	assert.Equal(t, len(ids), n)
	c := m.NewChat(ChatOptions{System: "be brief"})
	for range 2 {
		n, err = c.CountTokens("who?")
		require.NoError(t, err)
		_, err = Text(c.Send(t.Context(), "who?", MaxTokens(2)))
		require.NoError(t, err)
		assert.Equal(t, c.Stats().PromptTokens, n)
	}
	require.NoError(t, c.Close())
}
