package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

func TestRunJSON(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	code, stdout, stderr := clitest.Call(t, "run", "-m", m, "--tokens", "5,6,7", "-n", "9", "--ignore-eos", "--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	events := clitest.Lines[clitest.RunEvent](t, stdout)
	require.Len(t, events, 10)
	s := events[9].Summary
	require.NotNil(t, s)
	var text strings.Builder
	for i, e := range events[:9] {
		assert.Equal(t, 3+i, e.Pos)
		assert.Equal(t, s.Tokens[i], e.ID)
		assert.Equal(t, "edge", e.Origin)
		assert.True(t, e.Confidence > 0 && e.Confidence <= 1)
		text.WriteString(e.Text)
	}
	assert.True(t, strings.HasPrefix(s.Text, text.String()))
	assert.Equal(t, "length", s.Stop)
	assert.Equal(t, 3, s.PromptTokens)
	assert.Equal(t, 9, s.GeneratedTokens)
	assert.EqualValues(t, 2*2*512*2*64*2, s.KVBytes, "2 layers, K and V, 512 slots, 2 heads of 64, 2 bytes")

	_, plain, stderr := clitest.Call(t, "run", "-m", m, "--tokens", "5,6,7", "-n", "9", "--ignore-eos")
	assert.Equal(t, s.Text+"\n", plain, "only the text is printed to stdout")
	assert.Contains(t, stderr, "3 tokens of prompt")
	assert.Contains(t, stderr, "9 generated")
}

// TestRunPrompts: chat, raw text and stdin give the right prompts.
func TestRunPrompts(t *testing.T) {
	m := clitest.TinyModel(t, "f16")
	prompt := func(stdin string, args ...string) int {
		var out, errs bytes.Buffer
		code := clitest.Run(t.Context(), append([]string{"run", "-m", m, "-n", "1", "--json"}, args...),
			strings.NewReader(stdin), &out, &errs)
		require.Equal(t, cli.ExitDone, code, errs.String())
		events := clitest.Lines[clitest.RunEvent](t, out.String())
		return events[len(events)-1].Summary.PromptTokens
	}
	raw := prompt("", "--raw", "the sea")
	assert.Equal(t, raw, prompt("the sea\n", "--raw"))
	assert.Equal(t, raw, prompt("the sea\n", "--raw", "-"))
	assert.Equal(t, raw, prompt("", "--raw", "the", "sea"))
	chat := prompt("", "the sea")
	assert.Greater(t, chat, raw)
	assert.Greater(t, prompt("", "--system", "be brief", "the sea"), chat)
}

// TestRunSampling: a seed repeats its text; another seed gives another text.
func TestRunSampling(t *testing.T) {
	m := clitest.TinyModel(t, "q5_0")
	text := func(seed string) string {
		_, stdout, _ := clitest.Call(t, "run", "-m", m, "--tokens", "1", "-n", "20", "--temp", "1.5", "--top-p", "0.95",
			"--seed", seed, "--ignore-eos")
		return stdout
	}
	assert.Equal(t, text("1"), text("1"))
	assert.NotEqual(t, text("1"), text("2"))
}

// TestRunInterrupted: Ctrl-C ends a run with a partial result, and the exit status reports it.
func TestRunInterrupted(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	out := &cancelAfter{n: 3, cancel: cancel}
	code := clitest.Run(ctx, []string{"run", "-m", m, "--tokens", "1", "-n", "400", "--ignore-eos", "--json"},
		strings.NewReader(""), out, &errs)
	assert.Equal(t, cli.ExitFailed, code)
	events := clitest.Lines[clitest.RunEvent](t, out.String())
	s := events[len(events)-1].Summary
	require.NotNil(t, s, "the summary is printed anyway")
	assert.Equal(t, "interrupted", s.Stop)
	assert.Equal(t, 3, s.GeneratedTokens)
	assert.Contains(t, errs.String(), "cancel")
}

// cancelAfter cancels at its n-th write.
type cancelAfter struct {
	bytes.Buffer
	n      int
	cancel func()
}

func (c *cancelAfter) Write(b []byte) (int, error) {
	if c.n--; c.n == 0 {
		c.cancel()
	}
	return c.Buffer.Write(b)
}

func TestTokenize(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	var out, errs bytes.Buffer
	code := clitest.Run(t.Context(), []string{"tokenize", "-m", m, "--json"},
		strings.NewReader("\"a<|im_end|>\"\n\"\"\n\"\\n\\u00e4\"\n"), &out, &errs)
	require.Equal(t, cli.ExitDone, code, errs.String())
	ids := clitest.Lines[[]int32](t, out.String())
	require.Len(t, ids, 3)
	assert.Equal(t, []int32{'a', 511}, ids[0])
	assert.Equal(t, []int32{}, ids[1])
	assert.Equal(t, []int32{'\n', 0xc3, 0xa4}, ids[2])

	_, stdout, _ := clitest.Call(t, "tokenize", "-m", m, "--no-special", "<|im_end|>")
	assert.NotContains(t, stdout, "511")
	_, stdout, _ = clitest.Call(t, "tokenize", "-m", m, "a")
	assert.Equal(t, "97\t\"a\"\n", stdout)

	for _, bad := range []string{"nonsense", "null", "7", `["a"]`, `"b`} {
		out.Reset()
		errs.Reset()
		in := strings.NewReader("\"a\"\n" + bad + "\n\"c\"\n")
		assert.Equal(t, cli.ExitFailed, clitest.Run(t.Context(), []string{"tokenize", "-m", m, "--json"}, in, &out,
			&errs), bad)
		assert.Equal(t, "[97]\n", out.String(), "valid lines before %s are answered", bad)
		assert.Contains(t, errs.String(), "text 2 is not a JSON string", bad)
	}
}

func TestBenchEngine(t *testing.T) {
	racing.Spare(t)
	m := clitest.TinyModel(t, "q8_0")
	code, stdout, stderr := clitest.Call(t, "bench", "engine", "-m", m, "-p", "20", "-n", "10", "-r", "2", "-t", "2",
		"--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	r := clitest.Lines[map[string]any](t, stdout)[0]
	for _, field := range []string{"prompt_tps", "generation_tps", "load_ms", "first_token_ms", "bandwidth_gbs"} {
		assert.Greater(t, r[field], 0.0, field)
	}
	assert.Len(t, r["samples"], 2)
	assert.EqualValues(t, 2, r["threads"])
	assert.Equal(t, true, r["fits_cache"])
	assert.EqualValues(t, 20, r["prompt_tokens"])
	assert.EqualValues(t, 10, r["generated_tokens"])
	code, stdout, stderr = clitest.Call(t, "bench", "engine", "-m", m, "-p", "9", "-n", "0", "-r", "1", "-t", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.NotContains(t, stdout, "generation", "without a generation")
}

// TestWrongCalls: wrong usage gives exit status 2; bad input gives 1 and names the file; neither prints to stdout.
func TestWrongCalls(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	text := filepath.Join(t.TempDir(), "text.gguf")
	require.NoError(t, os.WriteFile(text, []byte("this is no model at all, is it?"), 0o644))
	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"run hello", cli.ExitUsage, "there is no model: "},
		{"run -m M", cli.ExitUsage, "no prompt"},
		{"run -m M --tokens 1,x", cli.ExitUsage, `"x"`},
		{"run -m M --tokens -1", cli.ExitUsage, `"-1"`},
		{"run -m M --tokens 1 hello", cli.ExitUsage, "exclude"},
		{"run -m M --raw --system s hello", cli.ExitUsage, "--system"},
		{"run -m M --temp -1 hello", cli.ExitUsage, "--temp -1"},
		{"run -m M --top-p 2 hello", cli.ExitUsage, "top-p"},
		{"run -m M -n -1 hello", cli.ExitUsage, "--max-tokens -1 is out of range"},
		{"run -m M --kv q8 hello", cli.ExitUsage, "f16"},
		{"run -m M --backend cuda hello", cli.ExitUsage, "cpu"},
		{"run -m M --mode serial hello", cli.ExitUsage, "--cloud"},
		{"run -m M --mode fast hello", cli.ExitUsage, "pipelined"},
		{"run -m M --cloud localhost:1 --policy best hello", cli.ExitUsage, "margin"},
		{"run -m M --cloud localhost:1 --policy learned hello", cli.ExitUsage, "--router"},
		{"run -m M --cloud localhost:1 --policy learned --router TEXT hello", cli.ExitFailed, "TEXT"},
		{"run -m M --cloud localhost:1 --pin zz hello", cli.ExitUsage, "--pin"},
		{"run -m M --cloud localhost:1 --branches 0 hello", cli.ExitUsage, "--branches"},
		{"run -m M --cloud localhost:1 --token-file /nowhere/t hello", cli.ExitFailed, "/nowhere/t"},
		{"cloud", cli.ExitUsage, "there is no model"},
		{"cloud -m M --cert TEXT", cli.ExitUsage, "--key"},
		{"cloud -m M --listen 127.0.0.1:0 --cert TEXT --key TEXT", cli.ExitFailed, "TEXT"},
		{"cloud -m TEXT --listen 127.0.0.1:0", cli.ExitFailed, "TEXT"},
		{"run -m M --profile heap hello", cli.ExitUsage, "trace"},
		{"run -m M --ctx 513 hello", cli.ExitFailed, "512"},
		{"run -m M --ctx 4 --raw hello,_hello", cli.ExitFailed, "context"},
		{"run -m M --tokens 600", cli.ExitFailed, "600"},
		{"run -m TEXT hello", cli.ExitFailed, "TEXT"},
		{"run -m /nowhere/x.gguf hello", cli.ExitFailed, "/nowhere/x.gguf"},
		{"logits -m M", cli.ExitUsage, "--tokens is missing"},
		{"logits -m M --tokens ,", cli.ExitUsage, "token id"},
		{"inspect", cli.ExitUsage, "inspect needs a model"},
		{"inspect TEXT", cli.ExitFailed, "TEXT"},
		{"tokenize -m TEXT hi", cli.ExitFailed, "TEXT"},
		{"tokenize -m M", cli.ExitUsage, "no prompt"},
		{"tokenize -m M --json hi", cli.ExitUsage, "stdin"},
		{"bench", cli.ExitUsage, "which"},
		{"bench engine -m M -r 0", cli.ExitUsage, "-r"},
		{"bench engine -m M -d -1", cli.ExitUsage, "-d"},
		{"bench engine -m TEXT", cli.ExitFailed, "TEXT"},
		{"bench synth --type q9 /nowhere/x", cli.ExitUsage, "q8_0"},
		{"bench synth --shape 9b /nowhere/x", cli.ExitUsage, "tiny"},
		{"bench synth --shape tiny M", cli.ExitFailed, "exist"},
	} {
		t.Run(c.args, func(t *testing.T) {
			place := strings.NewReplacer("TEXT", text, "M", m)
			var args []string
			for _, a := range strings.Fields(c.args) {
				args = append(args, place.Replace(a))
			}
			code, stdout, stderr := clitest.Call(t, args...)
			assert.Equal(t, c.code, code, stderr)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, place.Replace(c.stderr))
			assert.True(t, strings.HasPrefix(stderr, "pilotfish: "), stderr)
		})
	}
}

