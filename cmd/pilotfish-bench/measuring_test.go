//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// quickly returns changes to the study in docs/study/measuring.md that make it run in seconds. Each must apply.
func quickly() [][2]string {
	return [][2]string{
		{`--rtt 50ms,150ms,300ms --questions 16`,
			`--rtt 1ms,3ms --questions 2 --edge-tps 0 --cloud-ms 0`},
		{`-m large.gguf -p 130 -n 25 --devices 1,8,32`, `-m large.gguf -p 8 -n 4 --answers 0`},
		{`--rtt 50ms --questions 16`, `--rtt 1ms --questions 3 --edge-tps 2000 --cloud-ms 0`},
	}
}

// TestMeasuring: the commands of docs/study/measuring.md run in order in one shell, and write the documented files.
func TestMeasuring(t *testing.T) {
	if testing.Short() {
		t.Skip("a complete study: make long")
	}
	page, err := os.ReadFile("../../docs/study/measuring.md")
	require.NoError(t, err)
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		script.WriteString(block[1])
	}
	text := script.String()
	for _, change := range quickly() {
		require.Contains(t, text, change[0], "the page has changed")
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large.gguf"), demo.Large(), 0o644))
	inShell(t, dir, text)
	for _, name := range []string{"sweep.html", "replayed.html"} {
		assert.FileExists(t, filepath.Join(dir, name))
	}
	replayed, err := result.ReadFile(filepath.Join(dir, "replayed.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, 5*3, len(replayed), "three modes at five round trips")
	sweep, err := result.ReadFile(filepath.Join(dir, "sweep.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, 2*6, len(sweep))
	large, err := result.ReadFile(filepath.Join(dir, "large.jsonl"))
	require.NoError(t, err)
	assert.Len(t, large, 1)
}

// TestMeasuringNames: every field in the page exists in some measurement.
func TestMeasuringNames(t *testing.T) {
	racing.Spare(t)
	page, err := os.ReadFile("../../docs/study/measuring.md")
	require.NoError(t, err)
	schema := string(measurementSchema(t))
	rows := regexp.MustCompile("(?m)^\\| ((?:`[a-z_0-9]+`(?:, )?)+)[^|]*\\|").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(rows), 20)
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`([a-z_0-9]+)`").FindAllStringSubmatch(row[1], -1) {
			if name[1] == "run" {
				continue // a command
			}
			assert.Contains(t, schema, `"`+name[1]+`":`, "%s in docs/study/measuring.md", name[1])
		}
	}
}
