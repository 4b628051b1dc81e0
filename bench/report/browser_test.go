package report

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/internal/browsertest"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestPageInBrowser: a browser logs no errors at any width, in light or dark mode, and executes no text of a line. Only
// tables and pictures in their boxes are wider than the page, nothing is loaded from a network, and the answers of eval
// are shown by run, verdict and text.
func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser is slow: not with -short")
	}
	b := browsertest.Start(t, "file://")
	set, runs, l := evaluated(t)
	defer l.Close()
	answers, err := OfEval(eval.Summarize(set, runs, l), l.Settings, aRun("eval"))
	require.NoError(t, errors.Join(err, answers.AddAnswers(set, runs, l)))
	for name, r := range map[string]*Report{"lines": sample(t), "answers": answers} {
		path := filepath.Join(held.TempDir(t), name+".html")
		require.NoError(t, os.WriteFile(path, []byte(written(t, r)), 0o600))
		for _, width := range []int{1280, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.Open(path, width, scheme)
				browsertest.Evaluated[bool](b,
					`[...document.querySelectorAll("summary")].forEach((e) => e.click()), true`)
				assert.LessOrEqual(t, browsertest.Evaluated[int](b, "document.documentElement.scrollWidth"), width)
				dark := browsertest.Evaluated[string](b, `getComputedStyle(document.body).backgroundColor`)
				assert.Equal(t, map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 28)"}[scheme],
					dark)
			}
		}
		assert.Equal(t, name == "answers", browsertest.Evaluated[bool](b, `document.querySelector("article") !== null`))
	}
	assert.Empty(t, b.Problems)
	assert.False(t, browsertest.Evaluated[bool](b, `"hostile" in window`), "text is not executed")
}
