package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRealSteps: each step finds what it needs, made by steps before it, and nothing is made twice. Routers are trained
// on, certified with and judged by questions that have none in common.
func TestRealSteps(t *testing.T) {
	made := map[string]bool{}
	used := map[string][]*part{}
	check := func(args string) {
		for word := range strings.FieldsSeq(args) {
			name, out := strings.CutPrefix(word, "OUT/")
			if out && !strings.Contains(args, "-o "+word) && !strings.Contains(args, "--record "+word) {
				assert.True(t, made[name], "%s is not there for %s", name, args)
			}
		}
	}
	for _, s := range realSteps() {
		assert.False(t, made[s.outcome], s.outcome)
		made[s.outcome] = true
		require.Equal(t, s.part == nil, s.args != "")
		if q := s.part; q != nil {
			assert.True(t, strings.HasSuffix(q.of, "-train"), "%s: routers are judged by the other split", q.of)
			if q.of == "mbpp-train" { // of a file with all splits, lines 601 to 974
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
	steps, measure, err := realChosen([]string{"arc"})
	require.NoError(t, err)
	assert.Less(t, len(steps), len(realSteps()))
	assert.Len(t, measure, 1)
	_, _, err = realChosen([]string{"arc", "x"})
	assert.ErrorContains(t, err, `no task "x"`)
}

// TestRealPaths: placeholders become paths, and nothing else does.
func TestRealPaths(t *testing.T) {
	p := paths{dir: "/d", models: "/m"}
	assert.Equal(t, []string{"eval", "-m", filepath.Join("/m", realSmall), "--large", filepath.Join("/m", realLarge),
		"-o", "/d/x"}, p.fill("eval -m SMALL --large LARGE -o OUT/x"))
}

// TestRealDone: a folder of traces counts when its collecting has ended, a file when it is there.
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
