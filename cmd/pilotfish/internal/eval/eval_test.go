package eval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// evalLine is one line of --json.
type evalLine struct {
	eval.RunReport
	Run result.Run `json:"run"`
}

// evaluated runs eval and returns its lines by name of the run.
func evaluated(t *testing.T, args ...string) (map[string]evalLine, string) {
	t.Helper()
	code, stdout, stderr := clitest.Call(t, append([]string{"eval", "--json"}, args...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	all := map[string]evalLine{}
	for _, l := range clitest.Lines[evalLine](t, stdout) {
		all[l.Name()] = l
	}
	return all, stderr
}

// ownPair returns flags that name the demo's pair as explicit models.
func ownPair(more ...string) []string {
	return append([]string{"-m", clitest.DemoFile("small.gguf"), "--large", clitest.DemoFile("large.gguf")}, more...)
}

// demoQuestionsFile returns a file of demo questions that are graded by the place.
func demoQuestionsFile(t *testing.T, n int) string {
	set, err := task.Open(task.Demo, task.Options{Most: n})
	require.NoError(t, err)
	var b strings.Builder
	for _, q := range set.Questions {
		place, _, _ := strings.Cut(q.Key, ",")
		line, err := json.Marshal(map[string]string{"question": q.Text, "answer": place})
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s\n", line)
	}
	path := filepath.Join(t.TempDir(), "q.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// TestEvalDemo: one object per policy and threshold with the documented fields, and a table that fits a terminal.
func TestEvalDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	all, stderr := evaluated(t, "demo", "--questions", "8")
	assert.Len(t, all, 2+5+6+6+6+1)
	assert.Contains(t, stderr, "answers: 100% of 200\n")
	assert.Equal(t, 1.0, *all["always"].Accuracy)
	assert.Less(t, *all["never"].Accuracy, 1.0)
	assert.Equal(t, 1.0, *all["margin 0.97"].Accuracy)
	assert.NotNil(t, all["learned 0.8"].Curve)
	for name, l := range all {
		assert.Equal(t, 8, l.Answers)
		assert.Equal(t, "pilotfish-demo-small", l.Run.Model.Name)
		assert.Equal(t, "pilotfish-demo-large", l.Run.Large.Name)
		assert.Equal(t, "pilotfish eval demo --json=true --questions=8", l.Run.Command)
		assert.NotEmpty(t, l.Run.Version)
		assert.NotEmpty(t, l.Run.Machine)
		assert.False(t, l.Run.Date.IsZero())
		assert.Equal(t, strings.Contains(name, "0."), l.Threshold != nil, name)
	}
	code, stdout, stderr := clitest.Call(t, "eval", "demo", "--questions", "8")
	require.Equal(t, cli.ExitDone, code, stderr)
	for line := range strings.Lines(stdout) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 121, line)
	}
	for _, want := range []string{
		"demo: 8 of 8 questions, prompts demo-1, 0 worked examples, at most 64 tokens an answer\n",
		`(?m)^run +right +interval +silent +cloud +asks +tokens +ms +missed +needless +agree$`,
		`(?m)^always +100\.0% +67\.6–100\.0 +0 +100\.0% `, `(?m)^oracle +100\.0% `, `(?m)^missed +of the small`,
		`(?m)^run +of always +interval +>= 0\.95 +McNemar +of never +interval +McNemar +gap +interval$`,
		`(?m)^margin 0\.97 +1\.000 +1\.000 to 1\.000 +yes +1 `,
		`(?m)^policy +share +height +interval +over random +over margin +over entropy$`,
		`(?m)^learned +all +0\.\d+ `, `(?m)^entropy +10% `,
	} {
		assert.Regexp(t, want, stdout)
	}
}

// TestEvalCertified: a certified router is evaluated at the threshold that run would use, in the order of thresholds,
// and once.
func TestEvalCertified(t *testing.T) {
	racing.Spare(t)
	names := func(f evalFlags, at float64) []string {
		low, high := 0.3, 0.9
		f.verify, f.ahead = "off", "1"
		runs := []eval.Run{{Policy: router.Never}, {Policy: router.Learned, Threshold: &low},
			{Policy: router.Learned, Threshold: &high}, {Policy: router.Margin, Threshold: &high}}
		return eval.Names(f.certified(runs, &router.Certificate{Threshold: at}))
	}
	assert.Equal(t, []string{"never", "learned 0.3", "learned 0.45", "learned 0.9", "margin 0.9"},
		names(evalFlags{}, 0.45))
	assert.Equal(t, []string{"never", "learned 0.3", "learned 0.9", "learned 0.999958", "margin 0.9"},
		names(evalFlags{}, 0.999958))
	assert.Equal(t, []string{"never", "learned 0.1", "learned 0.3", "learned 0.9", "margin 0.9"},
		names(evalFlags{}, 0.1))
	usual := []string{"never", "learned 0.3", "learned 0.9", "margin 0.9"}
	assert.Equal(t, usual, names(evalFlags{}, 0.9))
	assert.Equal(t, usual, names(evalFlags{thresholds: "0.3,0.9"}, 0.45))
	budgets := []eval.Run{{Policy: router.Margin, Budget: 0.1}, {Policy: router.Learned, Budget: 0.05},
		{Policy: router.Learned, Budget: 0.1}}
	with := (&evalFlags{verify: "off", ahead: "1", budgets: "0.05,0.1"}).certified(budgets,
		&router.Certificate{Threshold: 0.45})
	assert.Equal(t, []string{"margin 10%", "learned 0.45", "learned 5%", "learned 10%"}, eval.Names(with))
	assert.Len(t, (&evalFlags{}).certified(make([]eval.Run, 3), nil), 3)

	runs, _ := evaluated(t, "demo", "--questions", "1", "--router", clitest.CertifiedRouter(t, nil), "--policy",
		"learned",
		"--verify", "off,0")
	assert.Contains(t, runs, "learned 0.625")
	assert.Contains(t, runs, "learned 0.625 verified 0")

	file := &router.File{Net: new(router.Net), Confidences: []float32{0.5},
		Certificate: &router.Certificate{Threshold: 0.45}}
	o := eval.Options{Runs: []eval.Run{{Policy: router.Learned, Budget: 0.1}}}
	(&evalFlags{verify: "off", ahead: "1"}).use(file, &o)
	assert.Equal(t, []string{"learned 0.45", "learned 10%"}, eval.Names(o.Runs))
	assert.Same(t, file.Net, o.Net)
	assert.Equal(t, file.Confidences, o.Expected, "a budget begins with them")
}

// TestEvalFlags: each flag has its effect.
func TestEvalFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	clitest.OwnFolders(t)
	file := demoQuestionsFile(t, 6)
	short := []string{file, "-n", "50", "--policy", "never,random", "--threshold", "0.3"}
	usual, _ := evaluated(t, append(ownPair(), short...)...)
	assert.Len(t, usual, 2)
	assert.Equal(t, 6, usual["never"].Answers)

	fewer, _ := evaluated(t, append(ownPair("--questions", "3"), short...)...)
	assert.Equal(t, 3, fewer["never"].Answers)
	chosen, _ := evaluated(t, append(ownPair(), file, "-n", "5", "--policy", "margin, entropy", "--threshold", "0.25,1",
		"--budget", "0.5")...)
	assert.Len(t, chosen, 6)
	assert.InDelta(t, 1, chosen["entropy 1"].EscalatedShare, 0.2)
	assert.InDelta(t, 0.5, chosen["margin 50%"].EscalatedShare, 0.35)
	assert.Equal(t, 5.0, chosen["margin 0.25"].Tokens, "--max-tokens")
	long, _ := evaluated(t, append(ownPair("--max-tokens", "0"), file, "--policy", "never")...)
	assert.Greater(t, long["never"].Tokens, 30.0)

	seed, _ := evaluated(t, append(ownPair("--seed", "2"), short...)...)
	assert.NotEqual(t, usual["random 0.3"].EscalatedShare, seed["random 0.3"].EscalatedShare)
	assert.Equal(t, usual["never"].Tokens, seed["never"].Tokens)
	warm, _ := evaluated(t, append(ownPair("--temp", "2"), short...)...)
	assert.NotEqual(t, usual["never"].Agreement, warm["never"].Agreement)
	raw, _ := evaluated(t, append(ownPair("--raw"), short...)...)
	assert.NotEqual(t, usual["never"].Agreement, raw["never"].Agreement)
	one, _ := evaluated(t, append(ownPair("--parallel", "1"), short...)...)
	assert.Equal(t, usual["random 0.3"].Agreement, one["random 0.3"].Agreement)

	learned, _ := evaluated(t, append(ownPair("--router", clitest.DemoFile("router.gguf")), file, "--policy", "learned",
		"--threshold", "0.9")...)
	own, _ := evaluated(t, "demo", "--questions", "6", "-n", "256", "--policy", "learned", "--threshold", "0.9")
	assert.Equal(t, own["learned 0.9"].EscalatedShare, learned["learned 0.9"].EscalatedShare)
	code, _, stderr := clitest.Call(t, append([]string{"eval", file, "--router", clitest.DemoFile("small.gguf")},
		ownPair()...)...)
	assert.NotEqual(t, cli.ExitDone, code)
	assert.Contains(t, stderr, "--router")
}

