package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRealSteps: each step finds its inputs, which earlier steps made, and no step repeats another. Routers are
// trained, certified and judged with disjoint sets of questions.
func TestRealSteps(t *testing.T) {
	made := map[string]bool{}
	used := map[string][]*part{}
	check := func(args string) {
		for word := range strings.FieldsSeq(args) {
			name, out := strings.CutPrefix(word, "OUT/")
			if out && !strings.Contains(args, "-o "+word) && !strings.Contains(args, "--record "+word) {
				assert.True(t, made[name], "%s is missing for %s", name, args)
			}
		}
	}
	for _, s := range realSteps() {
		assert.False(t, made[s.outcome], s.outcome)
		made[s.outcome] = true
		require.Equal(t, s.part == nil, s.args != "")
		if q := s.part; q != nil {
			assert.True(t, strings.HasSuffix(q.of, "-train"), "%s: the other split judges routers", q.of)
			if q.of == "mbpp-train" { // a file with all splits, lines 601 to 974
				assert.True(t, q.from > 600 && q.from+q.lines <= 975, "%v", q)
			}
			for _, other := range used[q.of] {
				assert.True(t, q.from >= other.from+other.lines || other.from >= q.from+q.lines, "%v %v", q, other)
			}
			used[q.of] = append(used[q.of], q)
			continue
		}
		assert.Contains(t, s.args, "OUT/"+s.outcome, "a step writes its outcome")
		if strings.Contains(s.args, "--data OUT/mbpp-") {
			assert.Contains(t, s.args, "--task mbpp-train ")
		}
		check(s.args)
	}
	for _, e := range realExperiments() {
		check(e.args)
	}
	assert.Equal(t, "eval mbpp -m SMALL --large LARGE --router OUT/mbpp.gguf --budget 0.03,0.05,0.07 --questions 150 "+
		"-n 256 --run-code -o OUT/mbpp-answers.jsonl --json", realTasks()[3].experiment().args)
	steps, measure, err := realChosen([]string{"arc"})
	require.NoError(t, err)
	assert.Less(t, len(steps), len(realSteps()))
	assert.Len(t, measure, 1)
	steps, measure, err = realChosen([]string{"times", "arc"})
	require.NoError(t, err)
	assert.Contains(t, steps, realRecording)
	require.Len(t, measure, 2)
	assert.Equal(t, []string{"real-times", "real-arc"}, []string{measure[0].name, measure[1].name})
	_, _, err = realChosen([]string{"arc", "x"})
	assert.ErrorContains(t, err, `unknown name "x": give tasks or times`)
}

// TestRealBlocks: the tables contain the figures of the lines, and a file that lacks a run is refused.
func TestRealBlocks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, kept), 0o755))
	keep := func(name, lines string) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write([]byte(lines))
		require.NoError(t, errors.Join(err, z.Close(), os.WriteFile(keptFile(dir, name), packed.Bytes(), 0o644)))
	}
	line := func(run, fields string) string {
		return `{"policy":"` + run + `","answers":200,"accuracy_low":0.1,"accuracy_high":0.9,` + fields +
			`,"run":{"measurement":"eval","command":"c","date":"2026-01-02T00:00:00Z"}}` + "\n"
	}
	never := line("never", `"accuracy":0.25,"escalated_share":0`)
	always := line("always", `"accuracy":0.65,"escalated_share":1`)
	keep("real-csqa", never+always+line("margin", `"budget":0.07,"accuracy":0.4,"escalated_share":0.066`))
	assert.ErrorContains(t, realBlocks(dir, map[string]string{}), "the certified threshold is missing")
	keep("real-csqa", never+always+line("margin", `"budget":0.07,"accuracy":0.4,"escalated_share":0.066`)+
		line("learned", `"threshold":0.9,"accuracy":0.605,"escalated_share":0.042,`+
			`"gap_recovered":{"value":0.8875,"low":0.7,"high":1.1}`))
	texts := map[string]string{}
	require.NoError(t, realBlocks(dir, texts))
	assert.Contains(t, texts["real-table"], "| csqa, 200 | 25.0% (10.0 to 90.0) | 65.0% (10.0 to 90.0) | "+
		"60.5% (10.0 to 90.0) | 4.2% | 0.89 (0.70 to 1.10) | 40.0% (6.6%) |  |  |\n")
	assert.NotContains(t, texts, "real-csqa-sources", "unknown")
	assert.Contains(t, strings.ReplaceAll(texts["real-line"], "\n", " "), "alone answers 25.0% correctly and the "+
		"1.5B alone 65.0%; with 4.2% of its tokens from the 1.5B, the 0.5B answers 60.5% correctly.")

	require.NoError(t, os.WriteFile(keptFile(dir, "real-arc"), []byte("x"), 0o600))
	assert.ErrorContains(t, realBlocks(dir, texts), "real-arc.jsonl.gz: ")
	require.NoError(t, os.Remove(keptFile(dir, "real-arc")))
}

// TestRealPaths: placeholders become paths; other text does not change.
func TestRealPaths(t *testing.T) {
	p := paths{dir: "/d", models: "/m"}
	assert.Equal(t, []string{"eval", "-m", filepath.Join("/m", realSmall), "--large", filepath.Join("/m", realLarge),
		"-o", "/d/x"}, p.fill("eval -m SMALL --large LARGE -o OUT/x"))
}

// TestRealDone: a folder of traces is complete when collecting has ended, a file when it exists.
func TestRealDone(t *testing.T) {
	dir := t.TempDir()
	traces, file := realStep{outcome: "a", args: "router collect x"}, realStep{outcome: "b", args: "router train x"}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	assert.False(t, traces.done(dir))
	assert.False(t, file.done(dir))
	for _, name := range []string{"a.done", "b"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	assert.True(t, traces.done(dir))
	assert.True(t, file.done(dir))
}
