package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/event"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestPlan: the policy that the flags select, and the promise about it. The default is a budget of 7%.
func TestPlan(t *testing.T) {
	net := filepath.Join(t.TempDir(), "net.gguf")
	require.NoError(t, os.WriteFile(net, demo.Router(), 0o600))
	with := clitest.CertifiedRouter(t, nil)
	bound := router.Options{Policy: router.Learned, Threshold: new(0.625), Fallback: 0.07}
	type promise struct {
		kind   string
		budget float64
	}
	for args, want := range map[string]struct {
		router.Options
		promise
	}{
		"":                            {router.Options{Policy: router.Verify, Budget: 0.07}, promise{balanced, 0.07}},
		"--budget 1":                  {router.Options{Policy: router.Verify, Budget: 1}, promise{balanced, 1}},
		"--policy never":              {router.Options{Policy: router.Never}, promise{"", 0.07}},
		"--router NET":                {router.Options{Policy: router.Learned, Budget: 0.07}, promise{balanced, 0.07}},
		"--router WITH":               {bound, promise{certified, 0.07}},
		"--router WITH --budget 0.07": {bound, promise{certified, 0.07}},
		"--router WITH --budget 0.1":  {bound, promise{certified, 0.07}},
		"--router WITH --threshold 0.5": {router.Options{Policy: router.Learned, Threshold: new(0.5)},
			promise{"", 0.07}},
		"--router WITH --budget 0.05": {
			router.Options{Policy: router.Learned, Budget: 0.05, Calibration: []float32{0.25, 0.5}},
			promise{balanced, 0.05},
		},
	} {
		f := parsedRun(t, "--cloud h:1 "+strings.NewReplacer("NET", net, "WITH", with).Replace(args))
		p, err := f.newPlan()
		require.NoError(t, err, args)
		assert.Equal(t, strings.Contains(args, "--router"), p.options.Net != nil, args)
		if p.kind != balanced {
			p.options.Calibration = nil // not used
		}
		p.options.Net = nil
		assert.Equal(t, want.Options, p.options, args)
		assert.Equal(t, want.promise, promise{p.kind, p.budget}, args)
	}
	_, err := parsedRun(t, "--cloud h:1 --budget-state x --router "+with).newPlan()
	require.NoError(t, err, "it has what the certificate is compared with")
	_, err = parsedRun(t, "--cloud h:1 --budget 0.05 --budget-state x --router "+with).newPlan()
	require.NoError(t, err)
}

