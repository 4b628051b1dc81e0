package router

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// trained is a line of `router train --json`, of any kind.
type trained struct {
	trainEvent
	File   string
	Router *aboutEvent
}

// trainOn runs `router train --json` and returns its lines and the file.
func trainOn(t *testing.T, args ...string) ([]trained, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "router.gguf")
	code, stdout, stderr := clitest.Call(t, append([]string{"router", "train", "--json", "-o", out}, args...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	return clitest.Lines[trained](t, stdout), out
}

// TestTrainCommand: the file contains how it was made, the output agrees with it, and it is the same every time.
func TestTrainCommand(t *testing.T) {
	racing.Spare(t)
	dir := traces(t, traceSettings())
	got, out := trainOn(t, dir, "--label", "disagreement", "-t", "1")
	require.Len(t, got, 2, "lines of --json")
	assert.Equal(t, 54, got[0].Prompts)
	assert.Equal(t, 54*20, got[0].Positions)
	assert.Equal(t, 6, got[0].HeldPrompts)
	assert.Equal(t, out, got[1].File)
	require.NotNil(t, got[0].AUC)
	assert.Greater(t, *got[0].AUC, 0.7)
	file, err := engine.ReadRouter(out)
	require.NoError(t, err)
	set, err := trace.Open(dir)
	require.NoError(t, err)
	defer set.Close()
	about := file.About
	assert.Regexp(t, "^[0-9a-f]{64}$", about.Data)
	assert.Equal(t, router.About{
		Version: cli.BuildVersion(), Model: "abcdefabcdefab", ModelName: "tiny", Large: "0123", LargeName: "big",
		Tap: "final-norm", Data: about.Data, Label: "disagreement", Prompts: 54,
		Positions: 54 * 20, Escalate: got[0].Escalate, AUC: *got[0].AUC, Calibration: got[0].Calibration,
	}, about)
	assert.Nil(t, file.Certificate)
	assert.Equal(t, newAboutEvent(file), *got[1].Router)

	gateway := traceSettings()
	gateway.Large, gateway.Prompts = trace.Model{Name: "behind a gateway"}, 30
	_, both := trainOn(t, traces(t, gateway), dir, "--label", "disagreement")
	file, err = engine.ReadRouter(both)
	require.NoError(t, err)
	assert.Equal(t, "0123", file.About.Large, "from the folder with the hash")
	assert.Equal(t, "big", file.About.LargeName)
	assert.NotEqual(t, about.Data, file.About.Data)
	_, alone := trainOn(t, traces(t, gateway), "--label", "disagreement")
	file, err = engine.ReadRouter(alone)
	require.NoError(t, err)
	assert.Equal(t, "behind a gateway", file.About.LargeName)

	again := filepath.Join(t.TempDir(), "again.gguf")
	code, stdout, stderr := clitest.Call(t, "router", "train", dir, "--label", "disagreement", "-t", "3", "--out",
		again)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "1080 positions of 54 prompts")
	assert.Contains(t, stdout, fmt.Sprintf("area under the curve %.4f", *got[0].AUC))
	assert.Contains(t, stdout, "written to "+again)
	one, err := os.ReadFile(out)
	require.NoError(t, err)
	two, err := os.ReadFile(again)
	require.NoError(t, err)
	assert.Equal(t, one, two, "byte for byte, with any number of threads")
}

// TestTrainJudge: traces of judged answers train a judge for the large model, alone or beside a router in one file, and
// each is evaluated on its own traces.
func TestTrainJudge(t *testing.T) {
	judged := traceSettings()
	judged.Tap, judged.Reference, judged.Labels = router.TapMismatch, "judged", []string{collect.RuleMismatch}
	one := traces(t, judged)
	_, alone := trainOn(t, one)
	file, err := engine.ReadRouter(alone)
	require.NoError(t, err)
	assert.Nil(t, file.Net)
	about := file.Judge.About
	assert.Equal(t, "0123", about.Model)
	assert.Equal(t, "big", about.ModelName)
	assert.Equal(t, router.TapMismatch, about.Tap)

	dir := traces(t, traceSettings())
	lines, both := trainOn(t, dir, one, "--label", "disagreement")
	require.Len(t, lines, 3, "two trainings and the file")
	got, err := engine.ReadRouter(both)
	require.NoError(t, err)
	assert.Equal(t, file.Judge, got.Judge, "the router does not change it")
	assert.Equal(t, 4*got.Net.Layers[0].Out, got.Judge.Net.Layers[0].Out, "hidden units")
	assert.Equal(t, got.Judge.Fingerprint(), lines[2].Router.Judge.Fingerprint)

	code, stdout, stderr := clitest.Call(t, "router", "show", both, one)
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, want := range []string{"judge         " + got.Judge.Fingerprint()[:12], "tiny (abcdefabcdef…)", "big (0123)",
		"120 tokens of 6 prompts", "judge  ", "verify  "} {
		assert.Contains(t, stdout, want)
	}
	_, router := trainOn(t, dir, "--label", "disagreement")
	code, _, stderr = clitest.Call(t, "router", "show", router, one)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "has no network for the hidden states")
}

