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

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

func TestRunJSON(t *testing.T) {
	m := tinyModel(t, "q8_0")
	code, stdout, stderr := call(t, "run", "-m", m, "--tokens", "5,6,7", "-n", "9", "--ignore-eos", "--json")
	require.Equal(t, exitDone, code, stderr)
	events := lines[runEvent](t, stdout)
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

	_, plain, stderr := call(t, "run", "-m", m, "--tokens", "5,6,7", "-n", "9", "--ignore-eos")
	assert.Equal(t, s.Text+"\n", plain, "the text alone goes to stdout")
	assert.Contains(t, stderr, "3 tokens of prompt")
	assert.Contains(t, stderr, "9 generated")
}

// TestRunAgreesWithLogits: the first token of a run is the argmax of the logits command.
func TestRunAgreesWithLogits(t *testing.T) {
	m := tinyModel(t, "q4_k_m")
	for _, exact := range []string{"--exact=false", "--exact"} {
		_, stdout, _ := call(t, "run", "-m", m, "--tokens", "9,8,7,6", "-n", "1", "--json", exact, "--ignore-eos")
		id := lines[runEvent](t, stdout)[0].ID
		code, stdout, stderr := call(t, "logits", "-m", m, "--tokens", "9,8,7,6", "--json", exact)
		require.Equal(t, exitDone, code, stderr)
		r := lines[logitsResult](t, stdout)[0]
		assert.Equal(t, id, r.Argmax)
		assert.Len(t, r.Logits, 512)
		for _, l := range r.Logits {
			assert.LessOrEqual(t, l, r.Logits[id])
		}
	}
	code, stdout, _ := call(t, "logits", "-m", m, "--tokens", "1", "--best", "3")
	assert.Equal(t, exitDone, code)
	assert.Equal(t, 3, strings.Count(stdout, "\n"))
}

// TestRunPrompts: chat, raw text and stdin give the prompts that they should.
func TestRunPrompts(t *testing.T) {
	m := tinyModel(t, "f16")
	prompt := func(stdin string, args ...string) int {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"run", "-m", m, "-n", "1", "--json"}, args...),
			strings.NewReader(stdin), &out, &errs)
		require.Equal(t, exitDone, code, errs.String())
		events := lines[runEvent](t, out.String())
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

// TestRunSampling: a seed repeats its text, another one gives another.
func TestRunSampling(t *testing.T) {
	m := tinyModel(t, "q5_0")
	text := func(seed string) string {
		_, stdout, _ := call(t, "run", "-m", m, "--tokens", "1", "-n", "20", "--temp", "1.5", "--top-p", "0.95",
			"--seed", seed, "--ignore-eos")
		return stdout
	}
	assert.Equal(t, text("1"), text("1"))
	assert.NotEqual(t, text("1"), text("2"))
}

// TestRunInterrupted: Ctrl-C ends a run with what it has, and says so.
func TestRunInterrupted(t *testing.T) {
	m := tinyModel(t, "q8_0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	out := &cancelAfter{n: 3, cancel: cancel}
	code := run(ctx, []string{"run", "-m", m, "--tokens", "1", "-n", "400", "--ignore-eos", "--json"},
		strings.NewReader(""), out, &errs)
	assert.Equal(t, exitFailed, code)
	events := lines[runEvent](t, out.String())
	s := events[len(events)-1].Summary
	require.NotNil(t, s, "the summary is there all the same")
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
	m := tinyModel(t, "q8_0")
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"tokenize", "-m", m, "--json"},
		strings.NewReader("\"a<|im_end|>\"\n\"\"\n\"\\n\\u00e4\"\n"), &out, &errs)
	require.Equal(t, exitDone, code, errs.String())
	ids := lines[[]int32](t, out.String())
	require.Len(t, ids, 3)
	assert.Equal(t, []int32{'a', 511}, ids[0])
	assert.Equal(t, []int32{}, ids[1])
	assert.Equal(t, []int32{'\n', 0xc3, 0xa4}, ids[2])

	_, stdout, _ := call(t, "tokenize", "-m", m, "--no-special", "<|im_end|>")
	assert.NotContains(t, stdout, "511")
	_, stdout, _ = call(t, "tokenize", "-m", m, "a")
	assert.Equal(t, "97\t\"a\"\n", stdout)

	for _, bad := range []string{"nonsense", "null", "7", `["a"]`, `"b`} {
		out.Reset()
		errs.Reset()
		in := strings.NewReader("\"a\"\n" + bad + "\n\"c\"\n")
		assert.Equal(t, exitFailed, run(t.Context(), []string{"tokenize", "-m", m, "--json"}, in, &out, &errs), bad)
		assert.Equal(t, "[97]\n", out.String(), "what was good before %s is answered", bad)
		assert.Contains(t, errs.String(), "text 2 is not a JSON string", bad)
	}
}