// TestEvalTasks: the public sets are read from --data, asked with --shots, and the output states how their answers are
// graded.
func TestEvalTasks(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	path := filepath.Join(t.TempDir(), "q.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"answerKey":"B","id":"one","question":{"stem":"Where?","choices":[`+
		`{"label":"A","text":"here"},{"label":"B","text":"there"},{"label":"C","text":"There"}]}}`+"\n"+
		`{"answerKey":"B","id":"two","question":{"stem":"Where?","choices":[`+
		`{"label":"A","text":"here"},{"label":"B","text":"there"}]}}`), 0o600))
	args := append(ownPair("--data", path, "--policy", "never,margin", "--threshold", "0.5"), "csqa")
	none, _ := evaluated(t, args...)
	never := none["never"]
	assert.InDelta(t, (1./3+1./2)/2, *never.Chance, 1e-12)
	assert.True(t, *never.AtChance)
	assert.Equal(t, 1, never.Distinct.Answers)
	code, stdout, stderr := clitest.Call(t, append([]string{"eval"}, args...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "These answers are no better than chance")
	assert.NotContains(t, stdout, "oracle", "no run of the large model alone")
	assert.Contains(t, stdout, "of 1")
	shots := append([]string{"eval", "--shots", "4"}, args...)
	code, stdout, stderr = clitest.Call(t, shots...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "4 worked examples")
	assert.Contains(t, stdout, "do not fit the context of 512 tokens: 2. They")

	code, _, stderr = clitest.Call(t, append([]string{"eval", "csqa"}, ownPair()...)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "fetch them with `pilotfish eval fetch csqa`")
	folder, err := dataDir()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "csqa-dev.jsonl"), []byte(flatQuestion), 0o600))
	code, _, stderr = clitest.Call(t, append([]string{"eval", "csqa"}, ownPair()...)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "csqa-dev.jsonl is not the published file")
}

