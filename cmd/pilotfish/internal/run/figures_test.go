package run

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/event"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestRunReport: what is printed to stderr below an answer, with --stats and without, figure by figure.
func TestRunReport(t *testing.T) {
	f, s := &runFlags{}, pilotfish.Stats{Tokens: 9, CloudTokens: 4}
	route, e := pilotfish.Route{}, event.Summary{}
	report := func() string {
		var out strings.Builder
		o := &runOutput{a: &cli.App{Stderr: &out}, f: f, context: 512, watch: newCloudWatch(nil, nil), route: route}
		o.printReport(s, e)
		return out.String()
	}
	assert.Empty(t, report(), "a small model alone that came to its end")
	e = event.Summary{PromptTokens: 12, GeneratedTokens: 9, PromptMS: 34.4, PromptTPS: 56.78, GenerationTPS: 90.12,
		LoadMS: 345.6, Stop: "end"}
	f.stats = true
	const last = "12 tokens of prompt in 34 ms (56.8/s), 9 generated at 90.1/s, stopped at the end token; model " +
		"loaded in 346 ms\n"
	assert.Equal(t, last, report())
	e.LookupProposed, e.LookupAccepted, e.PassesPerToken = 8, 5, 0.375
	assert.Equal(t, last+"5 of 8 tokens guessed from the text were right (--lookup): 0.38 passes over the model a "+
		"token\n", report())
	e.LookupProposed, e.Seed = 0, new(uint64(7))
	assert.Equal(t, "drawn with --seed 7\n"+last, report())
	s.Stop = "length"
	assert.Equal(t, "cut off after 9 tokens (-n); drawn with --seed 7\n"+last, report())
	e.Seed, e.Ignored, s.Stop = nil, []string{"#/a", "#/b"}, ""
	assert.Equal(t, "--json-schema: these have no effect: #/a, #/b\n"+last, report())
	e.Ignored, f.model.Large = nil, "large.gguf"
	e.Drafts, e.DraftsAccepted, e.DraftPasses = 9, 7, 4
	assert.Equal(t, last+"7 of 9 tokens that the small model drafted were accepted, k = 2.2 in 4 passes; 0.38 passes "+
		"over the large model a token\n", report())
	e.Drafts, e.DraftsAccepted, e.DraftPasses = 0, 0, 0
	assert.Contains(t, report(), "0 of 0 tokens that the small model drafted were accepted, k = 0.0 in 0 passes; ")

	f.model.Large, route.Cloud = "", new(pilotfish.Gateway)
	s.Routing = draft.Summary{Escalations: 7, Known: 2, Unasked: 1, Answered: 3, Asks: 8, BytesUp: 700, BytesDown: 80,
		Wait: 900 * time.Millisecond, Hidden: 400 * time.Millisecond, Exposed: 600 * time.Millisecond}
	e.Routed = newRoutedEvent(s)
	e.Routed.Turned = nil
	const line = "4 of 9 tokens from the large model, 600 ms waited\n"
	assert.Equal(t, line+`8 questions, 700 bytes up, 80 down
of the questions about the text and its end, 3 of 4 were answered
answers took 900 ms in all; drafts of use took 400 ms of that, waiting and other drafts 600 ms
`+last, report())
	f.stats = false
	assert.Equal(t, line, report())
	f.stats = true
	e.Routed.Verify, e.Routed.Turned, s.Verified, s.Turned = new(0.5), new(3), true, 3
	assert.Equal(t, "4 of 9 tokens from the large model, which verified the others, 600 ms waited\n"+
		"8 questions, 700 bytes up, 80 down\nverified with a margin of 0.5 nats: 3 tokens replaced before they were "+
		"shown\n"+last, report())
	e.Routed.Verify, e.Routed.Promise, e.Routed.Policy = nil, balanced, "verify"
	e.Routed.Budget = 0.07
	e.Routed.Balance = &event.Balance{Total: router.Total{Tokens: 100, Escalations: 5}, Share: 0.05}
	assert.Contains(t, report(), "budget 7%: 5 replacements for 100 tokens of all answers so far (5.0%)\n8 questions, ")
	assert.Contains(t, report(), "\nverified with a margin that follows the budget: 3 tokens replaced before ")
}