// demoRuns starts a gateway with the demo's large model, and returns a function that runs the small one on a question.
func demoRuns(t *testing.T) func(flags ...string) (tokens []clitest.RunEvent, s *event.Summary, stderr string) {
	t.Helper()
	small, at := clitest.StartPair(t)
	return func(flags ...string) (tokens []clitest.RunEvent, s *event.Summary, stderr string) {
		t.Helper()
		line := []string{"run", "-m", small, "--deadline", "off", "--json", clitest.Question(0)}
		code, stdout, stderr := clitest.Call(t, slices.Concat(line, at, flags)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		all := clitest.Lines[clitest.RunEvent](t, stdout)
		require.NotNil(t, all[len(all)-1].Summary)
		about := clitest.Lines[struct{ Run *record.Run }](t, stdout)[len(all)-1].Run
		require.NotNil(t, about)
		assert.Equal(t, "run", about.Measurement)
		assert.NotNil(t, about.Model)
		assert.Equal(t, &record.Model{Name: "pilotfish-demo-large"}, about.Large, "it was not here")
		return all[:len(all)-1], all[len(all)-1].Summary, stderr
	}
}

// TestCertifiedRun: the threshold of a certificate is used and its claim is printed; differences between this run and
// the certified ones are reported.
func TestCertifiedRun(t *testing.T) {
	run := demoRuns(t)
	with := clitest.CertifiedRouter(t, nil)
	_, s, stderr := run("--router", with, "-n", "48")
	assert.Empty(t, stderr)
	require.NotNil(t, s.Certificate)
	assert.Equal(t, certified, s.Promise)
	assert.Equal(t, 0.07, s.Budget)
	assert.Equal(t, 0.625, *s.Threshold)
	assert.Equal(t, "learned", s.Policy)
	assert.Equal(t, 400, s.Certificate.Prompts)
	assert.Empty(t, s.Doubts)
	_, plain, _ := run("--router", with, "-n", "48", "--threshold", "0.625")
	assert.Equal(t, plain.IDs, s.IDs)
	assert.Nil(t, plain.Certificate)
	assert.Empty(t, plain.Promise)

	other := clitest.CertifiedRouter(t, func(c *router.Certificate) {
		c.Model, c.MaxTokens, c.Prompt, c.LargeName = "another", 40, router.Raw, "another\x1b[2J"
	})
	_, s, stderr = run("--router", other, "-n", "48", "--temp", "0.1", "--seed", "1", "--ignore-eos")
	assert.Empty(t, stderr)
	doubts := strings.Join(s.Doubts, "\n")
	for _, part := range []string{
		"another small model", "at most 40 tokens, this one has 48", `the format "raw", this one has chat`,
		"greedy", "--ignore-eos", `another large model (another\x1b[2J)`,
	} {
		assert.Contains(t, doubts, part)
	}
	assert.Len(t, s.Doubts, 6)
	_, s, _ = run("--router", with, "-n", "48", "--budget", "0.03")
	assert.Equal(t, balanced, s.Promise)
	assert.Equal(t, 0.03, s.Budget)
	assert.Nil(t, s.Threshold, "it moves")
	assert.Nil(t, s.Certificate)

	for range 6 { // its calibration has two confidences, which all texts are unlike
		_, s, stderr = run("--router", with, "-n", "48")
		require.Empty(t, stderr)
	}
	assert.Positive(t, s.Turned, "the large model verifies")
	assert.Equal(t, []string{group.UnlikeText}, s.Doubts)
	assert.LessOrEqual(t, s.Balance.Share, 0.07)
	assert.GreaterOrEqual(t, s.BalanceBefore.Tokens, 200)

	foreign := clitest.NarrowRouter(t, 128, "another model")
	_, _, stderr = run("--router", foreign)
	assert.Contains(t, stderr, "trained for another model")
}

// TestPromiseSaid: the promise and its meaning, which say nothing of verified tokens.
func TestPromiseSaid(t *testing.T) {
	said := func(r event.Routed) string {
		var out strings.Builder
		o := &runOutput{a: &cli.App{Stderr: &out}, plan: &routingPlan{certificate: &router.Certificate{
			Policy: router.Learned, Budget: 0.07,
			Confidence: 0.9, Threshold: 0.625, Share: 0.02, Prompts: 400, Tokens: 16000, MaxTokens: 48,
			Method: "betting\x1b"}}}
		o.printPromise(&r)
		return out.String()
	}
	assert.Empty(t, said(event.Routed{}))
	budget := event.Routed{Promise: balanced, Budget: 0.07, Balance: &event.Balance{Share: 0.066,
		Total: router.Total{Budget: 0.07, Tokens: 1000, Escalations: 66}}}
	assert.Equal(t, "budget 7%: 66 questions for 1000 tokens of all answers so far (6.6%)\n", said(budget))
	budget.Verify = new(0.)
	assert.Empty(t, said(budget))
	const proven = "at most 7% of the tokens from the cloud with confidence 90%, shown on 400 prompts " +
		"(2% of 16000 tokens; " +
		`betting\x1b; at most 48 tokens an answer): policy learned, threshold 0.625` + "\n"
	assert.Equal(t, proven, said(event.Routed{Promise: certified}))
	assert.Equal(t, proven+"here that is a target, not a bound: a; b\n",
		said(event.Routed{Promise: certified, Doubts: []string{"a", "b"}}))
}

// TestDoubts: each flag that makes a run another than those of the certificate is a doubt, and no other flag.
func TestDoubts(t *testing.T) {
	m, err := pilotfish.Load(demo.Small(), "small", pilotfish.Options{Context: 64})
	require.NoError(t, err)
	defer m.Close()
	own, err := m.Fingerprint()
	require.NoError(t, err)
	c := router.Certificate{Model: own, MaxTokens: 256, Prompt: router.Chat}
	doubts := func(line string) string {
		return strings.Join(parsedRun(t, "--cloud h:1 "+line).certificateDoubts(&c, m), "; ")
	}
	for line, want := range map[string]string{
		"": "", "--threads 1 --json": "", "-n 256 --temp 0": "",
		"-n 255":       "it is for answers of up to 256 tokens, which -n 255 cuts short",
		"-n 257":       "", // it may be shorter
		"--tokens 1":   "it is for texts, not for token ids (--tokens)",
		"--system=":    "it is for chats without a system message (--system)",
		"--raw":        `its prompts have the format "chat", this one has raw`,
		"--temp 0.1":   "it is for greedy decoding (--temp)",
		"--ignore-eos": "its answers ended at end tokens (--ignore-eos)",
	} {
		assert.Equal(t, want, doubts(line), line)
	}
	c.Prompt = router.Raw
	assert.Equal(t, []string{"", `its prompts have the format "raw", this one has chat`},
		[]string{doubts("--raw"), doubts("")})
	c.Model = "other"
	assert.Equal(t, "it was made with another small model", doubts("--raw"))
}

// TestLateDoubts: doubts about a certificate that are found at the end of a run.
func TestLateDoubts(t *testing.T) {
	p := &routingPlan{kind: certified, certificate: &router.Certificate{MaxTokens: 9}, doubts: []string{"early"}}
	assert.Equal(t, []string{"early"}, p.doubtsAfterRun(nil, 9, 0))
	assert.Equal(t, []string{"early", "it is for answers of at most 9 tokens, this one has 10"},
		p.doubtsAfterRun(nil, 10, 0))
	assert.Equal(t, []string{"early", "3 tokens had no answer"}, p.doubtsAfterRun(nil, 9, 3))
	assert.Equal(t, []string{"early"}, p.doubts)
	r := new(event.Routed)
	(&runOutput{plan: p}).addPromise(r, pilotfish.Stats{Routing: pilotfish.Routing{Timeouts: 3, Late: 5}})
	assert.Equal(t, []string{"early", "3 tokens had no answer"}, r.Doubts, "tokens, not questions")
	assert.NotNil(t, r.Certificate)
	p.kind = balanced
	assert.Empty(t, p.doubtsAfterRun(nil, 9, 3))
}

// TestBudgetRuns: a budget continues from one run to the next in a file, and only there. A run depends only on the
// previous state, and the total is within the budget.
func TestBudgetRuns(t *testing.T) {
	demo := demoRuns(t)
	run := func(flags ...string) ([]clitest.RunEvent, *event.Summary, string) {
		return demo(append([]string{"--policy", "margin"}, flags...)...)
	}
	kept := func() []string {
		files, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "pilotfish", "budget", "*"))
		require.NoError(t, err)
		return files
	}
	var states [][]byte
	var tokens [][]int32
	fresh, err := router.New(router.Options{Policy: router.Margin, Budget: 0.2})
	require.NoError(t, err)
	last := newBalanceEvent(fresh.Balance(), fresh.Threshold())
	for i := range 4 {
		_, s, stderr := run("--budget", "0.2", "-n", "30")
		require.Empty(t, stderr)
		require.Len(t, kept(), 1)
		assert.Nil(t, s.Threshold, "it changes at each token")
		assert.Equal(t, last, *s.BalanceBefore)
		last = *s.Balance
		assert.Equal(t, s.BalanceBefore.Tokens+len(s.IDs), last.Tokens)
		assert.Equal(t, s.BalanceBefore.Escalations+s.Cloud, last.Escalations)
		assert.Equal(t, float64(last.Escalations)/float64(last.Tokens), last.Share)
		assert.LessOrEqual(t, last.Share, 0.2)
		assert.Positive(t, s.Cloud, "the first run, too, asks: %d", i)
		state, err := os.ReadFile(kept()[0])
		require.NoError(t, err)
		states, tokens = append(states, state), append(tokens, s.IDs)
	}
	assert.Positive(t, last.Escalations)
	run("--budget", "0.3", "-n", "9")
	run("--budget", "0.2", "-n", "9", "--policy", "entropy")
	assert.Len(t, kept(), 3, "each budget and each policy has its own file")
	_, s, stderr := run("--budget", "0.2", "-n", "30", "--budget-state", "off")
	assert.Empty(t, stderr)
	assert.Equal(t, tokens[0], s.IDs, "as in the first run")
	assert.Equal(t, router.Total{Budget: 0.2}, s.BalanceBefore.Total)
	assert.Len(t, kept(), 3, "no further files")
	mine := filepath.Join(t.TempDir(), "deep", "state.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(mine), 0o700))
	for i, state := range states[:3] {
		require.NoError(t, os.WriteFile(mine, state, 0o600))
		_, s, _ := run("--budget", "0.2", "-n", "30", "--budget-state", mine)
		assert.Equal(t, tokens[i+1], s.IDs, "run %d again", i+1)
		after, err := os.ReadFile(mine)
		require.NoError(t, err)
		assert.Equal(t, string(states[i+1]), string(after))
	}
}

