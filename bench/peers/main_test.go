package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTable: a row has the medians of both programs, with their spread and ratio.
func TestTable(t *testing.T) {
	row := tableRow("a.gguf", 2, []rates{{300, 30}, {100, 10}, {200, 20}}, []rates{{50, 5}, {150, 15}})
	assert.Equal(t, "| a.gguf | 2 | 20.0 (10.0–30.0) | 10.0 (5.0–15.0) | 2.00 "+
		"| 200.0 (100.0–300.0) | 100.0 (50.0–150.0) | 2.00 |\n", row)
	assert.Equal(t, strings.Count(header, "|")/2, strings.Count(row, "|"))
}

// TestMeasure: the last line of each program counts, in as many rounds as wanted; what goes wrong is said.
func TestMeasure(t *testing.T) {
	folder := t.TempDir()
	program := func(name, script string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
		return path
	}
	t.Setenv("PATH", folder)
	program("node", `echo loading; echo '{"prompt_tps": 50, "generation_tps": 5}'`)
	o := options{ours: program("ours", `echo '{"prompt_tps": 100, "generation_tps": 20}'`), busy: "0", rounds: 2}
	var out strings.Builder
	require.NoError(t, measureFiles(t.Context(), &out, o, []string{"a.gguf"}))
	assert.Equal(t, header+"| a.gguf | 0 | 20.0 (20.0–20.0) | 5.0 (5.0–5.0) | 4.00 | 100.0 (100.0–100.0) | "+
		"50.0 (50.0–50.0) | 2.00 |\n", out.String())

	o.ours = program("broken", "echo no such model >&2; exit 3")
	require.ErrorContains(t, measureFiles(t.Context(), &out, o, []string{"a.gguf"}), "no such model")
	o.ours = program("silent", "echo hello")
	require.ErrorContains(t, measureFiles(t.Context(), &out, o, []string{"a.gguf"}), `printed "hello"`)
	require.ErrorContains(t, measureFiles(t.Context(), &out, o, nil), "name model files")
	o.busy = "two"
	require.ErrorContains(t, measureFiles(t.Context(), &out, o, []string{"a.gguf"}), "-busy")
}