const flatQuestion = `{"answerKey":"A","question":"Where?","choices":{"label":["A","B"],"text":["here","there"]}}`

// TestEvalRefused: errors say what to do, before anything is opened.
func TestEvalRefused(t *testing.T) {
	pair, own := " -m small.gguf --large big.gguf", "demo -m "+clitest.TinyModel(t, "q8_0")
	for args, want := range map[string]string{
		"":                                        "pilotfish: eval needs a data set",
		"csqa":                                    "there is no small model: name its file with -m",
		"q.jsonl -m x":                            "there is no large model",
		"demo --large x":                          "name it with -m, or leave them out",
		"demo --data x":                           "--data is for csqa, gsm8k, arc, humaneval and mbpp",
		"demo --data=":                            "--data names no file",
		"demo-train":                              "judge them with demo",
		"csqa-train" + pair:                       "judge them with csqa",
		"arc-train" + pair:                        "judge them with arc",
		"demo --shots 1":                          "--shots has no effect with demo",
		"csqa --shots 5" + pair:                   "--shots 5 is out of range: give 0 to 4",
		"demo --out=":                             "-o and --html name files",
		own + " --cloud nowhere":                  `--cloud "nowhere": missing port`,
		own + " --cloud a:1 --pin 00":             "--pin: ",
		"demo --html=":                            "-o and --html name files",
		"demo -o x --html x":                      "-o and --html are the same file",
		"demo --policy best":                      `--policy: policy "best"`,
		"demo --policy=":                          "--policy",
		"demo --policy never,never":               "--policy names never twice",
		"csqa --policy learned" + pair:            "--policy learned needs a router: give its file with --router",
		"demo --policy learned" + pair:            "--policy learned needs a router: give its file with --router",
		"demo --threshold 0.5,2":                  `--threshold: "2" is not possible`,
		"demo --threshold 0.5,0.5":                "--threshold names 0.5 twice",
		"demo --threshold NaN":                    `--threshold: "NaN" is not possible`,
		"demo --budget 0":                         `--budget: "0" is not possible`,
		"demo --policy never --threshold 0.5":     "--threshold and --budget have no effect with --policy never",
		"demo --policy always,never --budget 0.5": "--threshold and --budget have no effect",
		"demo --policy margin --router x":         "--router has no effect without the policy learned",
		"demo --router=":                          "--router has no effect",
		"demo --policy margin --seed 1":           "--seed has no effect without --temp and without the policy random",
		"demo --questions -1":                     "--questions -1 is out of range",
		"demo -n -1":                              "--max-tokens -1 is out of range",
		"demo --parallel 0":                       "--parallel 0 is out of range",
		"demo --temp -1":                          "--temp -1 is out of range",
		"fetch mmlu": `"mmlu" cannot be fetched: name arc, arc-train, csqa, csqa-train, gsm8k, gsm8k-train, ` +
			"humaneval, mbpp, mbpp-train; for",
		"fetch csqa --dir=": "--dir names no folder",
	} {
		code, stdout, stderr := clitest.Call(t, append([]string{"eval"}, strings.Fields(args)...)...)
		assert.Equal(t, cli.ExitUsage, code, "%s: %s", args, stderr)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, want, args)
	}
	code, _, stderr := clitest.Call(t, "eval", "demo", "--questions", "401")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "demo has 400 questions, not 401")
	code, _, stderr = clitest.Call(t, append([]string{"eval", "nowhere.jsonl"}, ownPair()...)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "nowhere.jsonl")
}

