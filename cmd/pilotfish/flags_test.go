package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/hugemem"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBenchEngineMeasures: the requested settings are measured, and no share is above 1.
func TestBenchEngineMeasures(t *testing.T) {
	racing.Spare(t)
	m := clitest.TinyModel(t, "q8_0") // with a context of 512 tokens
	code, stdout, stderr := clitest.Call(t, "bench", "engine", "-m", m, "-d", "480", "-p", "3", "-r", "1", "-t", "1",
		"--kv", "f32", "--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	r := clitest.Lines[speed.Report](t, stdout)[0]
	assert.Equal(t, []int{3, 31, 1}, []int{r.PromptTokens, r.DecodedTokens, r.Threads})
	assert.EqualValues(t, 512*512*4, r.KVBytes, "for the whole context, in float32")
	assert.EqualValues(t, 512*4*(480+31/2), r.DepthBytes)
	assert.Len(t, r.Samples, 1)
	assert.Contains(t, stderr, "samples: 100% of 1\n")

	code, stdout, stderr = clitest.Call(t, "bench", "engine", "-m", m, "-p", "9", "-n", "9", "-r", "1", "-t", "2")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "prompt ")
	assert.Contains(t, stdout, ", 9 at once")
	assert.NotRegexp(t, `\d{3}%`, strings.ReplaceAll(stdout, "100%", ""), "no share above 100%")
}

// TestWrongFlags: each error names the flag and says what to do.
func TestWrongFlags(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	for _, c := range []struct {
		args  string
		parts string // of the message, separated by |
	}{
		{"bench", "engine, routing, link, gateway, capacity, compare, report, kernels, metal-plan or synth"},
		{"bench engine -m M -p 512", "-p 512 is too long|give at most 511"},
		{"bench engine -m M -n 504", "-n 504 is too long|give at most 503"},
		{"bench engine -m M -d 511", "-d 511 is too long|give at most 510"},
		{"bench engine -m M -d 500 -n 12", "-n 12 is too long|at most 11"},
		{"bench engine -m M -p 0 -n 0", "-p 0 and -n 0|give"},
		{"bench engine -m M -d 500 -p 12", "-p 12 is too long|at most 11 after a context of 500"},
		{"bench engine -m M -p 16,x", "-p|\"x\" is not a whole number: give some such as 16,512"},
		{"bench engine -m M -p 16,16", "-p|16 is given twice"},
		{"bench engine -m M -d 9,508 --rows 1,5", "--rows 5 is too much|at most 4 after a context of 508"},
		{"bench engine -m M --rows 9", "--rows 9 is too large: give 1 to 8"},
		{"bench engine -m M --rows 0", "--rows 0 is too small: give 1 or more"},
		{"bench engine -m M --rows 2 -o jsonl", "no columns for --rows"},
		{"bench engine -m M -o xml", "-o \"xml\" is not a form of output: choose text or jsonl"},
		{"bench engine -m M -o jsonl --json", "leave out -o jsonl"},
		{"bench engine -m M -d 0,16,7", "-d 7 is too short: give 8"},
		{"bench engine -m M -p -1", "-p -1 is too small: give 0"},
		{"bench engine -m M -t -1", "--threads -1 is out of range: give 0 to 1024"},
		{"bench engine -m M -t 1025", "--threads 1025 is out of range: give 0 to 1024"},
		{"bench engine -m M -r 0", "--repeat 0 is out of range: give 1"},
		{"bench engine -m M --kv q8", `--kv "q8" is not known: choose auto, f16, f32`},
		{"bench engine -m M --huge-pages maybe", "--huge-pages \"maybe\" is not known: choose auto, on, off"},
		{"logits -m M --tokens 1 --huge-pages on", "--huge-pages"},
		{"bench engine -m M --backend cuda", "--backend cuda is not|choose cpu, metal, soft"},
		{"bench engine -m M --profile heap", "--profile heap is not|choose cpu"},
		{"bench synth --shape 9b x", `"9b" is not a shape: choose tiny, tiny3, 0.5b`},
		{"logits -m M --tokens x", "--tokens|give numbers"},
		{"logits -m M --tokens 1 --exact --kv f16", "--exact and --kv f16 exclude each other"},
		{"logits -m M --tokens 1 --exact --backend soft", "--exact and --backend soft exclude each other"},
		{"logits -m M --tokens 1 -t -1", "--threads -1|give 0 to 1024"},
		{"logits -m M --tokens 1 -t 1025", "--threads 1025|give 0 to 1024"},
		{"run -m M -c -1 hello", "--ctx -1 is out of range: give"},
		{"logits -m M --tokens 1 -c 9", "-c"},
		{"bench link --rate 2000000000000", "--rate 2000000000000 is out of range: give 0 to 1099511627776"},
		{"inspect M --with elements=-2", "--with elements=-2 is out of range|give -1 or more"},
		{"tokenize -m M --json hi", "--json|leave out the text"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := clitest.Call(t, strings.Fields(strings.ReplaceAll(c.args, "M", m))...)
			assert.Equal(t, cli.ExitUsage, code, stderr)
			assert.Empty(t, stdout)
			for part := range strings.SplitSeq(c.parts, "|") {
				assert.Contains(t, stderr, part)
			}
		})
	}
	code, _, stderr := clitest.Call(t, "bench", "synth", "--shape", "tiny", m)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "exists already: choose another name")
}