// TestTrainRefuses: wrong usage, and unusable traces, with what to do; nothing is written.
func TestTrainRefuses(t *testing.T) {
	racing.Spare(t)
	dir := traces(t, traceSettings())
	out := filepath.Join(t.TempDir(), "router.gguf")
	other := traceSettings()
	other.Small = trace.Model{Fingerprint: "x", Name: "another"}
	foreign := traces(t, other)
	wide := traceSettings()
	wide.Width = 7
	wider := traces(t, wide)
	none := traceSettings()
	none.Labels = nil
	for _, c := range []struct {
		name string
		code int
		line string
		want string
	}{
		{"several kinds of labels", cli.ExitUsage, dir, "choose one with --label"},
		{"unknown labels", cli.ExitFailed, dir + " --label citer", `no labels "citer"`},
		{"no traces", cli.ExitFailed, dir + " nowhere", "nowhere"},
		{"traces of another model", cli.ExitFailed, dir + " " + foreign + " --label consequence",
			`of the small model "another"`},
		{"traces of another width", cli.ExitFailed, dir + " " + wider + " --label consequence", "7 numbers"},
		{"traces without labels", cli.ExitFailed, traces(t, none), "has no labels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := clitest.Call(t, append([]string{"router", "train", "-o", out},
				strings.Fields(c.line)...)...)
			assert.Equal(t, c.code, code)
			assert.Contains(t, stderr, c.want)
			if c.code == cli.ExitUsage {
				assert.Empty(t, stdout)
			}
		})
	}
	assert.NoFileExists(t, out)
}

// shown is a line of `router show --json`.
type shown struct {
	File   string
	Router *aboutEvent
	Traces *evaluationEvent
}

// assertHeldTraces checks the quality of a router on those of its training traces that training held back.
func assertHeldTraces(t *testing.T, w *evaluationEvent, about router.About) {
	t.Helper()
	assert.True(t, w.Held, "these are its training traces")
	assert.Equal(t, 6, w.Prompts)
	assert.Equal(t, 120, w.Tokens)
	require.Len(t, w.Policies, 3)
	assert.InDelta(t, about.AUC, *w.Policies[0].AUC, 1e-3, "as in the file")
	assert.InDelta(t, about.Calibration, w.Policies[0].Calibration, 1e-3)
	assert.Less(t, *w.Policies[1].AUC, *w.Policies[0].AUC-0.1, "margin does not predict these labels")
	sum := 0
	for _, b := range w.Reliability {
		sum += b.Tokens
	}
	assert.Equal(t, 120, sum)
	for _, p := range w.Policies {
		for i, b := range p.Budgets {
			assert.LessOrEqual(t, b.Share, shownShares()[i]+1e-9)
			assert.InDelta(t, shownShares()[i], b.Share, 0.01)
		}
	}
}

// TestShowCommand: the contents of the file and, with traces, its quality, as text and JSON.
func TestShowCommand(t *testing.T) {
	dir := traces(t, traceSettings())
	_, out := trainOn(t, dir, "--label", "disagreement", "--seed", "3")
	file, err := engine.ReadRouter(out)
	require.NoError(t, err)

	code, stdout, stderr := clitest.Call(t, "router", "show", out)
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, want := range []string{
		out, "tiny (abcdefabcdef…)", "big (0123)", "8 to 64 to 1", "final-norm", "disagreement",
		"1080 tokens of 54 prompts", "a tenth of the prompts", fmt.Sprintf("%.4f", file.About.AUC),
		"certificate   none",
	} {
		assert.Contains(t, stdout, want)
	}
	assert.NotContains(t, stdout, "precision")

	code, stdout, stderr = clitest.Call(t, "router", "show", "--json", out, dir)
	require.Equal(t, cli.ExitDone, code, stderr)
	got := clitest.Lines[shown](t, stdout)
	require.Len(t, got, 2)
	assert.Equal(t, newAboutEvent(file), *got[0].Router)
	w := got[1].Traces
	assertHeldTraces(t, w, file.About)

	code, stdout, stderr = clitest.Call(t, "router", "show", out, dir)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "120 tokens of 6 prompts")
	assert.Contains(t, stdout, "only prompts that training held back")
	assert.Contains(t, stdout, fmt.Sprintf("%.4f", *w.Policies[2].AUC))
	for line := range strings.Lines(stdout) {
		if !strings.Contains(line, "made by") && !strings.Contains(line, out) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, line)
		}
	}

	code, stdout, stderr = clitest.Call(t, "router", "show", "--json", out, dir, "--label", "consequence")
	require.Equal(t, cli.ExitDone, code, stderr)
	got = clitest.Lines[shown](t, stdout)
	assert.Equal(t, "consequence", got[1].Traces.Label)
	assert.Less(t, *got[1].Traces.Policies[0].AUC, 0.65, "it was trained for another rule")

	fresh := traceSettings()
	fresh.Data = "others"
	code, stdout, stderr = clitest.Call(t, "router", "show", out, traces(t, fresh))
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "1200 tokens of 60 prompts")
	assert.Contains(t, stdout, "all prompts of the traces")
}

