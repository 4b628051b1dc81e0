package routing

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// TestRealTimes: the recording of the real pair gives its times in docs/results again, by the command that they name.
func TestRealTimes(t *testing.T) {
	racing.Spare(t)
	kept := filepath.Join(clitest.Root(), "docs", "results", "real-times.jsonl.gz")
	want, err := result.ReadFile(kept)
	require.NoError(t, err)
	command := strings.TrimPrefix(want[0].Run.Command, "pilotfish bench ")
	command = strings.ReplaceAll(command, "=docs/results/", "="+filepath.Dir(kept)+"/")
	code, stdout, stderr := clitest.Call(t, strings.Fields(command)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	have, err := result.Read(strings.NewReader(stdout), "stdout")
	require.NoError(t, err)
	require.Len(t, have, len(want))
	for i := range want {
		var w, h outcome.Report
		require.NoError(t, want[i].Into(&w))
		require.NoError(t, have[i].Into(&h))
		assert.Equal(t, w, h, "after a change of drafting: sh bench/results/study.sh OUT real-times, and adopt OUT")
	}
}

// TestDemo runs the whole system over a link that loses packets: routed answers equal serial ones, and are better than
// those of the small model alone.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("five times 30 questions: not with -short")
	}
	code, stdout, stderr := clitest.Call(t, "routing", "--json", "--questions", "30", "--rtt", "8ms", "--loss", "0.02",
		"--edge-tps", "0", "--cloud-ms", "0", "--deadline", "off", "--modes", "local,serial,pipelined-4")
	require.Equal(t, cli.ExitDone, code, stderr)
	reports := clitest.Lines[outcome.Report](t, stdout)
	require.Len(t, reports, 3)
	local, serial, pipelined := reports[0], reports[1], reports[2]
	assert.Equal(t, "pipelined-4", pipelined.Mode)
	assert.Equal(t, 30, pipelined.Answers)
	assert.Zero(t, *pipelined.Differing)
	assert.Equal(t, serial.Accuracy.Value, pipelined.Accuracy.Value)
	assert.GreaterOrEqual(t, serial.Accuracy.Value, 1.6*local.Accuracy.Value)
	assert.LessOrEqual(t, serial.Rates()["escalated_share"], 0.07)
	assert.NotContains(t, local.Rates(), "escalated_share")
	assert.LessOrEqual(t, serial.Rates()["bytes_up"], 100.0)
	assert.LessOrEqual(t, pipelined.Rates()["bytes_up"], 150.0, "including questions about rejected guesses")
	for _, r := range reports[1:] {
		assert.LessOrEqual(t, r.Rates()["bytes_down"], 40.0)
	}

	_, stdout, _ = clitest.Call(t, "routing", "--questions", "3", "--rtt", "0", "--edge-tps", "0", "--cloud-ms", "0",
		"--modes", "cloud,paper,pipelined-2")
	assert.Equal(t, 1, strings.Count(stdout, "\n"+"pipelined-2 "), stdout)
	code, stdout, stderr = clitest.Call(t, "routing", "--json", "--questions", "30", "--rtt", "0", "--edge-tps", "0",
		"--cloud-ms", "0", "--deadline", "off", "--policy", "learned", "--modes", "local,serial")
	require.Equal(t, cli.ExitDone, code, stderr)
	reports = clitest.Lines[outcome.Report](t, stdout)
	assert.GreaterOrEqual(t, reports[1].Accuracy.Value, 1.6*reports[0].Accuracy.Value, "with the shipped router")
	assert.LessOrEqual(t, reports[1].Rates()["escalated_share"], 0.07)
}

// TestDemoDictionary: questions are compressed with a dictionary that was trained on the demo's texts; without it they
// take 57 bytes instead of 39.
func TestDemoDictionary(t *testing.T) {
	racing.Spare(t)
	code, stdout, stderr := clitest.Call(t, "routing", "--json", "--questions", "8", "--parallel", "8", "--modes",
		"serial",
		"--deadline", "off", "--rtt", "0", "--cloud-ms", "0", "--edge-tps", "0", "--no-warm")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Less(t, clitest.Lines[outcome.Report](t, stdout)[0].Rates()["bytes_up"], 48.0)
}

