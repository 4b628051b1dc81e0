package report

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/browsertest"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// clickAll clicks every control of the page, one after the other, and returns how many there were.
const clickAll = `(() => {
  let n = 0;
  for (const e of document.querySelectorAll("input, summary, button, a")) { e.click(); n++; }
  for (const e of document.querySelectorAll("select")) {
    for (const o of e.options) { e.value = o.value; e.dispatchEvent(new Event("input", {bubbles: true})); n++; }
  }
  return n;
})()`

// TestPageInBrowser: a browser logs no errors at any width, in light or dark mode, whatever is clicked. Only tables in
// their boxes are wider than the page, nothing is loaded from a network, and deselected modes and cells are hidden.
func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser is slow: not with -short")
	}
	b := browsertest.Start(t, "file://")
	path := filepath.Join(held.TempDir(t), "page.html")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, sample(t).WriteHTML(f))
	require.NoError(t, f.Close())
	for _, width := range []int{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.Open(path, width, scheme)
			b.Picture(fmt.Sprintf("%d-%s", width, scheme))
			const visible = `[...document.querySelectorAll("%s")].filter((e) => e.getClientRects().length > 0).length`
			assert.LessOrEqual(t, browsertest.Evaluated[int](b, "document.documentElement.scrollWidth"), width)
			assert.Equal(t, 1, browsertest.Evaluated[int](b, fmt.Sprintf(visible, "[data-place]")), "one cell")
			lines := fmt.Sprintf(visible, `figure path.l`)
			before := browsertest.Evaluated[int](b, lines)
			browsertest.Evaluated[bool](b, `document.querySelector("input[data-mode=serial]").click(), true`)
			assert.Less(t, browsertest.Evaluated[int](b, lines), before, "without serial")
			browsertest.Evaluated[bool](b, `document.querySelector("input[data-mode=serial]").click(), true`)
			assert.Equal(t, before, browsertest.Evaluated[int](b, lines))
			assert.Greater(t, browsertest.Evaluated[int](b, clickAll), 10)
			assert.Equal(t, 1, browsertest.Evaluated[int](b, fmt.Sprintf(visible, "[data-place]")), "another cell")
			b.Picture(fmt.Sprintf("%d-%s-clicked", width, scheme))
			dark := browsertest.Evaluated[string](b, `getComputedStyle(document.body).backgroundColor`)
			assert.Equal(t, map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 28)"}[scheme], dark)
		}
	}
	assert.Empty(t, b.Problems)
	assert.False(t, browsertest.Evaluated[bool](b, `"hostile" in window`), "text is not executed")
}