// TestRoutedEvent: each figure of the summary has its own field.
func TestRoutedEvent(t *testing.T) {
	r := draft.Summary{
		Cloud: 1, Timeouts: 2, Escalations: 3, Hits: 4, Asks: 5, Drafted: 6, Wasted: 7, Audited: 8, Missed: 9,
		Tokens: 8, Needless: 18, Answered: 13, Failed: 2, Late: 4, Unasked: 8, Wait: 15 * time.Millisecond,
		BytesUp: 10, BytesDown: 11, Exposed: 12 * time.Millisecond, Dropped: 103, Hidden: 1600 * time.Microsecond,
		Lost: 17 * time.Millisecond, TimedOut: 106,
		Known: 107, Turned: 110, Unverified: 111, Prefilled: 112, Decoded: 113, Ahead: 114, AheadUsed: 115, Warmed: 116,
	}
	b, err := json.Marshal(newRoutedEvent(pilotfish.Stats{CloudTokens: 119, Routing: r}))
	require.NoError(t, err)
	assert.JSONEq(t, `{"cloud_tokens":119,"escalated_share":0.125,"needless":18,"timeouts":2,
		"escalations":3,"answered":13,"unanswered":14,"hits":4,"asks":5,
		"drafted":6,"wasted":7,"audited":8,"missed":9,
		"bytes_up":10,"bytes_down":11,"wait_ms":15,"hidden_ms":1.6,"exposed_ms":29,"lost_ms":17,"known":107,
		"turned":110,"unverified":111,"prefilled":112,"decoded":113,"ahead":114,
		"ahead_used":115,"warmed":116,"warmed_in_vain":0}`, string(b))
	r.Asks = 0
	assert.Equal(t, 116, newRoutedEvent(pilotfish.Stats{Routing: r}).WarmedInVain)
}

// TestVerifiedOfRun: --json has figures of verification only if there was one.
func TestVerifiedOfRun(t *testing.T) {
	r := event.Routed{Turned: new(3), Unverified: new(0)}
	(&runOutput{f: &runFlags{}}).addVerification(&r, false)
	assert.Equal(t, event.Routed{}, r)
	r = event.Routed{Turned: new(3), Unverified: new(0)}
	(&runOutput{f: &runFlags{}}).addVerification(&r, true)
	assert.Equal(t, event.Routed{Turned: new(3), Unverified: new(0)}, r, "the margin is not that of a flag")
	r = event.Routed{Turned: new(3), Unverified: new(7)}
	f := &runFlags{route: group.RouteFlags{Verify: group.Margin{On: true, Nats: 0.5}}}
	(&runOutput{f: f}).addVerification(&r, true)
	assert.Equal(t, event.Routed{Turned: new(3), Unverified: new(7), Verify: new(0.5)}, r)
	b, err := json.Marshal([]event.Token{{Unverified: true}, {}})
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(b), `"unverified":true`))
}

// TestSummaryStops: a text that did not end by itself was interrupted or failed, with the reason.
func TestSummaryStops(t *testing.T) {
	m, err := pilotfish.Open(clitest.TinyModel(t, "q8_0"), pilotfish.Options{})
	require.NoError(t, err)
	defer m.Close()
	o := newRunOutput(&cli.App{Stdout: io.Discard}, &runFlags{}, 0, m)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("broken")
	for _, c := range []struct {
		ctx  context.Context
		stop string
	}{{gone, "interrupted"}, {t.Context(), "failed"}} {
		t.Run(c.stop, func(t *testing.T) {
			summary := o.newSummary(c.ctx, broken)
			assert.Equal(t, c.stop, summary.Stop)
			assert.Equal(t, "broken", *summary.Error)
			assert.NotNil(t, summary.Tokens, "an empty list, not null")
		})
	}
}