// TestEqualOverBadLinks: over QUIC and links that lose up to a fifth of the packets each way, with one branch or four,
// the tokens and their origins equal those of serial decoding.
func TestEqualOverBadLinks(t *testing.T) {
	racing.Spare(t)
	losses := []string{"0.2", "0.05"}
	if testing.Short() {
		losses = losses[:1]
	}
	for _, loss := range losses {
		code, stdout, stderr := clitest.Call(t, "routing", "--json", "--questions", "16", "--rtt", "5ms",
			"--loss", loss,
			"--seed",
			"3", "--edge-tps", "0", "--cloud-ms", "0", "--deadline", "off", "--modes", "serial,pipelined-1,pipelined-4",
			"--parallel", "4")
		require.Equal(t, cli.ExitDone, code, stderr)
		for _, r := range clitest.Lines[outcome.Report](t, stdout) {
			assert.Zero(t, *r.Differing, "%s at a loss of %s", r.Mode, loss)
			assert.Equal(t, 16, r.Answers)
			assert.Zero(t, r.Sums.Timeouts)
			assert.Zero(t, *r.Differing)
			assert.Greater(t, r.Rates()["asks"], 1.0)
		}
	}
}

// answerOf returns how a model answers a question alone.
func answerOf(t *testing.T, model, question string, maxTokens int) engine.Summary {
	t.Helper()
	e, err := engine.Open(model, engine.Options{})
	require.NoError(t, err)
	defer e.Close()
	prompt, err := e.Chat(tokenizer.Message{Role: "user", Content: question})
	require.NoError(t, err)
	session, err := e.NewSession()
	require.NoError(t, err)
	for _, err := range session.Generate(t.Context(), prompt, terms.Settings{MaxTokens: maxTokens}) {
		require.NoError(t, err)
	}
	return session.Summary()
}

// TestBenchRoutingOwn measures explicit models and questions: --model is the small one and --large the other, and the
// answers have up to 256 tokens.
func TestBenchRoutingOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	edge, large := clitest.TinyModel(t, "q4_0"), clitest.TinyModel(t, "q8_0")
	said := answerOf(t, edge, "where?", 256)
	require.Equal(t, 256, said.Tokens, "the max length")
	question, err := json.Marshal(map[string]string{"question": "where?",
		"answer": strings.ToValidUTF8(said.Text[len(said.Text)-12:], "")})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "questions.jsonl")
	require.NoError(t, os.WriteFile(file, append(question, "\n"+`{"question":"who?","answer":""}`+"\n"...), 0o644))
	code, stdout, stderr := clitest.Call(t, "routing", "--workload", file, "-m", edge, "--large", large,
		"--rtt", "0",
		"--cloud-ms", "0", "--modes", "local,cloud,serial,pipelined-2", "--deadline", "off", "--policy", "random",
		"--threshold", "0.1", "--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.NotContains(t, stderr, "Energy", "energy needs one answer at a time")
	reports := clitest.Lines[outcome.Report](t, stdout)
	require.Len(t, reports, 4)
	assert.Equal(t, 2, reports[3].Answers)
	assert.Zero(t, *reports[3].Differing)
	assert.Equal(t, 1.0, reports[0].Accuracy.Value, "of the one question with an answer")
	assert.Zero(t, reports[1].Accuracy.Value)
}

// TestBenchRoutingEveryday: two explicit models are enough, and there are default questions for them. A column shows
// late answers.
func TestBenchRoutingEveryday(t *testing.T) {
	models := []string{"-m", clitest.TinyModel(t, "q4_0"), "--large", clitest.TinyModel(t, "q8_0")}
	routing := func(more ...string) (code int, stdout, stderr string) {
		return clitest.Call(t, append(append([]string{"routing"}, models...), more...)...)
	}
	code, stdout, stderr := routing("--questions", "2", "--modes", "local", "--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	reports := clitest.Lines[outcome.Report](t, stdout)
	require.Len(t, reports, 1)
	assert.Equal(t, 2, reports[0].Answers)
	assert.Nil(t, reports[0].Accuracy, "no answer is graded")
	code, stdout, stderr = routing("--modes", "local", "--workload", "everyday", "--json", "-n", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, len(everydayQuestions()), clitest.Lines[outcome.Report](t, stdout)[0].Answers)

	for deadline, late := range map[string]bool{"off": false, "1ms": true} {
		code, stdout, stderr = routing("--questions", "1", "-n", "4", "--modes", "serial", "--policy", "always",
			"--deadline", deadline, "--rtt", "30ms")
		require.Equal(t, cli.ExitDone, code, stderr)
		table, _, _ := strings.Cut(stdout, "\n\n")
		assert.Equal(t, late, strings.Contains(table, "timed out"), stdout)
	}
}
