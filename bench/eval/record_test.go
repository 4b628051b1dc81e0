package eval

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// saved returns a file with this content.
func saved(t *testing.T, content []byte) string {
	path := filepath.Join(held.TempDir(t), "log")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// TestParseRun: a run is parsed from its name, and nothing else is a name.
func TestParseRun(t *testing.T) {
	runs := append(someRuns(), with(Run{Policy: router.Never}, 0), with(at(router.Margin, 0.9999251), 0.25),
		with(Run{Policy: router.Learned, Budget: 0.005}, 12), Run{Policy: router.Verify, Budget: 0.1234567})
	for _, r := range runs {
		got, err := ParseRun(r.Name())
		require.NoError(t, err)
		assert.Equal(t, r.Name(), got.Name())
		assert.Equal(t, r.Threshold, got.Threshold, r.Name())
		assert.Equal(t, r.Verify, got.Verify, r.Name())
		assert.InDelta(t, r.Budget, got.Budget, 1e-12, r.Name())
	}
	for _, name := range []string{"", "best", "margin x", "margin 0.5 0.6", "never verified", "never verified x",
		"margin  0.5", "margin 0.50", "margin 7%%", "verified 0", "oracle"} {
		_, err := ParseRun(name)
		assert.ErrorContains(t, err, "is not the name of a run", name)
	}
}

// TestReadLog: a file is read compressed or not, also while it is written; one of another format is refused.
func TestReadLog(t *testing.T) {
	text := []byte(head + good + `{"quest`)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for _, b := range [][]byte{text, packed.Bytes()} {
		l, err := ReadLog(saved(t, b))
		require.NoError(t, err)
		assert.Equal(t, "t", l.Settings.Task)
		assert.Equal(t, "1", l.About.Version)
		assert.Equal(t, 1, l.Answers())
		runs, err := l.Runs()
		require.NoError(t, err)
		assert.Equal(t, []string{"margin 0.5"}, Names(runs))
		assert.Equal(t, "a", l.Set().Questions[0].ID)
	}
	for content, want := range map[string]string{
		"": "the file is empty", "x": "not a file of answers",
		strings.Replace(head, "3", "2", 1):              "line 1: the answers are of format 2: this program reads 3",
		head + strings.Replace(good, `"ec"`, `"ee"`, 1): "line 2: a position in missed or needless",
		"\x1f\x8b": "unexpected EOF", packed.String()[:packed.Len()-9]: "unexpected EOF",
	} {
		_, err := ReadLog(saved(t, []byte(content)))
		assert.ErrorContains(t, err, want, content)
	}
	_, err = ReadLog("/nowhere")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestWrite: what is written has the complete questions without ids of tokens, and reads the same.
func TestWrite(t *testing.T) {
	o := demoOptions(t, 3, someRuns()...)
	require.NoError(t, o.Run(t.Context()))
	o.Log.answers[key{"more", "never"}] = Answer{Question: "more", Run: "never", Stop: "end"}
	o.Log.order = append(o.Log.order, "more")
	var b bytes.Buffer
	require.NoError(t, o.Log.Write(&b))
	assert.NotContains(t, b.String(), `"tokens":[`)
	assert.Equal(t, 1+3*len(o.Runs), strings.Count(b.String(), "\n"))
	l, err := ReadLog(saved(t, b.Bytes()))
	require.NoError(t, err)
	assert.Equal(t, o.Log.Settings, l.Settings)
	for _, q := range o.Set.Questions {
		for _, r := range o.Runs {
			want, _ := o.Log.Answer(q.ID, r.Name())
			want.Tokens = nil
			got, ok := l.Answer(q.ID, r.Name())
			assert.True(t, ok)
			assert.Equal(t, want, got)
		}
	}
	without := Summarize(l.Set(), o.Runs, l)
	whole := Summarize(o.Set, o.Runs, o.Log)
	assert.Equal(t, whole, without, "the figures need no questions")
}

// TestCheck: answers have to be to the questions of the set, and to be right where the grader says so.
func TestCheck(t *testing.T) {
	o := demoOptions(t, 3, Run{Policy: router.Never}, Run{Policy: router.Always})
	require.NoError(t, o.Run(t.Context()))
	require.NoError(t, o.Log.Check(t.Context(), o.Set))
	k := key{o.Set.Questions[1].ID, "always"}
	a := o.Log.answers[k]
	require.Equal(t, "right", a.Verdict)
	a.Verdict = "wrong"
	o.Log.answers[k] = a
	assert.ErrorContains(t, o.Log.Check(t.Context(), o.Set),
		`question 2, run "always": the verdict is wrong, but the answer is right`)
	a.Verdict, a.Stop = "right", "length"
	o.Log.answers[k] = a
	assert.ErrorContains(t, o.Log.Check(t.Context(), o.Set), "the verdict is right, but the answer is silent")
	a.Stop = "end"
	o.Log.answers[k] = a
	assert.ErrorContains(t, o.Log.Check(t.Context(), &task.Set{Name: "demo", Questions: o.Set.Questions[1:]}),
		`the question "1" is none of demo`)
}

// TestContradictions: an answer that its run cannot have is refused.
func TestContradictions(t *testing.T) {
	for name, c := range map[string]struct {
		a    Answer
		want string
	}{
		"never without asks":   {Answer{Run: "never", Origins: "ee"}, ""},
		"never with an ask":    {Answer{Run: "never", Origins: "ec", Asks: 1}, "the large model has 1 of 2 tokens"},
		"always, not for all":  {Answer{Run: "always", Origins: "ec", Asks: 1}, "the large model has 1 of 2 tokens"},
		"always for all":       {Answer{Run: "always", Origins: "cc", Asks: 2}, ""},
		"an ask without token": {Answer{Run: "margin 0.5", Origins: "ec", Asks: 2}, "2 questions gave 1 tokens"},
		"a needless edge token": {Answer{Run: "margin 0.5", Origins: "ec", Asks: 1, Needless: []int{0}},
			"a position in missed or needless"},
		"verified": {Answer{Run: "never verified 0", Origins: "ece", Asks: 2, Turned: 1, Needless: []int{2}}, ""},
		"more replaced than chosen": {Answer{Run: "never verified 0", Origins: "ece", Asks: 2, Turned: 2},
			"2 questions replaced 2 tokens, but"},
		"more chosen than replaced": {Answer{Run: "never verified 0", Origins: "ccc", Asks: 1, Turned: 1},
			"1 questions replaced 1 tokens, but"},
		"missed with verification": {
			Answer{Run: "never verified 0", Origins: "ece", Asks: 2, Turned: 1, Missed: []int{1}},
			"a position in missed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.a.Question, c.a.Stop, c.a.Pieces = "q", "end", make([]string, len(c.a.Origins))
			err := c.a.checkConsistency([]string{c.a.Run})
			if c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
		})
	}
}

// TestJoin: logs of equal settings have their runs in one table; a run that is there twice is that of the first.
func TestJoin(t *testing.T) {
	part := func(verdict string, runs ...Run) *Log {
		l := NewLog(Settings{Task: "t", Router: verdict, Runs: Names(runs)}, About{})
		for _, r := range runs {
			l.storeAnswer(made("a", r.Name(), verdict, "ee"))
		}
		return l
	}
	never, margin, learned := Run{Policy: router.Never}, at(router.Margin, 0.5), at(router.Learned, 0.5)
	l, err := Join([]*Log{part("right", never, margin), part("wrong", never, learned)})
	require.NoError(t, err)
	assert.Equal(t, []string{"never", "margin 0.5", "learned 0.5"}, l.Settings.Runs)
	for run, want := range map[string]string{"never": "right", "margin 0.5": "right", "learned 0.5": "wrong"} {
		a, ok := l.Answer("a", run)
		assert.True(t, ok)
		assert.Equal(t, want, a.Verdict, run)
	}
	other := part("right", never)
	other.Settings.MaxTokens = 9
	_, err = Join([]*Log{part("right", margin), other})
	assert.ErrorContains(t, err, "are of different settings: max_tokens")
}

// TestShares: tokens that are asked for, replaced and read, with and without verification; without a run of the policy
// always, verification without a margin is the large model alone.
func TestShares(t *testing.T) {
	runs := []Run{{Policy: router.Never}, at(router.Margin, 0.5), with(Run{Policy: router.Never}, 0),
		with(at(router.Margin, 0.5), 1)}
	l := NewLog(Settings{Runs: Names(runs)}, About{})
	l.storeAnswer(made("a", "never", "wrong", "eeeeeeee"))
	for run, a := range map[string]Answer{
		"margin 0.5":       {Origins: "eecececc", Asks: 4, Needless: []int{4, 7}, Verdict: "wrong"},
		"never verified 0": {Origins: "eceeecee", Asks: 4, Turned: 2, Needless: []int{7}, Verdict: "right"},
		"margin 0.5 verified 1": {Origins: "eceeecee", Asks: 3, Known: 1, Turned: 1, Needless: []int{1},
			Verdict: "right"},
	} {
		b := made("a", run, a.Verdict, a.Origins)
		b.Asks, b.Known, b.Turned, b.Needless = a.Asks, a.Known, a.Turned, a.Needless
		require.NoError(t, b.checkConsistency(Names(runs)), run)
		l.storeAnswer(b)
	}
	r := Summarize(l.Set(), runs, l)
	require.Len(t, r.Runs, 5)
	for i, want := range []struct {
		run                                   string
		escalated, asked, replaced, read, gap float64 // gap -1: none
	}{
		{"never", 0, 0, 0, 0, -1}, {"margin 0.5", 0.5, 0.5, 0.25, 7, 0}, {"never verified 0", 0.25, 0.5, 0.25, 8, -1},
		{"margin 0.5 verified 1", 0.125, 0.5, 0.125, 8, 1}, {Oracle, 0.25, 0.25, 0.25, 5, -1},
	} {
		t.Run(want.run, func(t *testing.T) {
			one, gap := r.Runs[i], -1.
			if one.Gap != nil {
				gap = one.Gap.Value
			}
			assert.Equal(t, want.run, one.Name())
			assert.Equal(t, want.escalated, one.Share(one.Cloud))
			assert.Equal(t, want.asked, one.Share(one.Asked()))
			assert.Equal(t, want.replaced, one.Share(one.Replaced()))
			assert.EqualValues(t, want.read, one.Read)
			assert.Equal(t, want.gap, gap)
		})
	}
}