// TestBalanceName: a balance is of one small model, gateway, policy, router and budget.
func TestBalanceName(t *testing.T) {
	names := map[string]string{}
	file, err := group.ParseRouter(demo.Router())
	require.NoError(t, err)
	for i, model := range [][]byte{demo.Small(), demo.Large()} {
		m, err := pilotfish.Load(model, "demo.gguf", pilotfish.Options{})
		require.NoError(t, err)
		defer m.Close()
		for _, address := range []string{"a:1", "a:2"} {
			for _, o := range []router.Options{
				{Policy: router.Margin}, {Policy: router.Learned}, {Policy: router.Learned, Net: file.Net}} {
				for _, budget := range []float64{0.1, 0.2} {
					f := &runFlags{gateway: group.GatewayFlags{Address: address}}
					p := &routingPlan{options: o, budget: budget}
					name, err := balanceFileName(f, p, m)
					require.NoError(t, err)
					what := fmt.Sprint(i, address, o.Policy, o.Net != nil, budget)
					assert.Empty(t, names[name], what)
					names[name] = what
				}
			}
		}
	}
	assert.Len(t, names, 24)
}

// TestBudgetOfCutRun: the balance of an answer is kept if it is interrupted or stdout fails.
func TestBudgetOfCutRun(t *testing.T) {
	small, at := clitest.StartPair(t)
	for _, interrupt := range []bool{true, false} {
		mine := filepath.Join(t.TempDir(), "state.json")
		ctx, cancel := context.WithCancel(t.Context())
		out := &cutting{lines: 9, then: cancel}
		if !interrupt {
			out.then = func() {}
			out.err = io.ErrClosedPipe
		}
		a := cli.New(clitest.UnderTest, strings.NewReader(""), out, io.Discard)
		a.Run(ctx, append([]string{"run", "-m", small, "--deadline", "off", "--json", "--budget", "0.5",
			"--budget-state", mine, "-n", "200", "--ignore-eos", clitest.Question(0)}, at...))
		cancel()
		b, err := (&storedBalance{path: mine}).readBalance(0.5)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, b.Total().Tokens, 9)
		assert.Less(t, b.Total().Tokens, 200)
		assert.Positive(t, b.Total().Escalations)
		assert.LessOrEqual(t, b.Total().Share(), 0.5)
	}
}

