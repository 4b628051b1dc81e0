package eval

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// TestPageInBrowser: a browser shows the answers of a page, hostile ones as text, and its script logs no errors.
func TestPageInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		sharedtest.Missing(t, errors.New("there is no chromium in PATH to show a page with"))
	}
	set, runs, l := comparedRuns()
	set.Questions[0].Text = hostile
	path := filepath.Join(held.TempDir(t), "page.html")
	require.NoError(t, os.WriteFile(path, []byte(written(t, set, runs, l)), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+held.TempDir(t), "--enable-logging=stderr", "--virtual-time-budget=1000",
		"--dump-dom", "file://"+path)
	var complaints strings.Builder
	c.Stderr = &complaints
	dom, err := c.Output()
	require.NoError(t, err, complaints.String())
	assert.Equal(t, 4, strings.Count(string(dom), "<article>"))
	assert.Contains(t, string(dom), `<span id="count" class="soft" aria-live="polite">4 of 4</span>`)
	assert.Contains(t, string(dom), `<span class="E">x</span>`)
	assert.Contains(t, string(dom), "&lt;img src=x onerror=")
	assert.NotContains(t, complaints.String(), "CONSOLE", "errors of the script")
}