// TestModelErrorsNameTheField: an error about inconsistent metadata or tensors of a model names them.
func TestModelErrorsNameTheField(t *testing.T) {
	good, err := os.ReadFile(clitest.TinyModel(t, "q8_0"))
	require.NoError(t, err)
	for _, c := range []struct{ from, to, field string }{
		{"qwen2.block_count", "qwen2.block_kount", "qwen2.block_count"},
		{"blk.1.ffn_up.weight", "blk.1.ffn_xx.weight", "blk.1.ffn_up.weight"},
		{"general.architecture", "general.architekture", "general.architecture"},
		{"output_norm.weight", "output_norm.wight_", "output_norm.weight"},
		{"tokenizer.ggml.pre", "tokenizer.ggml.prx", "tokenizer.ggml.pre"},
	} {
		bad := bytes.Replace(good, []byte(c.from), []byte(c.to), 1)
		require.Equal(t, len(good), len(bad))
		path := filepath.Join(t.TempDir(), "bad.gguf")
		require.NoError(t, os.WriteFile(path, bad, 0o644))
		code, _, stderr := clitest.Call(t, "run", "-m", path, "hello")
		assert.Equal(t, cli.ExitFailed, code)
		assert.Contains(t, stderr, c.field)
		assert.Contains(t, stderr, path)
	}
}