// cutting is stdout that calls then at the write of a number of lines, and fails from there if it has an error.
type cutting struct {
	lines int
	then  func()
	err   error
}

func (c *cutting) Write(b []byte) (int, error) {
	if c.lines--; c.lines == 0 {
		c.then()
	}
	if c.lines <= 0 && c.err != nil {
		return 0, c.err
	}
	return len(b), nil
}

// TestBudgetStateTogether: runs that end at the same time leave a complete file.
func TestBudgetStateTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	o := router.Options{Policy: router.Margin, Budget: 0.1}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			k := storedBalance{path: path}
			for range 20 {
				one := router.Answer{Tokens: 10, Escalations: 1, Confidences: []float32{0.5}}
				assert.NoError(t, k.addAnswer(o, one))
			}
		})
	}
	all.Wait()
	b, err := (&storedBalance{path: path}).readBalance(0.1)
	require.NoError(t, err)
	assert.Equal(t, b.Total().Tokens, 10*b.Total().Escalations)
	assert.GreaterOrEqual(t, b.Total().Tokens, 200, "sequential runs all count")
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// TestBudgetStateKept: a balance that cannot be continued is an error, and its file stays as it is.
func TestBudgetStateKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	k, one := storedBalance{path: path}, router.Answer{Tokens: 10, Escalations: 1, Confidences: []float32{0.5}}
	require.NoError(t, k.addAnswer(router.Options{Policy: router.Margin, Budget: 0.1}, one))
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, c := range []struct {
		name, text, want string
		o                router.Options
	}{
		{"another budget", string(good), "belongs to a budget of", router.Options{Policy: router.Margin, Budget: 0.2}},
		{"an unknown policy", string(good), `policy "sometimes"`, router.Options{Policy: "sometimes", Budget: 0.1}},
		{"damaged", "damaged", "is not the balance of a budget", router.Options{Policy: router.Margin, Budget: 0.1}},
		{"too large", strings.Repeat(" ", maxBalance+1), "--budget-state: ",
			router.Options{Policy: router.Margin, Budget: 0.1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			require.ErrorContains(t, k.addAnswer(c.o, one), c.want)
			left, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, c.text, string(left))
		})
	}
}

