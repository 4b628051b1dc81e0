package demo_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// TestSums: the files have the checksums that belong to the figures in README.md.
func TestSums(t *testing.T) {
	f, err := os.Open("SHA256SUMS")
	require.NoError(t, err)
	defer f.Close()
	files := 0
	for lines := bufio.NewScanner(f); lines.Scan(); files++ {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, sum, fmt.Sprintf("%x", sha256.Sum256(b)), name)
	}
	assert.Equal(t, 4, files)
}

func TestQuestions(t *testing.T) {
	train, heldOut := demo.Questions(demo.Train), demo.Questions(demo.HeldOut)
	assert.Len(t, train, 800)
	assert.Len(t, heldOut, 400)
	assert.Empty(t, demo.Questions("no such split"))
	seen := map[string]bool{}
	for _, q := range append(train, heldOut...) {
		assert.False(t, seen[q.Text], "asked twice: %s", q.Text)
		seen[q.Text] = true
		// The rule that separated the held-out questions: train.py draws no question with such a checksum.
		assert.Equal(t, q.Split == demo.HeldOut, crc32.ChecksumIEEE([]byte(q.Text))%8 == 0, "the split of %s", q.Text)
		assert.Len(t, q.Places, 4)
		assert.Len(t, q.Foods, 4)
		assert.Contains(t, q.Places, q.Place)
		assert.Contains(t, q.Foods, q.Food)
		assert.Contains(t, q.Text, " Places: "+strings.Join(q.Places, ", ")+". Foods: "+strings.Join(q.Foods, ", ")+".")
		assert.True(t, q.Correct(q.Answer), "the true answer to %s", q.Text)
	}
}

// TestQuestionsApart: a caller may change its questions.
func TestQuestionsApart(t *testing.T) {
	for _, split := range []string{demo.Train, demo.HeldOut} {
		mine, want := demo.Questions(split), demo.Questions(split)[0].Text
		mine[0].Text = "changed"
		_ = append(mine[:1], demo.Question{Text: "another"})
		assert.Equal(t, want, demo.Questions(split)[0].Text)
		assert.NotEqual(t, "another", demo.Questions(split)[1].Text)
	}
}

func TestCorrect(t *testing.T) {
	q := demo.Question{
		Place: "reef", Places: []string{"reef", "barn", "bog", "attic"},
		Food: "oats", Foods: []string{"figs", "oats", "sap", "kelp"},
	}
	for answer, want := range map[string]bool{
		"In the reef, and it eats oats: so say all the old books.": true,
		"oats,reef":                            true,
		"In the barn, and it eats oats.":       false,
		"In the reef, and it eats figs.":       false,
		"In the reef or the barn, eating oats": false,
		"In the reefs, and it eats oats.":      false,
		"":                                     false,
	} {
		assert.Equal(t, want, q.Correct(answer), answer)
	}
	assert.False(t, q.Correct(strings.Join(append(q.Places, q.Foods...), " ")), "an answer with all words is wrong")
}

// tokens returns the tokenizer of a file.
func tokens(t *testing.T, b []byte) *tokenizer.Tokenizer {
	t.Helper()
	f, err := gguf.Parse(b)
	require.NoError(t, err)
	tok, err := tokenizer.FromGGUF(f)
	require.NoError(t, err)
	return tok
}

func TestTokenizer(t *testing.T) {
	tok := tokens(t, demo.Small())
	assert.Equal(t, tok.Hash(), tokens(t, demo.Large()).Hash(), "one vocabulary")
	assert.Equal(t, 768, tok.Size())
	for _, q := range append(demo.Questions(demo.Train), demo.Questions(demo.HeldOut)...) {
		assert.Equal(t, q.Text, tok.Decode(tok.Encode(q.Text, false)))
		assert.Equal(t, q.Answer, tok.Decode(tok.Encode(q.Answer, false)))
		for _, w := range append(q.Places, q.Foods...) {
			assert.Len(t, tok.Encode(" "+w, false), 1, "a fact is one token: %s", w)
		}
	}
}

// TestChat: a chat has the format of the training texts, without the system message of the template.
func TestChat(t *testing.T) {
	tok := tokens(t, demo.Small())
	ids, err := tok.Chat([]tokenizer.Message{{Role: "user", Content: "Where?"}}, nil)
	require.NoError(t, err)
	assert.Equal(t, tok.Encode("<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\n", true), ids)
	end, ok := tok.EOS()
	assert.True(t, ok)
	assert.Equal(t, "<|im_end|>", tok.Text(end))
	assert.True(t, tok.IsEnd(end))
}