func TestInspect(t *testing.T) {
	racing.Spare(t)
	m := tinyModel(t, "q4_k_m")
	code, stdout, stderr := call(t, "inspect", m, "--json")
	require.Equal(t, exitDone, code, stderr)
	in := lines[inspection](t, stdout)[0]
	info, err := os.Stat(m)
	require.NoError(t, err)
	assert.Equal(t, info.Size(), in.Bytes)
	assert.Equal(t, "qwen2", in.Metadata["general.architecture"])
	assert.EqualValues(t, 2, in.Metadata["qwen2.block_count"])
	assert.Equal(t, map[string]any{"type": "array of string", "length": 512.0}, in.Metadata["tokenizer.ggml.tokens"])
	assert.Len(t, in.Tensors, 2+2*12)
	var sum, byType int64
	for _, x := range in.Tensors {
		sum += int64(x.Bytes)
	}
	for _, x := range in.Types {
		byType += x.Bytes
	}
	assert.Equal(t, in.TensorBytes, sum)
	assert.Equal(t, in.TensorBytes, byType)

	_, stdout, _ = call(t, "inspect", m)
	assert.Contains(t, stdout, "blk.1.ffn_down.weight")
	assert.Contains(t, stdout, "Q6_K")
	_, stdout, _ = call(t, "inspect", m, "--json", "--elements", "-1")
	assert.Len(t, lines[inspection](t, stdout)[0].Metadata["tokenizer.ggml.tokens"], 512)
}

func TestBenchEngine(t *testing.T) {
	racing.Spare(t)
	m := tinyModel(t, "q8_0")
	code, stdout, stderr := call(t, "bench", "engine", "-m", m, "-p", "20", "-n", "10", "-r", "2", "-t", "2", "--json")
	require.Equal(t, exitDone, code, stderr)
	r := lines[map[string]any](t, stdout)[0]
	for _, field := range []string{"prompt_tps", "generation_tps", "load_ms", "first_token_ms", "bandwidth_gbs"} {
		assert.Greater(t, r[field], 0.0, field)
	}
	assert.Len(t, r["samples"], 2)
	assert.EqualValues(t, 2, r["threads"])
	assert.Equal(t, true, r["fits_cache"])
	assert.EqualValues(t, 20, r["prompt_tokens"])
	assert.EqualValues(t, 10, r["generated_tokens"])
	code, stdout, stderr = call(t, "bench", "engine", "-m", m, "-p", "9", "-n", "0", "-r", "1", "-t", "1")
	require.Equal(t, exitDone, code, stderr)
	assert.NotContains(t, stdout, "generation", "nothing was generated")
}

