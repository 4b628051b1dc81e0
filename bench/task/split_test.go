package task

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// TestSplits: the table of this program has all splits; no two have a line in common, and all lines are in the file.
func TestSplits(t *testing.T) {
	all, err := parseSplits(splitTable)
	require.NoError(t, err)
	sizes, owner := map[string]int{}, map[string]string{}
	for _, s := range all {
		for _, p := range s.lines {
			for line := p.first; line <= p.last; line++ {
				at := fmt.Sprintf("line %d of %.12s", line, s.File)
				require.Empty(t, owner[at], at)
				owner[at] = s.Name
				sizes[s.Task+" "+s.Name]++
			}
		}
	}
	assert.Equal(t, map[string]int{
		"csqa training": 480, "csqa calibration": 800, "csqa development": 200, "csqa test": 1021,
		"arc training": 480, "arc calibration": 639, "arc development": 200, "arc test": 972,
		"gsm8k training": 1080, "gsm8k calibration": 920, "gsm8k development": 150, "gsm8k test": 1169,
		"mbpp training": 200, "mbpp calibration": 174, "mbpp development": 150, "mbpp test": 350,
		"humaneval test": 164,
	}, sizes)
	for _, s := range all {
		if s.Task == MBPP {
			for _, p := range s.lines {
				assert.True(t, mbppTest.includes(p.first) && mbppTest.includes(p.last) || mbppTrain.includes(p.first) &&
					mbppTrain.includes(p.last), "the published splits stay apart")
			}
		}
	}
}

// TestSplitFiles: the files that the tests have are those of the table, with as many lines as it says.
func TestSplitFiles(t *testing.T) {
	for name, c := range map[string]struct{ task, file string }{
		"test":     {CSQA, "csqa/dev_rand_split.jsonl"},
		"training": {CSQA, "csqa/train_rand_split.jsonl"}, "development": {GSM8K, "gsm8k/test.jsonl"},
	} {
		split, err := FindSplit(c.task, name)
		require.NoError(t, err)
		path := sharedtest.Shared(t, "data", c.file)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, splitTable, fmt.Sprintf(" %d %x\n", bytes.Count(b, []byte("\n")), sha256.Sum256(b)))
		all, part := mustOpen(t, c.task, Options{Data: path}), mustOpen(t, c.task, Options{Data: path, Split: name})
		first := split.lines[0].first
		assert.Equal(t, all.Questions[first-1].ID, part.Questions[0].ID)
		assert.Len(t, part.Questions, split.lines[0].last-first+1)
		assert.NotEqual(t, all.Hash, part.Hash)
	}
}

// TestSplitOpen: a split has the questions of its lines, from the first, and only of its file.
func TestSplitOpen(t *testing.T) {
	var lines []string
	for id := range 974 {
		lines = append(lines, mbppLine(id+1))
	}
	b := []byte(strings.Join(lines, "\n"))
	split := &Split{Task: MBPP, Name: "some", File: fmt.Sprintf("%x", sha256.Sum256(b)),
		lines: []numberRange{{12, 13}, {900, 901}}}
	open := func(most int) (*Set, error) {
		s := newBenchmarkSet(MBPP, nil)
		return s, s.readSplitLines(bytes.NewReader(b), "F", split, Options{Most: most})
	}
	s, err := open(0)
	require.NoError(t, err)
	var ids []string
	for _, q := range s.Questions {
		ids = append(ids, q.ID)
	}
	assert.Equal(t, []string{"MBPP/12", "MBPP/13", "MBPP/900", "MBPP/901"}, ids)
	assert.Len(t, s.Shots, 10)
	assert.Equal(t, "some", s.Split)
	assert.Equal(t, split.Hash(), s.Hash)
	s, err = open(3)
	require.NoError(t, err)
	assert.Len(t, s.Questions, 3)
	other := *split
	other.lines = []numberRange{{12, 13}, {900, 902}}
	assert.NotEqual(t, split.Hash(), other.Hash())
	b = b[1:]
	_, err = open(0)
	assert.ErrorIs(t, err, ErrNotPublished)
	assert.EqualError(t, err, "F: not the published file of mbpp some, whose SHA-256 begins with "+split.File[:12])
	_, err = Open(MBPP, Options{Data: written(t, mbppLine(12)), Split: "test"})
	assert.ErrorIs(t, err, ErrNotPublished)
	_, err = Open(MBPP, Options{Data: written(t, mbppLine(12)), Split: "some"})
	assert.EqualError(t, err, "mbpp has no split some: it has training, calibration, development, test")
}

// TestSplitsRefused: a table with overlapping parts, or with a line that does not fit, is refused with the reason.
func TestSplitsRefused(t *testing.T) {
	const both = "of a file is in a test and in "
	file, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	line := func(s string) string { return s + " 9 " + file }
	begin := line("a test 1-4")
	for name, c := range map[string]struct{ table, want string }{
		"two parts of a file":  {begin + "\n" + line("a training 5-9"), ""},
		"two files":            {begin + "\na training 4-9 9 " + other + "\n# x\n\n" + line("b x 5-5,7-9"), ""},
		"a common line":        {begin + "\n" + line("a training 4-9"), "line 4 " + both + "a tr"},
		"of two tasks":         {line("a test 1-4,7-8") + "\n" + line("b training 5-7"), "line 7 " + both + "b"},
		"a test of two files":  {begin + "\na test 5-9 9 " + other, "line 5 " + both + "a test"},
		"lines after the last": {line("a test 1-10"), "1-10 is not an ascending list of ranges within 9 lines"},
		"line 0":               {line("a test 0-3"), "0-3 is not an ascending list"},
		"a falling range":      {line("a test 3-2"), "3-2 is not"},
		"a line twice":         {line("a test 3-4,4-5"), "3-4,4-5 is not"},
		"no range":             {line("a test 3"), "3 is not"},
		"no number of lines":   {"a test 1-2 x " + file, `parsing "x"`},
		"no SHA-256":           {"a test 1-2 9 abc", "a line has task, split, lines, their number and a SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseSplits(c.table)
			if c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
		})
	}
	_, err := FindSplit(Demo, "test")
	assert.EqualError(t, err, "demo has no splits")
	_, err = FindSplit(HumanEval, "training")
	assert.EqualError(t, err, "humaneval has no split training: it has test")
}