// answersIn returns the answers in a file, without their times and the names of shared runs.
func answersIn(t *testing.T, path string) map[string]eval.Answer {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	all := map[string]eval.Answer{}
	for i, a := range clitest.Lines[eval.Answer](t, string(b)) {
		if i > 0 {
			a.Milliseconds, a.Same = 0, ""
			all[a.Question+" "+a.Run] = a
		}
	}
	return all
}

// TestEvalOut: -o keeps the answers, and continues only with the same settings.
func TestEvalOut(t *testing.T) {
	racing.Spare(t)
	out := filepath.Join(t.TempDir(), "answers.jsonl")
	args := []string{"demo", "--questions", "4", "--policy", "never,margin", "--threshold", "0.5", "-o", out}
	first, stderr := evaluated(t, args...)
	assert.NotContains(t, stderr, "going on")
	before := answersIn(t, out)
	assert.Len(t, before, 8)
	again, stderr := evaluated(t, args...)
	assert.Contains(t, stderr, out+" has 8 of 8 answers: continuing\n")
	assert.Equal(t, first, again)
	for more, field := range map[string]string{
		"--questions=5": "questions (there 4, here 5)", "--threshold=0.6": "runs (there [\"never\",\"margin 0.5\"]",
		"-n=9": "max_tokens (there 64, here 9)", "--raw": "raw (there false, here true)",
		"--temp=1": "temperature (there 0, here 1)",
	} {
		code, stdout, stderr := clitest.Call(t, append(append([]string{"eval"}, args...), more)...)
		assert.Equal(t, cli.ExitFailed, code)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "-o: "+out+": line 1: the answers there are of other settings: ")
		assert.Contains(t, stderr, field)
	}
	own := append(ownPair(), args...)
	code, _, stderr := clitest.Call(t, append([]string{"eval"}, own...)...)
	assert.Equal(t, cli.ExitDone, code, "the demo's models are the same: %s", stderr)
	own[1] = clitest.DemoFile("large.gguf")
	code, _, stderr = clitest.Call(t, append([]string{"eval"}, own...)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "small (there ")
	own = append(ownPair("--kv", "f32"), args...)
	code, _, stderr = clitest.Call(t, append([]string{"eval"}, own...)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "computing (there ")
	assert.Equal(t, before, answersIn(t, out))

	learned := func(router string) []string {
		return []string{"eval", "demo", "--json", "--questions", "1", "--policy", "learned", "--threshold", "0.5",
			"--router", router, "-o", out + ".learned"}
	}
	code, stdout, stderr := clitest.Call(t, learned(clitest.DemoFile("router.gguf"))...)
	require.Equal(t, cli.ExitDone, code, stderr)
	code, _, stderr = clitest.Call(t, learned(clitest.CertifiedRouter(t, func(*router.Certificate) {}))...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "router (there ")
	run := clitest.Lines[evalLine](t, stdout)[0].Run
	b, err := os.ReadFile(out + ".learned")
	require.NoError(t, err)
	const long = "2021-02-03T04:05:06Z"
	b = bytes.Replace(b, []byte(run.Date.Format(time.RFC3339)), []byte(long), 1)
	require.NoError(t, os.WriteFile(out+".learned", bytes.Replace(b, []byte("--questions=1"), []byte("--then=1"), 1),
		0o600))
	_, stdout, _ = clitest.Call(t, append(learned(clitest.DemoFile("router.gguf")), "--parallel", "2")...)
	again1 := clitest.Lines[evalLine](t, stdout)[0].Run
	assert.Equal(t, long, again1.Date.Format(time.RFC3339), "of the call that began")
	assert.Equal(t, strings.Replace(run.Command, "--questions=1", "--then=1", 1), again1.Command)
}

