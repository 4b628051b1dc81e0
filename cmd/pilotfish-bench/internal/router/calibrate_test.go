package router

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// demoCalibration returns flags with which the demo's router gets a certificate.
func demoCalibration(out string) []string {
	return []string{"-o", out, "--questions", "60", "-n", "48", "--policy", "learned", "--threshold", "0.3,0.9",
		"--budget", "0.08", "--confidence", "0.7", "--json"}
}

// assertDemoSteps checks that the certificate has the flags of [demoCalibration] and the figures of its best step.
func assertDemoSteps(t *testing.T, steps []calibration, c router.Certificate) {
	t.Helper()
	best := 0
	if steps[1].Certified && steps[1].Right > steps[0].Right {
		best = 1
	}
	for i, s := range steps {
		assert.Equal(t, []float64{0.3, 0.9}[i], s.Threshold)
		assert.Equal(t, 60, s.Prompts)
		assert.InDelta(t, float64(s.Escalated)/float64(s.Tokens), s.Share, 1e-12)
		assert.Equal(t, s.PValue <= 1-0.7, s.Certified)
		assert.Equal(t, 60, s.Graded)
	}
	want := c
	want.Policy, want.Budget, want.Confidence, want.Prompts, want.MaxTokens = router.Learned, 0.08, 0.7, 60, 48
	want.Prompt, want.Method = router.Chat, "learn-then-test, betting"
	s := steps[best]
	want.Threshold, want.Share, want.PValue, want.Tokens = s.Threshold, s.Share, s.PValue, s.Tokens
	assert.Equal(t, want, c)
}

// TestCalibrateDemo: the demo's router gets a certificate from the decoded answers, with the given flags.
func TestCalibrateDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("some 500 answers: not with -short")
	}
	clitest.OwnFolders(t)
	out := filepath.Join(t.TempDir(), "out.gguf")
	usual := demoCalibration(out)
	steps, last, stderr := calibrated(t, cli.ExitDone, usual...)
	assert.NotContains(t, stderr, "may show more", "the longest answer has 40 tokens")
	require.Len(t, steps, 2)
	require.NotNil(t, last.Certificate)
	c := *last.Certificate
	assert.Equal(t, out, last.File)
	assertDemoSteps(t, steps, c)
	file, err := engine.ReadRouter(out)
	require.NoError(t, err)
	assert.Equal(t, c, *file.Certificate)
	shipped, err := group.ParseRouter(demo.Router())
	require.NoError(t, err)
	assert.Equal(t, shipped.Net, file.Net)
	below := 0
	for _, confidence := range file.Confidences {
		if float64(confidence) < c.Threshold {
			below++
		}
	}
	assert.InDelta(t, c.Share, float64(below)/float64(len(file.Confidences)), 0.01, "the confidences of the answers")
	for of, b := range map[string][]byte{c.Model: demo.Small(), c.Large: demo.Large()} {
		f, err := gguf.Parse(b)
		require.NoError(t, err)
		sum, err := f.Fingerprint()
		require.NoError(t, err)
		assert.Equal(t, sum, of)
	}

	for args, want := range map[string]float64{"": c.Threshold, "--threshold 0.6": 0.6} {
		report := clitest.MeasureDemo(t, "2", append(strings.Fields(args), "--modes", "serial", "--router", out)...)
		assert.Equal(t, fmt.Sprint(want), clitest.Lines[struct{ Run record.Run }](t,
			report)[0].Run.Flags["threshold"], "bench routing, as run")
	}

	p := func(flags ...string) float64 {
		steps, _, _ := calibrated(t, cli.ExitDone, append(usual, flags...)...)
		return steps[0].PValue
	}
	assert.Equal(t, steps[0].PValue, p())
	assert.NotEqual(t, steps[0].PValue, p("--seed", "2"), "other questions")
	assert.Less(t, p("--max-tokens", "43"), steps[0].PValue, "a lower max length of answers needs fewer prompts")
	_, _, stderr = calibrated(t, cli.ExitDone, append(usual, "-n", "60", "--confidence", "0.5")...)
	assert.Contains(t, stderr, "with -n 40 the same prompts may show more")
}