// TestWrongCalls: wrong usage is 2, a bad input is 1 and names the file, and neither prints to stdout.
func TestWrongCalls(t *testing.T) {
	m := tinyModel(t, "q8_0")
	text := filepath.Join(t.TempDir(), "text.gguf")
	require.NoError(t, os.WriteFile(text, []byte("this is no model at all, is it?"), 0o644))
	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"run hello", exitUsage, "there is no model: "},
		{"run -m M", exitUsage, "no prompt"},
		{"run -m M --tokens 1,x", exitUsage, `"x"`},
		{"run -m M --tokens -1", exitUsage, `"-1"`},
		{"run -m M --tokens 1 hello", exitUsage, "exclude"},
		{"run -m M --raw --system s hello", exitUsage, "--system"},
		{"run -m M --temp -1 hello", exitUsage, "--temp -1"},
		{"run -m M --top-p 2 hello", exitUsage, "top-p"},
		{"run -m M -n -1 hello", exitUsage, "--max-tokens -1 is out of range"},
		{"run -m M --kv q8 hello", exitUsage, "f16"},
		{"run -m M --backend cuda hello", exitUsage, "cpu"},
		{"run -m M --mode serial hello", exitUsage, "--cloud"},
		{"run -m M --mode fast hello", exitUsage, "pipelined"},
		{"run -m M --cloud localhost:1 --policy best hello", exitUsage, "margin"},
		{"run -m M --cloud localhost:1 --policy learned hello", exitUsage, "--router"},
		{"run -m M --cloud localhost:1 --policy learned --router TEXT hello", exitFailed, "TEXT"},
		{"run -m M --cloud localhost:1 --pin zz hello", exitUsage, "--pin"},
		{"run -m M --cloud localhost:1 --branches 0 hello", exitUsage, "--branches"},
		{"run -m M --cloud localhost:1 --token-file /nowhere/t hello", exitFailed, "/nowhere/t"},
		{"cloud", exitUsage, "model"},
		{"cloud -m M --cert TEXT", exitUsage, "--key"},
		{"cloud -m M --cert TEXT --key TEXT", exitFailed, "TEXT"},
		{"cloud -m TEXT", exitFailed, "TEXT"},
		{"run -m M --profile heap hello", exitUsage, "trace"},
		{"run -m M --ctx 513 hello", exitFailed, "512"},
		{"run -m M --ctx 4 --raw hello,_hello", exitFailed, "context"},
		{"run -m M --tokens 600", exitFailed, "600"},
		{"run -m TEXT hello", exitFailed, "TEXT"},
		{"run -m /nowhere/x.gguf hello", exitFailed, "/nowhere/x.gguf"},
		{"logits -m M", exitUsage, "tokens"},
		{"logits -m M --tokens ,", exitUsage, "token id"},
		{"inspect", exitUsage, "inspect needs a model"},
		{"inspect TEXT", exitFailed, "TEXT"},
		{"tokenize -m TEXT hi", exitFailed, "TEXT"},
		{"tokenize -m M --json hi", exitUsage, "stdin"},
		{"bench", exitUsage, "which"},
		{"bench engine -m M -r 0", exitUsage, "-r"},
		{"bench engine -m M -d -1", exitUsage, "-d"},
		{"bench engine -m M --scaling --backend soft", exitUsage, "--scaling"},
		{"bench engine -m TEXT", exitFailed, "TEXT"},
		{"bench synth --type q9 /nowhere/x", exitUsage, "q8_0"},
		{"bench synth --shape 9b /nowhere/x", exitUsage, "tiny"},
		{"bench synth --shape tiny M", exitFailed, "exist"},
	} {
		t.Run(c.args, func(t *testing.T) {
			place := strings.NewReplacer("TEXT", text, "M", m)
			var args []string
			for _, a := range strings.Fields(c.args) {
				args = append(args, place.Replace(a))
			}
			code, stdout, stderr := call(t, args...)
			assert.Equal(t, c.code, code, stderr)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, place.Replace(c.stderr))
			assert.True(t, strings.HasPrefix(stderr, "pilotfish: "), stderr)
		})
	}
}

// TestModelErrorsNameTheField: a model whose metadata or tensors do not fit together says which.
func TestModelErrorsNameTheField(t *testing.T) {
	good, err := os.ReadFile(tinyModel(t, "q8_0"))
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
		code, _, stderr := call(t, "run", "-m", path, "hello")
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, c.field)
		assert.Contains(t, stderr, path)
	}
}