// TestEvalInterrupted: after a signal there is a report of the answers so far, and how to go on if they are kept.
func TestEvalInterrupted(t *testing.T) {
	for _, out := range []string{"", filepath.Join(t.TempDir(), "a.jsonl")} {
		ctx, stop := context.WithCancelCause(t.Context())
		var stdout, stderr strings.Builder
		progress := clitest.WriterFunc(func(b []byte) (int, error) {
			if strings.Contains(string(b), "50% of 8") {
				stop(&cli.Interruption{Signal: os.Interrupt})
			}
			return stderr.Write(b)
		})
		args := strings.Fields("eval demo --questions 4 --parallel 1 --policy never,margin --threshold 0.5")
		more := ""
		if out != "" {
			args, more = append(args, "-o", out), "; the same command continues"
		}
		assert.Equal(t, 130, clitest.Run(ctx, args, strings.NewReader(""), &stdout, progress))
		assert.Regexp(t, `pilotfish: interrupted: [4-7] of 8 answers are done`+more+"\n$", stderr.String())
		assert.Regexp(t, `demo: \d of 4 questions`, stdout.String())
	}
}

// TestEvalHTML: --html writes a page with all answers, and replaces the previous one. A place where no file can be is
// refused before the first question, and an error later costs no report.
func TestEvalHTML(t *testing.T) {
	racing.Spare(t)
	page := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(page, []byte("old"), 0o600))
	_, _ = evaluated(t, "demo", "--questions", "3", "--policy", "never,always,margin", "--html", page)
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(b), "<svg")
	assert.Contains(t, string(b), "pilotfish eval demo --html=")
	code, _, stderr := clitest.Call(t, "eval", "demo", "--questions", "1", "--policy", "never", "--html",
		filepath.Join(page, "x"))
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--html "+filepath.Join(page, "x")+": there is no folder "+page)
	assert.NotContains(t, stderr, "answers: ")

	for _, form := range []string{"--json=false", "--json"} {
		folder := filepath.Join(t.TempDir(), "folder")
		require.NoError(t, os.Mkdir(folder, 0o700))
		var stdout, stderr strings.Builder
		code := clitest.Run(t.Context(), []string{"eval", "demo", "--questions", "1", "--policy", "never", form,
			"--html", filepath.Join(folder, "page.html")}, strings.NewReader(""), &stdout,
			clitest.WriterFunc(func(b []byte) (int, error) {
				_ = os.Remove(folder) // while the question is answered
				return stderr.Write(b)
			}))
		assert.Equal(t, cli.ExitFailed, code)
		assert.Contains(t, stderr.String(), "--html: write ")
		assert.Contains(t, stdout.String(), "never")
	}
}

// TestEvalGateway: a large model at a gateway gives the same answers as a local one, and the sent bytes are counted.
func TestEvalGateway(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	file := demoQuestionsFile(t, 4)
	args := []string{file, "--policy", "never,margin,always", "--threshold", "0.9"}
	here, _ := evaluated(t, append(ownPair(), args...)...)
	address, pin, _ := clitest.StartCloud(t, "-m", clitest.DemoFile("large.gguf"), "--open", "--log", "off")
	there, _ := evaluated(t, append(args, "-m", clitest.DemoFile("small.gguf"), "--cloud", address, "--pin", pin)...)
	for name, h := range here {
		g := there[name]
		assert.Equal(t, []any{h.Accuracy, h.Agreement, h.Missed, h.Needless, h.EscalatedShare, h.Asks, h.Read},
			[]any{g.Accuracy, g.Agreement, g.Missed, g.Needless, g.EscalatedShare, g.Asks, g.Read}, name)
		assert.Nil(t, h.BytesUp)
	}
	assert.Greater(t, *there["margin 0.9"].BytesUp, 40.0, "the prompt is sent")
	assert.Less(t, *there["margin 0.9"].BytesUp, *there["always"].BytesUp)
	assert.Positive(t, *there["margin 0.9"].BytesDown)
	assert.Nil(t, there["never"].BytesUp)
	assert.Equal(t, "pilotfish-demo-large", there["never"].Run.Remote)
}

