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
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/event"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestRunReport: the report on stderr, figure by figure.
func TestRunReport(t *testing.T) {
	late, large := errors.New("no answer before the deadline"), ""
	report := func(e event.Summary) string {
		var out strings.Builder
		w := newCloudWatch(nil, nil, nil)
		w.attempted(nil)
		w.cause = late
		f := &runFlags{answer: group.AnswerFlags{Settings: terms.Settings{MaxTokens: 9}}}
		f.model.Large = large
		o := &runOutput{a: &cli.App{Stderr: &out}, f: f, context: 512, watch: w}
		o.report(e)
		return out.String()
	}
	e := event.Summary{PromptTokens: 12, GeneratedTokens: 9, PromptMS: 34.4, PromptTPS: 56.78, GenerationTPS: 90.12,
		LoadMS: 345.6, Stop: "length"}
	const last = "12 tokens of prompt in 34 ms (56.8/s), 9 generated at 90.1/s, stopped at the limit of 9 tokens " +
		"(-n); model loaded in 346 ms\n"
	assert.Equal(t, last, report(e))
	e.LookupProposed, e.LookupAccepted, e.PassesPerToken = 8, 5, 0.375
	const guessed = "5 of 8 tokens guessed from the text were right (--lookup): 0.38 passes over the model a token\n"
	assert.Equal(t, last+guessed, report(e))
	e.LookupProposed = 0
	e.Seed = new(uint64(7))
	assert.Equal(t, "drawn with --seed 7, which reproduces this text\n"+last, report(e))
	e.Seed = nil
	e.Ignored, e.Shortened = []string{"#/a", "#/b"}, true
	assert.Equal(t, last+"--json-schema: these have no effect: #/a, #/b\nthe value of --json-schema ended with the "+
		"last of 9 tokens (-n, -c): it may lack something\n", report(e))
	e.Ignored, e.Shortened = nil, false
	large = "large.gguf"
	e.Drafts, e.DraftsAccepted, e.DraftPasses = 9, 7, 4
	assert.Equal(t, last+"7 of 9 tokens that the small model drafted were accepted, k = 2.2 in 4 passes; 0.38 passes "+
		"over the large model a token\n", report(e))
	e.Drafts, e.DraftsAccepted, e.DraftPasses = 0, 0, 0
	assert.Contains(t, report(e), "0 of 0 tokens that the small model drafted were accepted, k = 0.0 in 0 passes; ")
	large = ""
	e.Routed = &event.Routed{}
	assert.Equal(t, "the cloud was not asked for any of these tokens\n"+last, report(e))
	e.Routed = &event.Routed{
		CloudTokens: 4, Timeouts: 2, Escalations: 6, Answered: 5, Unanswered: 1, Hits: 3, Asks: 8,
		Audit: "exact", Audited: 40, Missed: 3, BytesUp: 700, BytesDown: 80,
		WaitMS: 900.4, HiddenMS: 400.6, ExposedMS: 500, LostMS: 100, All: 10, EscalatedShare: 0.4, Needless: 1,
	}
	assert.Equal(t, `4 of 10 tokens (40.0%) come from the cloud, which answered 5 of 6 questions; 700 bytes up, 80 down
answers took 900 ms in all; drafting continued for 401 ms of that
2 tokens are the small model's because the answer was late or failed, so that `+
		`the text may differ from that of serial decoding without a deadline: `+
		late.Error()+`
`+last, report(e))
}

// TestRoutedEvent: each figure of the summary has its own field.
func TestRoutedEvent(t *testing.T) {
	r := draft.Summary{
		Cloud: 1, Timeouts: 2, Escalations: 3, Hits: 4, Asks: 5, Drafted: 6, Wasted: 7, Audited: 8, Missed: 9,
		Tokens: 8, Needless: 18,
		BytesUp: 10, BytesDown: 11, Exposed: 12 * time.Millisecond, Answered: 100, Failed: 101, Late: 102, Dropped: 103,
		Wait: 104, Hidden: 105, TimedOut: 106,
		Known: 107, Turned: 110, Unverified: 111, Prefilled: 112, Decoded: 113, Ahead: 114, AheadUsed: 115, Warmed: 116,
	}
	w := &cloudWatch{answers: 13, failures: 14, wait: 15 * time.Millisecond, hidden: 1600 * time.Microsecond,
		lost: 17 * time.Millisecond}
	b, err := json.Marshal(routedEvent(r, w))
	require.NoError(t, err)
	assert.JSONEq(t, `{"cloud_tokens":1,"escalated_share":0.125,"needless":18,"timeouts":2,
		"escalations":3,"answered":13,"unanswered":14,"hits":4,"asks":5,
		"drafted":6,"wasted":7,"audited":8,"missed":9,
		"bytes_up":10,"bytes_down":11,"wait_ms":15,"hidden_ms":1.6,"exposed_ms":12,"lost_ms":17,"known":107,
		"turned":110,"unverified":111,"prefilled":112,"decoded":113,"ahead":114,
		"ahead_used":115,"warmed":116,"warmed_in_vain":0}`, string(b))
	r.Asks = 0
	assert.Equal(t, 116, routedEvent(r, w).WarmedInVain)
	var out strings.Builder
	o := &runOutput{a: &cli.App{Stderr: &out}, watch: newCloudWatch(nil, nil, nil)}
	said := func(e event.Routed) string {
		out.Reset()
		o.reportCloud(event.Summary{Routed: &e})
		return out.String()
	}
	assert.Contains(t, said(event.Routed{}), "there was no connection to the cloud")
	o.watch.attempted(nil)
	assert.Equal(t, "the cloud was not asked for any of these tokens\n", said(event.Routed{}))
	assert.Contains(t, said(event.Routed{Asks: 2}), "(2 questions) are not part of the text")
}