// TestCalibrateDemoUncertified: if nothing can be certified there is no file, and the reason is printed.
func TestCalibrateDemoUncertified(t *testing.T) {
	if testing.Short() {
		t.Skip("some hundred answers: not with -short")
	}
	clitest.OwnFolders(t)
	out := filepath.Join(t.TempDir(), "out.gguf")
	usual := demoCalibration(out)
	steps, last, stderr := calibrated(t, cli.ExitFailed, append(usual, "--confidence", "0.99")...)
	assert.Len(t, steps, 1)
	assert.Nil(t, last.Certificate)
	assert.Greater(t, last.Needed, 60)
	assert.Contains(t, stderr, fmt.Sprintf("about %d prompts like these would be needed, 60 were tested", last.Needed))
	steps, last, stderr = calibrated(t, cli.ExitFailed, append(usual, "--budget", "0.001")...)
	assert.Len(t, steps, 1)
	assert.Zero(t, last.Needed)
	assert.Contains(t, stderr, "not below the budget")
	_, _, stderr = calibrated(t, cli.ExitFailed, append(usual, "--confidence", "0.99", "-n", "200")...)
	assert.Contains(t, stderr, "with -n 40 fewer would do")
	assert.NoFileExists(t, out)
}

// TestCalibrateDemoPolicies: without --policy the best of all policies is certified, and the text compares them.
func TestCalibrateDemoPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("some hundred answers: not with -short")
	}
	clitest.OwnFolders(t)
	out := filepath.Join(t.TempDir(), "out.gguf")
	code, stdout, stderr := clitest.Call(t, "router", "calibrate", "-o", out, "--questions", "90", "-n", "48",
		"--confidence", "0.5")
	for _, p := range []string{"never", "margin", "learned", "verify"} {
		assert.Regexp(t, `(?m)^ *`+p+` +0`, stdout, "all policies are compared")
	}
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^9 prompts chose the thresholds, 81 others test them$`, stdout)
	assert.Regexp(t, `(?m)^ *policy +threshold +from cloud +tokens +p-value +right +verdict$`,
		strings.ReplaceAll(stdout, "\t", " "))
	assert.Regexp(t, `at most 7% of the tokens from the cloud with confidence 50%, shown on 81 prompts`, stdout)
	assert.Contains(t, stdout, "written to "+out)
	assert.Contains(t, stderr, "choosing thresholds")
	file, err := engine.ReadRouter(out)
	require.NoError(t, err)
	assert.Contains(t, file.Certificate.Method, "the best of 3 policies")
	assert.NotEqual(t, router.Never, file.Certificate.Policy)
}

// TestCalibrateUnseen: the drawn questions do not include those that the demo's router was trained on.
func TestCalibrateUnseen(t *testing.T) {
	for questions, want := range map[int]int{0: drawnQuestions, 7: 7} {
		set, err := (&calibrateFlags{questions: questions}).openQuestions(nil)
		require.NoError(t, err)
		assert.Len(t, set.Questions, want)
		for _, q := range demo.Questions(demo.Train) {
			assert.False(t, slices.ContainsFunc(set.Questions, func(d task.Question) bool { return d.Text == q.Text }))
		}
	}
}

// TestCalibrateRoom: a prompt must leave room for an answer in the contexts of both models, also of one at a gateway.
func TestCalibrateRoom(t *testing.T) {
	clitest.OwnFolders(t)
	e := map[int]*engine.Engine{}
	for _, context := range []int{24, 64} {
		file, err := gguf.Parse(demo.Small())
		require.NoError(t, err)
		e[context], err = engine.New(file, "small", engine.Options{Context: context})
		require.NoError(t, err)
		defer e[context].Close()
	}
	set := &task.Set{Questions: []task.Question{{Text: "where?"}, {Text: strings.Repeat(" where", 30)}}}
	for more, want := range []int{1, 2} { // exactly as many tokens as the longer prompt, and one more
		ids, err := group.PromptOf(e[64], set.Questions[1].Text, false)
		require.NoError(t, err)
		file, err := gguf.Parse(demo.Small())
		require.NoError(t, err)
		exact, err := engine.New(file, "small", engine.Options{Context: len(ids) + more})
		require.NoError(t, err)
		defer exact.Close()
		pair := &measure.Pair{Edge: exact, Large: exact}
		all, err := new(calibrateFlags).fittingPrompts(&cli.App{Stderr: io.Discard}, pair, set)
		require.NoError(t, err)
		assert.Len(t, all, want)
	}
	address, pin := clitest.StartGateway(t, clitest.DemoFile("small.gguf"), engine.Options{Context: 24})
	digest, err := group.ParsePin(pin)
	require.NoError(t, err)
	remote, err := e[64].Dial(t.Context(), address, engine.DialOptions{Pin: digest})
	require.NoError(t, err)
	defer remote.Close()
	for _, c := range []struct {
		name string
		pair measure.Pair
		want int // prompts
	}{
		{"room in both", measure.Pair{Edge: e[64], Large: e[64]}, 2},
		{"room in neither", measure.Pair{Edge: e[24], Large: e[24]}, 1},
		{"room in the small one", measure.Pair{Edge: e[64], Large: e[24]}, 1},
		{"room in the large one", measure.Pair{Edge: e[24], Large: e[64]}, 1},
		{"a gateway", measure.Pair{Edge: e[64], Far: remote}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, said := printed(t, func(a *cli.App) error {
				all, err := new(calibrateFlags).fittingPrompts(a, &c.pair, set)
				assert.Len(t, all, c.want)
				return err
			})
			assert.Equal(t, c.want == 1, strings.Contains(said, "1 of 2 prompts are left out: they leave no room for "+
				"an answer in a context of 24 tokens"), said)
		})
	}
}

// ownCalibration returns flags with which explicit models and a router get a certificate in out.
func ownCalibration(t *testing.T, data string) (out string, args []string) {
	t.Helper()
	small, large := clitest.DemoFile("small.gguf"), clitest.DemoFile("large.gguf")
	net := clitest.DemoFile("router.gguf")
	out = filepath.Join(t.TempDir(), "out.gguf")
	return out, []string{"-m", small, "--large", large, "--router", net, "--data", data, "-o", out, "-n", "48",
		"--policy", "learned", "--threshold", "0.3", "--confidence", "0.3", "--json"}
}

// TestCalibrateOwn: explicit models, router and prompts, as chats or raw texts; prompts without room for an answer are
// left out and counted.
func TestCalibrateOwn(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	data := clitest.DemoData(t, 30)
	more, err := os.OpenFile(data, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = fmt.Fprintf(more, "{\"question\":%q}\n", strings.Repeat("where does she live? ", 100))
	require.NoError(t, err)
	require.NoError(t, more.Close())
	out, args := ownCalibration(t, data)
	steps, last, stderr := calibrated(t, cli.ExitDone, args...)
	assert.Equal(t, 30, steps[0].Prompts)
	assert.Contains(t, stderr, "1 of 31 prompts are left out")
	assert.Equal(t, router.Chat, last.Certificate.Prompt)
	set, err := task.Open(data, task.Options{Data: data})
	require.NoError(t, err)
	assert.Equal(t, set.Hash, last.Certificate.Data)
	sum, err := gguf.Parse(demo.Large())
	require.NoError(t, err)
	name, _ := sum.String("general.name")
	assert.Equal(t, name, last.Certificate.LargeName)
	raw, last, _ := calibrated(t, cli.ExitDone, append(args, "--raw")...)
	assert.Equal(t, router.Raw, last.Certificate.Prompt)
	assert.NotEqual(t, steps[0].Tokens, raw[0].Tokens)

	// questions of a benchmark are asked as in eval: its file does not have our own format
	sums := filepath.Join(t.TempDir(), "gsm8k.jsonl")
	line := `{"question":"One and one?","answer":"1+1=2\n#### 2"}` + "\n"
	require.NoError(t, os.WriteFile(sums, []byte(strings.Repeat(line, 4)), 0o600))
	graded, _, _ := calibrated(t, cli.ExitFailed, append(args, "--task", "gsm8k", "--data", sums, "-n", "2",
		"--policy", "learned", "--threshold", "0.995", "--budget", "0.99")...)
	assert.Equal(t, 4, graded[0].Graded)
	assert.Equal(t, 0, graded[0].Right)

	// writing to the input file: the certificate is replaced, and the network stays
	same := append(args, "--router", out, "--threshold", "0.31")
	_, last, _ = calibrated(t, cli.ExitDone, same...)
	assert.Equal(t, 0.31, last.Certificate.Threshold)
	again, err := engine.ReadRouter(out)
	require.NoError(t, err)
	assert.Equal(t, 0.31, again.Certificate.Threshold)
}

// TestCalibrateOwnRefused: files that cannot be read or do not fit are named.
func TestCalibrateOwnRefused(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	_, args := ownCalibration(t, clitest.DemoData(t, 30))
	narrow := clitest.NarrowRouter(t, 5, "")
	for want, flags := range map[string][]string{
		"width 5, those of the model are 128 wide": {"--router", narrow},
		"no such file":    {"--data", "/nowhere/x.jsonl"},
		"/nowhere/x.gguf": {"--router", "/nowhere/x.gguf"},
	} {
		code, stdout, stderr := clitest.Call(t, append(append([]string{"router", "calibrate"}, args...), flags...)...)
		assert.Equal(t, cli.ExitFailed, code)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, want)
	}
	other := clitest.NarrowRouter(t, 128, "another model's fingerprint")
	_, _, stderr := calibrated(t, cli.ExitFailed, append(args, "--router", other)...)
	assert.Contains(t, stderr, "trained for another model")
	assert.Contains(t, stderr, "policy learned asks for nothing at any threshold")
}

// TestCalibrateGateway: the large model may be at a gateway; its questions are those of a device.
func TestCalibrateGateway(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	small, large := clitest.DemoFile("small.gguf"), clitest.DemoFile("large.gguf")
	net := clitest.DemoFile("router.gguf")
	secret := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(secret, []byte("a secret of sixteen bytes\n"), 0o600))
	address, pin := clitest.StartGateway(t, large, engine.Options{},
		engine.GatewayToken{Name: "a device", Secret: "a secret of sixteen bytes"})
	out := filepath.Join(t.TempDir(), "out.gguf")
	args := []string{"-m", small, "--router", net, "--data", clitest.DemoData(t, 20), "-o", out, "-n", "48",
		"--policy", "learned", "--threshold", "0.9", "--confidence", "0.1", "--cloud", address, "--pin", pin,
		"--token-file", secret, "--json"}
	steps, last, _ := calibrated(t, cli.ExitDone, args...)
	assert.Empty(t, last.Certificate.Large, "a gateway sends no fingerprint")
	assert.NotEmpty(t, last.Certificate.LargeName)
	local := slices.Concat([]string{"-m", small, "--large", large, "--json"}, args[2:16])
	here, _, _ := calibrated(t, cli.ExitDone, local...)
	assert.Equal(t, here[0].Escalated, steps[0].Escalated)
	assert.Equal(t, here[0].PValue, steps[0].PValue)

	for want, flags := range map[string][]string{
		"--pin":        {"--pin", clitest.OnePin(1)},
		"access token": {"--token-file", writeToken(t, "no secret of this gateway")},
	} {
		code, _, stderr := clitest.Call(t, append(append([]string{"router", "calibrate"}, args...), flags...)...)
		assert.NotEqual(t, cli.ExitDone, code)
		assert.Contains(t, stderr, want)
	}
}

func writeToken(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// calibration is a line of `router calibrate --json`.
type calibration struct {
	thresholdEvent
	Certificate *router.Certificate
	File        string
	Needed      int
}

// calibrated runs `router calibrate --json` and returns its lines for the thresholds, without that for the small
// model alone, and the last line.
func calibrated(t *testing.T, code int, args ...string) (steps []calibration, last calibration, stderr string) {
	t.Helper()
	got, stdout, stderr := clitest.Call(t, append([]string{"router", "calibrate"}, args...)...)
	require.Equal(t, code, got, stderr)
	all := clitest.Lines[calibration](t, stdout)
	require.NotEmpty(t, all, stderr)
	for _, step := range all[:len(all)-1] {
		if step.Policy != router.Never {
			steps = append(steps, step)
		}
	}
	return steps, all[len(all)-1], stderr
}