// TestEvalStories: models without a chat template and with a short context answer questions of CommonsenseQA. No
// question is lost, including the one that exceeds the context and all 24 with two equal options, and the report says
// that the accuracy is no better than chance.
func TestEvalStories(t *testing.T) {
	racing.Spare(t)
	data := someOfCSQA(t)
	small := sharedtest.Shared(t, "data", "models", "stories-weak-qwen2-f32.gguf")
	large := sharedtest.Shared(t, "data", "models", "stories260k-qwen2-f32.gguf")
	args := []string{"eval", "csqa", "--data", data, "-m", small, "--large", large, "-n", "3", "--policy",
		"never,margin", "--threshold", "0.5", "--raw"}
	if testing.Short() {
		args = append(args, "--questions", "20")
	}
	code, stdout, stderr := clitest.Call(t, args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `csqa: (101 of 101|20 of 20) questions`, stdout)
	assert.Regexp(t, `(These answers are no better than chance|Below guessing among the options)`, stdout)
	if testing.Short() {
		return
	}
	assert.Contains(t, stdout, "right among the 77 without two equal options")
	assert.Contains(t, stdout, "Questions that do not fit the context of 256 tokens: 1.")
	code, _, stderr = clitest.Call(t, args[:len(args)-1]...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "use --raw to continue a text instead")
}

// someOfCSQA writes a file with the longest question of CommonsenseQA, those with two equal options, and every 16th.
func someOfCSQA(t *testing.T) (path string) {
	t.Helper()
	b, err := os.ReadFile(sharedtest.Shared(t, "data", "csqa", "dev_rand_split.jsonl"))
	require.NoError(t, err)
	lines := slices.Collect(bytes.Lines(b))
	longest := slices.MaxFunc(lines, func(a, b []byte) int { return cmp.Compare(len(a), len(b)) })
	var some []byte
	for i, line := range lines {
		var q struct {
			Question struct{ Choices []struct{ Text string } }
		}
		require.NoError(t, json.Unmarshal(line, &q))
		different := map[string]bool{}
		for _, c := range q.Question.Choices {
			different[c.Text] = true
		}
		if i%16 == 0 || len(different) < len(q.Question.Choices) || &line[0] == &longest[0] {
			some = append(some, line...)
		}
	}
	path = filepath.Join(t.TempDir(), "csqa.jsonl")
	require.NoError(t, os.WriteFile(path, some, 0o600))
	return path
}

// TestEvalFetch: --with from=URL names another address of the same file; a different file is refused, and eval finds
// the downloaded file.
func TestEvalFetch(t *testing.T) {
	clitest.OwnFolders(t)
	var content []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer s.Close()
	for name, c := range published() {
		content = bytes.Repeat([]byte("x"), int(c.Size))
		dir := t.TempDir()
		code, stdout, stderr := clitest.Call(t, "eval", "fetch", name, "--with", "from="+s.URL, "--dir", dir)
		assert.Equal(t, cli.ExitFailed, code)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "it should be "+c.SHA256)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left)
		assert.Regexp(t, "^https://", c.URL)
	}
	var err error
	for name, path := range map[string]string{csqaTrain: "csqa/train_rand_split.jsonl", task.GSM8K: "gsm8k/test.jsonl",
		task.CSQA: "csqa/dev_rand_split.jsonl"} {
		b, err := os.ReadFile(sharedtest.Shared(t, "data", path))
		require.NoError(t, err)
		sum := sha256.Sum256(b)
		assert.Equal(t, published()[name].SHA256, hex.EncodeToString(sum[:]), name)
		assert.EqualValues(t, published()[name].Size, len(b), name)
	}
	content, err = os.ReadFile(sharedtest.Shared(t, "data", "csqa", "dev_rand_split.jsonl"))
	require.NoError(t, err)
	code, stdout, stderr := clitest.Call(t, "eval", "fetch", "csqa", "--with", "from="+s.URL)
	require.Equal(t, cli.ExitDone, code, stderr)
	folder, err := dataDir()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(folder, "csqa-dev.jsonl")+"\n", stdout)
	all, _ := evaluated(t, append(ownPair("--policy", "never", "-n", "2", "--questions", "3"), "csqa")...)
	assert.Equal(t, 3, all["never"].Answers)
}