// TestShowRefuses: files that do not fit together are refused by name.
func TestShowRefuses(t *testing.T) {
	dir := traces(t, traceSettings())
	_, out := trainOn(t, dir, "--label", "disagreement")
	wide, foreign := traceSettings(), traceSettings()
	wide.Width, foreign.Small = 7, trace.Model{Fingerprint: "x", Name: "another"}
	for _, c := range []struct {
		name string
		code int
		line string
		want string
	}{
		{"no traces", cli.ExitFailed, out + " nowhere", "nowhere"},
		{"traces of another width", cli.ExitFailed, out + " " + traces(t, wide), "give traces of the same model"},
		{"traces of another model", cli.ExitFailed, out + " " + traces(t, foreign), `has traces of "another"`},
		{"unknown labels", cli.ExitFailed, out + " " + dir + " --label citer", `no labels "citer"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := clitest.Call(t, append([]string{"router", "show"}, strings.Fields(c.line)...)...)
			assert.Equal(t, c.code, code)
			assert.Contains(t, stderr, c.want)
		})
	}
}

// TestShowDamagedText: text in a file is shown escaped, never as control sequences.
func TestShowDamagedText(t *testing.T) {
	dir := traces(t, traceSettings())
	_, out := trainOn(t, dir, "--label", "consequence")
	file, err := engine.ReadRouter(out)
	require.NoError(t, err)
	file.About.ModelName, file.About.Label = "\x1b[2J", "a\nb"
	require.NoError(t, writeRouterFile(out, file))
	code, stdout, stderr := clitest.Call(t, "router", "show", out)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.NotContains(t, stdout, "\x1b")
	assert.Contains(t, stdout, `a\nb`)
	code, stdout, stderr = clitest.Call(t, "router", "show", "--json", out)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.True(t, json.Valid([]byte(stdout)))
}

// traces writes traces with 20 positions for each prompt. Under the first rule, the sign of the first feature mostly
// tells whether a token may be kept; under the second rule, that of the second feature.
func traces(t *testing.T, s trace.Settings) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "traces")
	w, err := trace.Create(dir, s)
	require.NoError(t, err)
	defer w.Close()
	r := rand.New(rand.NewPCG(1, 1))
	label := func(z float64) trace.Verdict {
		if r.Float64() < 1/(1+math.Exp(-4*z)) {
			return trace.Keep
		}
		return trace.Escalate
	}
	for range s.Prompts {
		x := trace.Text{Prompt: trace.Prompt{Tokens: 2}}
		for pos := range 20 {
			h := make([]float32, s.Width)
			for j := range h {
				h[j] = float32(r.NormFloat64())
			}
			p := trace.Position{Pos: int32(x.Tokens + pos), Margin: r.Float32(), Entropy: r.Float32()}
			for rule := range s.Labels {
				p.Labels[rule] = label(float64(h[rule]))
			}
			x.Positions = append(x.Positions, p)
			x.Hidden, err = trace.AppendHalves(x.Hidden, h)
			require.NoError(t, err)
		}
		require.NoError(t, w.Append(x))
	}
	return dir
}

// traceSettings returns the settings of a small set of traces.
func traceSettings() trace.Settings {
	return trace.Settings{
		Tap: router.TapFinalNorm, Width: 6, Small: trace.Model{Fingerprint: "abcdefabcdefab", Name: "tiny"},
		Large: trace.Model{Fingerprint: "0123", Name: "big"}, Data: "d", Prompts: 60, Reference: "given", MaxTokens: 20,
		Labels: []string{"disagreement", "consequence"},
	}
}