// TestExplainAudit: an audit explains only the small model's tokens in its range.
func TestExplainAudit(t *testing.T) {
	x := new(explainer)
	for pos, origin := range []string{"edge", "edge", "edge-timeout", "cloud", "edge", "edge"} {
		x.rows = append(x.rows, event.Explanation{Pos: pos, ID: int32(10 + pos), Origin: origin})
	}
	x.observeEvent(pilotfish.Event{Escalation: &pilotfish.Escalation{
		Pos: 9, Outcome: "hit", Audited: 2, AuditedFrom: 1, AuditedTo: 5,
		Missed: []engine.CloudFinding{{Pos: 4, Token: 77}},
	}})
	var known []int32
	for _, r := range x.rows[:6] {
		if r.Cloud != nil {
			known = append(known, *r.Cloud)
		}
	}
	assert.Equal(t, []int32{11, 77}, known)
	assert.Equal(t, `"\u65e5\u672c\u.."`, quoteShort("日本語"))
	assert.Equal(t, `"\x1b[2J"`, quoteShort("\x1b[2J"))
}

// TestExplainTable: the table is for terminals: at most 100 columns, and tokens only in quoted ASCII.
func TestExplainTable(t *testing.T) {
	m, err := pilotfish.Load(demo.Small(), "small", pilotfish.Options{})
	require.NoError(t, err)
	defer m.Close()
	size, err := m.Vocabulary()
	require.NoError(t, err)
	x := new(explainer)
	tell := func(ev pilotfish.Event) { x.observeEvent(ev) }
	reason := func(local int32) *engine.Reason {
		return &engine.Reason{Local: local, Margin: 0.5, Entropy: 12.3456, Threshold: -0.125}
	}
	stand := func(pos int, id int32) {
		tell(pilotfish.Event{Token: &engine.ShownToken{Pos: pos, ID: id, Origin: "edge", Confidence: 0.25,
			Reason: reason(id)}})
	}
	stand(123456, 300)
	stand(123457, 301)
	tell(pilotfish.Event{Escalation: &pilotfish.Escalation{
		Pos: 123458, Outcome: "miss", Local: 302, Token: 303, Audited: 2, AuditedFrom: 123456, AuditedTo: 123458,
		Top:    []pilotfish.Candidate{{ID: 303, LogProb: -0.25}, {ID: 302, LogProb: -3}},
		Missed: []engine.CloudFinding{{Pos: 123457, Token: 400, LogProb: -0.5}},
	}})
	tell(pilotfish.Event{Token: &engine.ShownToken{Pos: 123458, ID: 303, Origin: "cloud", Confidence: 0.25,
		Reason: reason(302)}})
	tell(pilotfish.Event{Token: &engine.ShownToken{Pos: 123459, ID: 1, Origin: "edge-timeout", Reason: reason(1)}})
	tell(pilotfish.Event{Escalation: &pilotfish.Escalation{Pos: 123459, Outcome: "late", Local: 1, Token: 1}})
	tell(pilotfish.Event{Escalation: &pilotfish.Escalation{Pos: 123460, Outcome: "hit", Local: 2, Token: 2,
		Top: []pilotfish.Candidate{{ID: 2, LogProb: -0.001}}}})
	tell(pilotfish.Event{Token: &engine.ShownToken{Pos: 123460, ID: 2, Origin: "cloud", Reason: reason(2)}})
	tell(pilotfish.Event{Escalation: &pilotfish.Escalation{Pos: 123470, Outcome: "dropped"}})
	var out strings.Builder
	x.printTable(&out, m, true)
	rows := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, rows, 6)
	for _, row := range rows {
		assert.LessOrEqual(t, len(row), 100)
		assert.Regexp(t, `^[ -~]+$`, row)
	}
	assert.Regexp(t, `^123456 ".*" +0\.250 +0\.500 +12\.346 +-0\.125 stands +the same$`, rows[1])
	assert.Regexp(t, `stands +".*" +-0\.50$`, rows[2])
	assert.Regexp(t, `miss +".*" +-0\.25$`, rows[3])
	assert.Regexp(t, `late$`, rows[4])
	assert.Regexp(t, `hit +the same +0\.00$`, rows[5])
	out.Reset()
	x.printTable(&out, m, false)
	assert.Regexp(t, `^   pos small model's +conf margin entropy\n123456 ".*" +0\.250 +0\.500 +12\.346\n`, out.String())
	for id := range int32(size) {
		q := quoteToken(m, id)
		require.LessOrEqual(t, len(q), 18)
		require.True(t, regexp.MustCompile(`^"[ -~]*"$`).MatchString(q), fmt.Sprint(id, q))
	}
}
