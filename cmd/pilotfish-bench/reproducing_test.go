//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// madeSmall returns changes to the commands of docs/study/reproducing.md that make them run in seconds with the demo's
// models, which can answer only the demo's questions. Each must apply.
func madeSmall() [][2]string {
	judged := "--data demo-train --questions 40 --reference judged -n 48"
	return [][2]string{
		{`do pilotfish-bench eval fetch $FILE; done`, `do :; done`},
		{`--task $TASK --split training --reference judged -n 640`, judged},
		{`--task mbpp --split training --reference judged -n 320 --run-code`, judged},
		{`--data bench/task/everyday-training.jsonl --reference judged -n 64`, judged},
		// every difference of the demo's models matters: there is nothing for a judge to learn
		{`pilotfish-bench router train judged-csqa judged-arc judged-gsm8k judged-mbpp judged-everyday -o judge.gguf`,
			`cp "$JUDGE" judge.gguf`},
		{`eval gsm8k --split test --questions 400`, `eval demo --questions 8`},
		{`"$(pilotfish-bench eval fetch csqa-train)"`, `fetched.jsonl`},
		{`--task csqa --data own.jsonl`, `--data demo-train --questions 60`},
		{`--task csqa --data routed.jsonl`, `--data demo-train --questions 20`},
		{`--task csqa --split calibration`, `--data demo-train --questions 400`},
		{`--budget 0.07 --confidence`, `--budget 0.1 --confidence`},
		{` -n 96`, ` -n 48`}, {` -n 128`, ` -n 48`},
		{`eval bench/task/everyday.jsonl`, `eval demo --questions 8`},
	}
}

// TestReproducing: the commands of docs/study/reproducing.md run in order in one shell, and write the documented files.
func TestReproducing(t *testing.T) {
	if testing.Short() {
		t.Skip("a complete experiment: make long")
	}
	page, err := os.ReadFile("../../docs/study/reproducing.md")
	require.NoError(t, err)
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		script.WriteString(block[1])
	}
	text := script.String()
	for _, change := range madeSmall() {
		require.Contains(t, text, change[0], "the page has changed")
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fetched.jsonl"), bytes.Repeat([]byte("a line\n"), 500), 0o600))
	out := inShell(t, dir, "JUDGE="+clitest.JudgeFile(t)+"\n"+text)
	for _, want := range []string{`demo: 8 of 8 questions`, `never verified 0 `, `judge 5% `, `margin 7% `,
		`verify 7% `, `oracle `} {
		assert.Regexp(t, `(?m)^`+want, out)
	}
	for _, name := range []string{"own", "routed", "first.gguf", "router.gguf", "certified.gguf", "judge.gguf",
		"gsm8k.jsonl", "gsm8k.html", "everyday.jsonl"} {
		_, err := os.Stat(filepath.Join(dir, name))
		assert.NoError(t, err)
	}
	for name, lines := range map[string]int{"own": 320, "routed": 160} {
		kept, err := os.ReadFile(filepath.Join(dir, name+".jsonl"))
		require.NoError(t, err)
		assert.Equal(t, lines, bytes.Count(kept, []byte("\n")), "%s: of 500 lines", name)
	}
}

// inShell runs a script in a folder, with both programs and a hub that has the demo's models under the names of real
// ones, and returns its output. The first error ends the script.
func inShell(t *testing.T, dir, script string) string {
	t.Helper()
	programs := t.TempDir()
	built, err := exec.Command("go", "build", "-o", programs, "../pilotfish").CombinedOutput()
	require.NoError(t, err, "%s", built)
	c := exec.CommandContext(t.Context(), "sh", "-euc", script)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir(),
		"HF_ENDPOINT="+qwenHub(t))
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	require.NoError(t, c.Run(), "%s%s", &out, &errs)
	return out.String()
}

// qwenHub returns a hub with the demo's models in the repositories of Qwen2.5.
func qwenHub(t *testing.T) string {
	models := map[string][]byte{"Qwen2.5-Coder-0.5B-Instruct-GGUF": demo.Small(),
		"Qwen2.5-Coder-1.5B-Instruct-GGUF": demo.Large()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/models/Qwen/{name}/tree/main", func(w http.ResponseWriter, r *http.Request) {
		size := len(models[r.PathValue("name")])
		list := []map[string]any{{"type": "file", "path": "model-q4_k_m.gguf", "size": size}}
		assert.NoError(t, json.NewEncoder(w).Encode(list))
	})
	mux.HandleFunc("/Qwen/{name}/resolve/main/{file}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, path.Base(r.URL.Path), time.Time{}, bytes.NewReader(models[r.PathValue("name")]))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}