// TestTokenizeSpecial: --no-special also works with --json.
func TestTokenizeSpecial(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	for _, c := range []struct {
		flags string
		ids   []int32
	}{{"--json", []int32{511}}, {"--json --no-special", nil}} {
		var out, errs bytes.Buffer
		args := append([]string{"tokenize", "-m", m}, strings.Fields(c.flags)...)
		require.Equal(t, cli.ExitDone, clitest.Run(t.Context(), args, strings.NewReader(`"<|im_end|>"`), &out, &errs),
			errs.String())
		ids := clitest.Lines[[]int32](t, out.String())[0]
		if c.ids != nil {
			assert.Equal(t, c.ids, ids)
		} else {
			assert.Greater(t, len(ids), 1, "as plain text")
			assert.NotContains(t, ids, int32(511))
		}
	}
}

// TestSynthSeed: another seed gives other weights of the same shape; the same seed gives the same bytes.
func TestSynthSeed(t *testing.T) {
	write := func(name, seed string) string {
		path := filepath.Join(t.TempDir(), name)
		code, _, stderr := clitest.Call(t, "bench", "synth", "--shape", "tiny", "--seed", seed, path)
		require.Equal(t, cli.ExitDone, code, stderr)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(b)
	}
	one := write("a", "1")
	assert.True(t, one == write("b", "1"))
	other := write("c", "2")
	assert.True(t, one != other)
}

// TestHugePagesFlag: off keeps the weights in place and says so; on is refused if it is impossible; each command that
// keeps a model has the flag.
func TestHugePagesFlag(t *testing.T) {
	racing.Spare(t)
	m := clitest.TinyModel(t, "q8_0")
	measure := []string{"bench", "engine", "-m", m, "-p", "9", "-n", "9", "-r", "1", "-t", "1", "--json",
		"--huge-pages"}
	code, stdout, stderr := clitest.Call(t, append(measure, "off")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	r := clitest.Lines[speed.Report](t, stdout)[0]
	assert.Equal(t, "huge pages are off", r.WeightsStay)
	assert.Zero(t, r.MoveMS)
	code, stdout, stderr = clitest.Call(t, append(measure, "auto")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.NotEqual(t, "huge pages are off", clitest.Lines[speed.Report](t, stdout)[0].WeightsStay)
	code, stdout, stderr = clitest.Call(t, append(slices.DeleteFunc(measure, isJSON), "off")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^weights .* in huge pages: huge pages are off$`, stdout)

	for _, o := range []string{"auto", "on", "off"} {
		code, _, stderr = clitest.Call(t, "run", "-m", m, "--tokens", "1", "-n", "2", "--huge-pages", o)
		if o != "on" || hugemem.Size() > 0 {
			assert.Equal(t, cli.ExitDone, code, stderr)
		} else {
			assert.Equal(t, cli.ExitFailed, code)
			assert.Contains(t, stderr, "the system gives no huge pages")
		}
	}
	code, _, stderr = clitest.Call(t, "cloud", "-m", m, "--listen", "127.0.0.1:0", "--huge-pages", "maybe")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--huge-pages \"maybe\" is not known")
}

func isJSON(arg string) bool { return arg == "--json" }
