package run

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/event"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestShowUnverified: with --json each event replaces the previous one, events and tokens are consistent, and replaced
// tokens are counted; without --verify there are no such events.
func TestShowUnverified(t *testing.T) {
	run := demoRuns(t)
	type line struct {
		event.Token
		Unverified json.RawMessage `json:"unverified"`
		Summary    *event.Summary  `json:"summary"`
	}
	_, s, _ := run("--policy", "never", "--verify", "0")
	small, at := clitest.StartPair(t)
	code, stdout, stderr := clitest.Call(t, append([]string{"run", "-m", small, "--deadline", "off", "--json",
		"--mode", "serial", "--policy", "never", "--verify", "0", "--show-unverified", clitest.Question(0)}, at...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	next, previews, turned := s.PromptTokens, 0, 0
	var shown []int32 // after next
	var ids []int32
	for _, e := range clitest.Lines[line](t, stdout) {
		switch {
		case e.Summary != nil:
			assert.Equal(t, s.IDs, e.Summary.IDs, "previews change no token")
		case len(e.Unverified) > 0 && e.Unverified[0] == '{':
			var p event.Unverified
			require.NoError(t, json.Unmarshal(e.Unverified, &p))
			require.Equal(t, next, p.Pos)
			keep := 0
			for keep < min(len(shown), len(p.IDs)) && shown[keep] == p.IDs[keep] {
				keep++
			}
			if keep < len(shown) {
				assert.Positive(t, p.Turned+turned, "rejected tokens are counted: %v, then %v", shown, p.IDs)
			}
			previews, turned, shown = previews+1, turned+p.Turned, p.IDs
		default:
			require.Equal(t, next, e.Pos)
			next, ids = next+1, append(ids, e.ID)
			if len(shown) > 0 && shown[0] == e.ID {
				shown = shown[1:]
			} else {
				shown = nil
			}
		}
	}
	assert.Equal(t, s.IDs, ids)
	assert.Greater(t, previews, 5)
	assert.Positive(t, turned)
	tokens, _, _ := run("--policy", "never", "--verify", "0")
	assert.Len(t, tokens, len(ids), "no other events")
}

// TestVerifyRefused: if the gateway's engine cannot verify, --verify is refused with the reason, before the first
// token.
func TestVerifyRefused(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	edge := clitest.TinyModel(t, "q8_0")
	url := clitest.EngineOf(t, edge, &fakeengine.Engine{Dialect: "llama"})
	address, pin, _ := clitest.StartCloud(t, "--upstream", url, "--tokenizer", edge)
	for _, flags := range []string{"", "--json"} {
		code, stdout, stderr := clitest.Call(t, append([]string{"run", "-m", edge, "--cloud", address, "--pin", pin,
			"--deadline", "off", "--tokens", "5,6,7", "-n", "5", "--verify", "0.5"}, strings.Fields(flags)...)...)
		assert.Equal(t, cli.ExitUsage, code, stderr)
		assert.Contains(t, stderr, "--verify 0.5 is not possible with this gateway: ")
		if flags == "" {
			assert.Empty(t, strings.TrimSpace(stdout))
		} else {
			assert.NotContains(t, stdout, `"origin"`)
		}
	}
}

// TestExplainVerified: a token that verification replaced is marked, questions for verification have that reason, and
// tokens from an earlier answer count as the cloud's choice.
func TestExplainVerified(t *testing.T) {
	x := new(explainer)
	x.observeEvent(pilotfish.Event{Escalation: &pilotfish.Escalation{Pos: 3, Outcome: "known", Why: "end", Token: 9,
		Local: 8}})
	x.observeEvent(pilotfish.Event{Token: &engine.ShownToken{Pos: 3, ID: 9, Origin: "cloud",
		Reason: &engine.Reason{Local: 8}}})
	x.observeEvent(pilotfish.Event{Turn: &engine.Turn{Finding: engine.CloudFinding{Pos: 4, Token: 7, LogProb: -0.5},
		Local: 6}})
	x.observeEvent(pilotfish.Event{Token: &engine.ShownToken{Pos: 4, ID: 7, Origin: "cloud",
		Reason: &engine.Reason{Local: 6}}})
	x.observeEvent(pilotfish.Event{Turn: &engine.Turn{Finding: engine.CloudFinding{Pos: 5, Token: 7}, Local: 6}})
	assert.Nil(t, x.rowAt(5).CloudLogProb, "it is not known")
	require.Len(t, x.shownRows(), 2)
	known, turned := x.rows[0], x.rows[1]
	assert.Equal(t, "known", known.Outcome)
	assert.Equal(t, "end", known.Why)
	assert.Equal(t, int32(9), *known.Cloud)
	assert.Equal(t, "known, end", known.Result())
	assert.Equal(t, "turned", turned.Outcome)
	assert.Equal(t, int32(7), *turned.Cloud)
	assert.Equal(t, int32(6), turned.Local)
	assert.Equal(t, float32(-0.5), *turned.CloudLogProb)
	assert.Equal(t, "turned", turned.Result())
}

// TestJudge: a gateway with the router file of the device judges: if a token stands only with certainty, the text is
// the large model's own, and with less fewer tokens are replaced. One without that judge is refused.
func TestJudge(t *testing.T) {
	racing.Spare(t)
	small, large, path := clitest.DemoFile("small.gguf"), clitest.DemoFile("large.gguf"), clitest.JudgeFile(t)
	address, pin, _ := clitest.StartCloud(t, "-m", large, "--router", path)
	run := func(args ...string) (ids []int32, replaced int) {
		ids, origins, _, _ := clitest.RoutedTokens(t, append([]string{"-m", small, "--cloud", address, "--pin", pin,
			"--deadline", "off", clitest.Question(0)}, args...)...)
		return ids, strings.Count(strings.Join(origins, " "), "cloud")
	}
	want, _ := run("--verify", "0")
	got, all := run("--router", path, "--policy", "judge", "--threshold", "1")
	assert.Equal(t, want, got)
	_, some := run("--router", path, "--threshold", "0.5")
	assert.Less(t, some, all)

	address, pin, _ = clitest.StartCloud(t, "-m", large)
	code, _, stderr := clitest.Call(t, "run", "-m", small, "--cloud", address, "--pin", pin, "--router", path,
		"--policy", "judge", "--threshold", "0.5", "x")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--policy judge is not possible with this gateway")
	assert.Contains(t, stderr, "the gateway has no judge: start it with --router")
	none := clitest.DemoFile("router.gguf")
	code, _, stderr = clitest.Call(t, "cloud", "-m", large, "--check-config", "--router", none)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "it has no judge")
	code, _, stderr = clitest.Call(t, "cloud", "-m", small, "--check-config", "--router", path)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "trained for another model")
}
