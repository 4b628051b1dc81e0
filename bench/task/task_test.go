package task

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// mustOpen is [Open] without an error.
func mustOpen(t testing.TB, name string, o Options) *Set {
	t.Helper()
	s, err := Open(name, o)
	require.NoError(t, err)
	return s
}

func TestFile(t *testing.T) {
	path := filepath.Join(held.TempDir(t), "q.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(
		`{"question":"How many?","answer":"42","reference":"There are 42.","id":"a"}`+"\n\n"+`{"question":"Why?"}`),
		0o644))
	s := mustOpen(t, path, Options{})
	require.Len(t, s.Questions, 2)
	assert.Equal(t, "3", s.Questions[1].ID, "the number of the line")
	assert.Nil(t, s.Questions[1].Grade)
	q := s.Questions[0]
	assert.Equal(t, "a", q.ID)
	assert.Equal(t, "How many?", q.Text)
	assert.Equal(t, "There are 42.", q.Reference)
	assert.Equal(t, Right, q.Grade("It is 42, or so"))
	assert.Equal(t, Wrong, q.Grade("It is 4"))
	first := mustOpen(t, path, Options{Most: 1})
	assert.Len(t, first.Questions, 1)
	assert.Equal(t, s.Hash, first.Hash)
	for _, o := range []Options{{Skip: 1}, {Skip: 1, Most: 1}} {
		last := mustOpen(t, path, o)
		require.Len(t, last.Questions, 1)
		assert.Equal(t, "3", last.Questions[0].ID)
		assert.Equal(t, s.Hash, last.Hash)
	}
	for _, o := range []Options{{Most: 3}, {Skip: 2}, {Skip: 1, Most: 2}} {
		_, err := Open(path, o)
		assert.ErrorContains(t, err, "has 2 questions, not 3")
	}

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(b, "\nnonsense"+strings.Repeat(" ", 10_000)...), 0o644))
	two := mustOpen(t, path, Options{Most: 2}) // the next line is not read
	assert.NotEqual(t, s.Hash, two.Hash, "but the file differs")
	b, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256(b)), two.Hash)
	_, err = Open(path, Options{})
	assert.ErrorContains(t, err, "line 4")
	_, err = Open(path+"x", Options{})
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestFileRefused: each error names the file and the line.
func TestFileRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "F: the file has no questions",
		"{\"question\":\"a\"}\n{}": `F: line 2: the object has no "question"`,
		"[]":                       "F: line 1: json: ",
		`{"question":"a","id":"x"}` + "\n" + `{"question":"b","id":"x"}`: `F: line 2: its id "x" is that of line 1`,
		"\n" + strings.Repeat("x", maxLine+1):                            "F: line 2 is longer than 1 MB",
	} {
		_, err := Read(strings.NewReader(text), "F")
		assert.ErrorContains(t, err, want)
	}
}

func TestDemo(t *testing.T) {
	held := mustOpen(t, Demo, Options{})
	assert.Len(t, held.Questions, 400)
	train := mustOpen(t, DemoTrain, Options{Most: 1000, Seed: 1})
	assert.Len(t, train.Questions, 1000)
	other := mustOpen(t, DemoTrain, Options{Most: 1000, Seed: 2})
	assert.NotEqual(t, train.Hash, other.Hash)
	_, err := Open(Demo, Options{Most: 401})
	assert.ErrorContains(t, err, "demo has 400 questions, not 401", "training questions are not drawn for it")
	texts := map[string]bool{}
	for _, q := range append(held.Questions, train.Questions...) {
		assert.False(t, texts[q.Text])
		texts[q.Text] = true
		place, food, _ := strings.Cut(q.Key, ", ")
		assert.Contains(t, q.Reference, place)
		assert.Contains(t, q.Reference, food)
		assert.NotEmpty(t, food)
		assert.Equal(t, Right, q.Grade(q.Reference))
		assert.Equal(t, Wrong, q.Grade("no idea"))
	}
}