// TestVerifiedOfRun: verification is reported only if it was requested.
func TestVerifiedOfRun(t *testing.T) {
	said := func(f runFlags, r event.Routed) (string, event.Routed) {
		var out strings.Builder
		o := &runOutput{a: &cli.App{Stderr: &out}, f: &f, watch: newCloudWatch(nil, nil, nil)}
		r.Turned, r.Unverified, r.All = new(*r.Turned), new(*r.Unverified), 50
		o.verified(&r)
		o.reportCloud(event.Summary{Routed: &r})
		return out.String(), r
	}
	whole := event.Routed{
		CloudTokens: 5, EscalatedShare: 0.1, Escalations: 6, Known: 2, Answered: 4, Turned: new(3), Unverified: new(0),
		Prefilled: 300, Decoded: 20, Ahead: 30, AheadUsed: 10,
	}
	text, r := said(runFlags{}, whole)
	const all = "5 of 50 tokens (10.0%) come from the cloud, which answered 4 of 4 questions; 0 bytes up, 0 down\n" +
		"answers took 0 ms in all; drafting continued for 0 ms of that\n"
	assert.Equal(t, all, text)
	assert.Nil(t, r.Verify)
	assert.Nil(t, r.Turned)
	assert.Nil(t, r.Unverified)

	f := runFlags{verify: group.Margin{On: true, Nats: 0.5}}
	text, r = said(f, whole)
	const verified = "verified with a margin of 0.5 nats: 3 tokens turned before they were shown"
	assert.Equal(t, all+verified+"\n", text)
	assert.Equal(t, 0.5, *r.Verify)
	assert.Equal(t, 3, *r.Turned)

	whole.Unverified = new(7)
	text, _ = said(f, whole)
	assert.Contains(t, text, verified+"; 7 tokens were shown unverified, since no answer came in time\n")
	b, err := json.Marshal(event.Token{Unverified: true})
	require.NoError(t, err)
	assert.Contains(t, string(b), `"unverified":true`)
	b, err = json.Marshal(event.Token{})
	require.NoError(t, err)
	assert.NotContains(t, string(b), "unverified")
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
		summary := o.summary(c.ctx, broken)
		assert.Equal(t, c.stop, summary.Stop)
		assert.Equal(t, "broken", *summary.Error)
		assert.NotNil(t, summary.Tokens, "an empty list, not null")
	}
}

// TestSummaryEvent: each figure of an answer has its own field.
func TestSummaryEvent(t *testing.T) {
	s := pilotfish.Stats{Text: "text", Stop: "length", Shortened: true, Ignored: []string{"#/a"}, PromptTokens: 30,
		ReusedTokens: 2, Tokens: 11, Thought: 3, CloudTokens: 4, Timeouts: 5, Passes: 6, Proposed: 7, Accepted: 8,
		RanAhead: 9, RanInVain: 10, PromptTime: 2 * time.Second, DecodeTime: 4 * time.Second}
	s.Drafts, s.DraftsAccepted, s.DraftPasses = 12, 13, 14
	b, err := json.Marshal(summaryEvent(s))
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
	e := o.summary(t.Context(), nil)
	assert.Equal(t, []any{3000., o.session.KVLimit(), []int32{5, 6}}, []any{e.LoadMS, e.KVBytes, e.Tokens})
	assert.Nil(t, e.Error)
	assert.Nil(t, e.Seed)
	o.f.answer.Temperature, o.f.answer.Seed = 1, 7
	assert.Equal(t, uint64(7), *o.summary(t.Context(), nil).Seed)
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
		require.NoError(t, o.token(tok))
		return out.String()
	}
	o.observe(pilotfish.Event{At: 1500 * time.Millisecond, Token: &engine.ShownToken{Pos: 9,
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

// TestObserved: what a question adds to the figures, by its outcome.
func TestObserved(t *testing.T) {
	type figures struct {
		answers, failures  int
		wait, hidden, lost time.Duration
	}
	asked := figures{wait: 8, hidden: 4}
	answered, missing := asked, figures{failures: 1, lost: 2}
	answered.answers = 1
	for outcome, want := range map[draft.Outcome]figures{
		draft.Hit: answered, draft.Miss: answered, draft.Checked: asked, draft.Late: missing, draft.Failed: missing,
		draft.Unasked: missing, draft.Known: {}, draft.Dropped: {}, draft.Probing: {},
	} {
		w := newCloudWatch(nil, nil, func(error) {})
		w.observe(pilotfish.Event{Escalation: &pilotfish.Escalation{Outcome: outcome, Wait: 8, Hidden: 4, Exposed: 2,
			Err: io.ErrUnexpectedEOF}})
		assert.Equal(t, want, figures{w.answers, w.failures, w.wait, w.hidden, w.lost}, outcome)
		assert.Equal(t, want.failures > 0, w.why() != nil, outcome)
	}
}