// TestSummaryEvent: each figure of an answer has its own field.
func TestSummaryEvent(t *testing.T) {
	s := pilotfish.Stats{Text: "text", Stop: "length", Shortened: true, Ignored: []string{"#/a"}, PromptTokens: 30,
		ReusedTokens: 2, Tokens: 11, Thought: 3, CloudTokens: 4, Timeouts: 5, Passes: 6, Proposed: 7, Accepted: 8,
		RanAhead: 9, RanInVain: 10, PromptTime: 2 * time.Second, DecodeTime: 4 * time.Second}
	s.Drafts, s.DraftsAccepted, s.DraftPasses = 12, 13, 14
	b, err := json.Marshal(newSummaryEvent(s))
	require.NoError(t, err)
	assert.JSONEq(t, `{"tokens":null,"text":"text","stop":"length","shortened":true,"ignored":["#/a"],
		"prompt_tokens":30,"generated_tokens":11,"thought_tokens":3,"load_ms":0,"prompt_ms":2000,"decode_ms":4000,
		"prompt_tps":15,"generation_tps":2.5,"passes":6,"passes_per_token":0.6,"lookup_proposed":7,"lookup_accepted":8,
		"drafts":12,"drafts_accepted":13,
		"draft_passes":14,"ran_ahead":9,"ran_in_vain":10,"kv_bytes":0,"error":null}`, string(b))
	m, err := pilotfish.Load(demo.Small(), "small", pilotfish.Options{Context: 64})
	require.NoError(t, err)
	defer m.Close()
	o := newRunOutput(&cli.App{Stdout: io.Discard}, &runFlags{}, 3*time.Second, m)
	o.ids = []int32{5, 6}
	e := o.newSummary(t.Context(), nil)
	assert.Equal(t, 3000., e.LoadMS)
	assert.Equal(t, o.session.KVLimit(), e.KVBytes)
	assert.Equal(t, []int32{5, 6}, e.Tokens)
	assert.Nil(t, e.Error)
	assert.Nil(t, e.Seed)
	o.f.answer.Temperature, o.f.answer.Seed = 1, 7
	assert.Equal(t, uint64(7), *o.newSummary(t.Context(), nil).Seed)
}

// TestTokenEvent: each property of a token has its own field, with its decision and its probabilities if they are
// wanted. A probability that the cloud did not report is null.
func TestTokenEvent(t *testing.T) {
	m, err := pilotfish.Load(demo.Small(), "small", pilotfish.Options{Context: 64})
	require.NoError(t, err)
	defer m.Close()
	var out strings.Builder
	o := &runOutput{a: &cli.App{Stdout: &out}, f: &runFlags{json: true}, model: m}
	said := func(tok pilotfish.Token) string {
		out.Reset()
		require.NoError(t, o.printToken(tok))
		return out.String()
	}
	o.observeEvent(pilotfish.Event{At: 1500 * time.Millisecond, Token: &engine.ShownToken{Pos: 9,
		CommitDelay: 20 * time.Millisecond}})
	tok := pilotfish.Token{ID: 5, Pos: 9, Text: "<a>", Kind: pilotfish.KindThought, Origin: "cloud", Confidence: 0.25,
		Unverified: true, LogProb: float32(math.NaN()), Top: []pilotfish.Candidate{{ID: 65, LogProb: -0.5}}}
	const whole = `{"pos":9,"id":5,"text":"<a>","kind":"thought","origin":"cloud","confidence":0.25,` +
		`"unverified":true,"ms":1500,"commit_delay_ms":20`
	assert.Equal(t, whole+"}\n", said(tok))
	o.explain = &explainer{rows: []event.Explanation{{Pos: 8}, {Pos: 9, Margin: 0.5, Entropy: 1.5, Threshold: 0.75}}}
	const why = `,"margin":0.5,"entropy":1.5,"threshold":0.75`
	assert.Equal(t, whole+why+"}\n", said(tok))
	o.f.answer.Top = 1
	assert.Equal(t, whole+why+`,"logprob":null,"top":[{"id":65,"text":"A","logprob":-0.5}]}`+"\n", said(tok))
	tok.LogProb, tok.Top = -2, nil
	assert.Equal(t, whole+why+`,"logprob":-2,"top":[]}`+"\n", said(tok))
	assert.Equal(t, []int32{5, 5, 5, 5}, o.ids)
}

// TestSummaryOfRun: the figures of --json are consistent.
func TestSummaryOfRun(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	for _, n := range []string{"1", "20"} {
		ids, _, s, _ := clitest.RoutedTokens(t, "-m", m, "--tokens", "1,2,3,4,5", "-n", n)
		assert.Equal(t, ids, s.Tokens)
		assert.InEpsilon(t, 5/s.PromptMS*1000, s.PromptTPS, 1e-9)
		if n == "1" {
			assert.Zero(t, s.GenerationTPS, "the first token comes with the prompt")
		} else {
			assert.InEpsilon(t, 19/s.DecodeMS*1000, s.GenerationTPS, 1e-9)
		}
		assert.Positive(t, s.LoadMS)
		assert.Nil(t, s.Routed, "without a cloud")
		assert.Nil(t, s.Error)
	}
	assert.Equal(t, 2.5, cli.Ms(2500*time.Microsecond))
	assert.Equal(t, 4.0, cli.PerSecond(2, time.Second/2))
	assert.Zero(t, cli.PerSecond(0, time.Second))
	assert.Zero(t, cli.PerSecond(2, 0))
}
