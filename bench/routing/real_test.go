//go:build real

package routing

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// These tests run on two real models, the files that real/reference.py names, in the folder PILOTFISH_REAL_MODELS: make
// real-check MODELS=FOLDER. They take minutes.

// realFile holds the results of an independent implementation for one file: see real/reference.py.
type realFile struct {
	File   string
	SHA256 string
	Chats  []struct {
		Name     string
		Messages []struct {
			Role, Content string
			Calls         []struct {
				Function struct {
					Name      string
					Arguments json.RawMessage
				}
			} `json:"tool_calls"`
		}
		Tools []json.RawMessage
		Text  string
		IDs   []int32
	}
	Prompts []realPrompt
}

// realPrompt is a prompt with the logits after it.
type realPrompt struct {
	Name, Text   string
	IDs          []int32
	Deviation    float64 // standard deviation of all logits
	Best, Others []realLogit
}

// realLogit is a token with its logit.
type realLogit struct {
	id    int32
	logit float64
}

// UnmarshalJSON reads [id, logit].
func (l *realLogit) UnmarshalJSON(b []byte) error {
	var pair [2]float64
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	l.id, l.logit = int32(pair[0]), pair[1]
	return nil
}

// realFiles reads the reference: the small file, then the large one.
func realFiles(t *testing.T) (small, large realFile) {
	t.Helper()
	b, err := os.ReadFile("../real/reference.json")
	require.NoError(t, err)
	var all []realFile
	require.NoError(t, json.Unmarshal(b, &all))
	require.Len(t, all, 2)
	for _, f := range all {
		require.GreaterOrEqual(t, len(f.Chats), 10, f.File)
		require.Len(t, f.Prompts, 16, f.File)
	}
	return all[0], all[1]
}

// openReal opens one of the files.
func openReal(t *testing.T, f realFile, o engine.Options) *engine.Engine {
	t.Helper()
	folder := os.Getenv("PILOTFISH_REAL_MODELS")
	require.NotEmpty(t, folder, "PILOTFISH_REAL_MODELS is not a folder with models: make real-check MODELS=FOLDER")
	path := filepath.Join(folder, f.File)
	b, err := os.Open(path)
	require.NoError(t, err)
	defer b.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, b)
	require.NoError(t, err)
	require.Equal(t, f.SHA256, hex.EncodeToString(sum.Sum(nil)), "%s is not the file of the reference", path)
	e, err := engine.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// TestRealChats: the template of the file rendered by jinja2, tokenized by an independent byte-level BPE, gives the
// same tokens as this program: with and without system message, over several turns, with tools; and so do the texts of
// all prompts.
func TestRealChats(t *testing.T) {
	small, large := realFiles(t)
	for _, f := range []realFile{small, large} {
		tok, err := openReal(t, f, engine.Options{}).Tokenizer()
		require.NoError(t, err)
		for _, c := range f.Chats {
			assert.Equal(t, c.IDs, tok.Encode(c.Text, true), "%s: %s: the text", f.File, c.Name)
			var turns []tokenizer.Message
			for _, m := range c.Messages {
				turn := tokenizer.Message{Role: m.Role, Content: m.Content}
				for _, call := range m.Calls {
					turn.Calls = append(turn.Calls,
						tokenizer.ToolCall{Name: call.Function.Name, Arguments: call.Function.Arguments})
				}
				turns = append(turns, turn)
			}
			var tools [][]byte
			for _, tool := range c.Tools {
				tools = append(tools, tool)
			}
			ids, err := tok.Chat(turns, tools)
			require.NoError(t, err, "%s: %s", f.File, c.Name)
			assert.Equal(t, c.IDs, ids, "%s: %s", f.File, c.Name)
		}
		for _, p := range f.Prompts {
			assert.Equal(t, p.IDs, tok.Encode(p.Text, true), "%s: %s", f.File, p.Name)
		}
	}
}

// Bounds of logits, in standard deviations of all logits of a prompt.
const (
	realExact = 2e-5 // exact path, each logit
	realFast  = 0.15 // fast path, each logit: activations are rounded to 8 bits, keys and values to 16
	// the same after a single token: activations of the first token are the largest, and have the largest rounding
	// errors
	realFirst = 0.75
	// max difference of the reference's logits between the best token and the best one of the fast path
	realMargin = 0.15
	realTokens = 170 // prompt tokens that the exact path evaluates, the shortest prompts first: it is plain Go
)

// TestRealLogits compares the logits of 16 prompts with an evaluation in float64 by numpy.
func TestRealLogits(t *testing.T) {
	small, large := realFiles(t)
	for _, f := range []realFile{small, large} {
		slices.SortStableFunc(f.Prompts, func(a, b realPrompt) int { return cmp.Compare(len(a.IDs), len(b.IDs)) })
		t.Run(strings.TrimSuffix(f.File, ".gguf")+"/exact", func(t *testing.T) { exactLogits(t, f) })
		t.Run(strings.TrimSuffix(f.File, ".gguf")+"/fast", func(t *testing.T) { fastLogits(t, f) })
	}
}

// exactLogits evaluates the shortest prompts in float32.
func exactLogits(t *testing.T, f realFile) {
	e := openReal(t, f, engine.Options{Exact: true})
	tokens, prompts, largest := 0, 0, 0.0
	for _, p := range f.Prompts {
		if tokens += len(p.IDs); tokens > realTokens {
			break
		}
		off, gap := realError(t, e, p)
		assert.Less(t, off, realExact, p.Name)
		assert.Zero(t, gap, "%s: the best token", p.Name)
		prompts, largest = prompts+1, max(largest, off)
	}
	t.Logf("%d prompts, largest error of a logit: %.2g standard deviations", prompts, largest)
	assert.GreaterOrEqual(t, prompts, 6)
}

// fastLogits evaluates all prompts as run does.
func fastLogits(t *testing.T, f realFile) {
	e := openReal(t, f, engine.Options{})
	other, largest, farthest := 0, 0.0, 0.0
	for _, p := range f.Prompts {
		off, gap := realError(t, e, p)
		assert.Less(t, gap, realMargin, "%s: the best token", p.Name)
		if gap > 0 {
			other++
		}
		farthest = max(farthest, gap)
		if len(p.IDs) == 1 {
			assert.Less(t, off, realFirst, p.Name)
			continue
		}
		assert.Less(t, off, realFast, p.Name)
		largest = max(largest, off)
	}
	t.Logf("%d prompts, largest error of a logit after several tokens: %.2g standard deviations; another best "+
		"token in %d, with a gap of max %.2g", len(f.Prompts), largest, other, farthest)
}

// realError returns the largest error of a logit, and the gap between the reference's best token and the best token of
// e. Both are in standard deviations of the reference's logits.
func realError(t *testing.T, e *engine.Engine, p realPrompt) (off, gap float64) {
	t.Helper()
	logits, top, err := e.Logits(t.Context(), p.IDs, 1)
	require.NoError(t, err, p.Name)
	best := math.Inf(-1) // of a token that is not in the reference
	for _, l := range slices.Concat(p.Best, p.Others) {
		off = max(off, math.Abs(float64(logits[l.id])-l.logit)/p.Deviation)
		if l.id == top[0].ID {
			best = l.logit
		}
	}
	return off, (p.Best[0].logit - best) / p.Deviation
}
