package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/metalplan"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/price"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// engineReport is a report whose figures are all different.
func engineReport() speed.Report {
	return speed.Report{
		PromptTPS: 120, GenerationTPS: 30, PromptTokens: 512, DecodedTokens: 64, LoadMS: 7.25,
		FirstTokenMS: 80.5, PeakRSS: 3e9, FileBytes: 500e6, HugeBytes: 490e6, MoveMS: 130,
		KVBytes: 12e6, TokenBytes: 400e6, DepthBytes: 2e6, Bandwidth: 20,
		ByThreads: []float64{11, 20}, Bound: 49.75, Share: new(0.603), PromptMACs: 41, PeakBytes: 200, PeakFloats: 90,
		PromptBound: 480, Device: "a device", Threads: 2,
	}
}

// TestEngineReport: each figure stands where its words say.
func TestEngineReport(t *testing.T) {
	said := func(r speed.Report) string {
		var out strings.Builder
		printEngineReport(&app{stdout: &out}, r)
		return out.String()
	}
	r := engineReport()
	assert.Equal(t, `a device
prompt          120.0 tokens/s, 512 at once: 25% of the 480 that multiplying allows
                 41.0 billion multiplications with weights per second; this CPU can do 200 of bytes or 90 of float32
generation       30.0 tokens/s, 64 one by one: 60% of the 49.8 that reading memory allows
memory           20.0 GB/s can be read; a token reads 400 MB of weights and 2.0 MB of keys and values
by threads       11.0     20.0 GB/s, with 1 to 2
weights        490 MB of 500 MB in huge pages, 130 ms after the first token
load              7.2 ms, first token after 80.5 ms
peak memory    3.0 GB (file 500 MB, keys and values of a full context 12 MB)
`, said(r))

	r.Dispatches, r.Levels, r.PromptBound, r.ByThreads, r.DepthBytes, r.PeakRSS = 77, 33, 0, []float64{20}, 0, 0
	r.FitsCache, r.Share, r.HugeBytes, r.WeightsStay = true, nil, 20e6, "there is no room"
	half, full := speed.Scale{Threads: 1, PromptTPS: 31, GenerationTPS: 21, Bandwidth: 11, Share: new(0.5)},
		speed.Scale{Threads: 2, PromptTPS: 32, GenerationTPS: 22, Bandwidth: 12, FitsCache: true}
	r.Scaling = []speed.Scale{half, full}
	assert.Equal(t, `a device
prompt          120.0 tokens/s, 512 at once
generation       30.0 tokens/s, 64 one by one: the model fits in the CPU's cache, so memory bandwidth does not bound it
encoded            77 dispatches a token, in 33 levels: those of one level need not wait for each other
memory           20.0 GB/s can be read; a token reads 400 MB of weights
weights         20 MB of 500 MB in huge pages: there is no room
load              7.2 ms, first token after 80.5 ms

threads   prompt, tokens/s   generation, tokens/s   GB/s read   share of what reading memory allows
      1               31.0                   21.0        11.0   50%
      2               32.0                   22.0        12.0   fits in the cache
`, said(r))
	r = engineReport()
	g, known := metalplan.Called("Apple M2")
	require.True(t, known)
	r.Predicted = &speed.Prediction{GenerationTPS: 20, TokenUS: 50000, MeasuredUS: 75000, Context: 40, GPU: &g,
		Assumed: &metalplan.Constants{Streaming: 0.83, Latency: 0.6, Step: 5.2}}
	assert.Contains(t, said(r), `
predicted        20.0 tokens/s, 50000 µs a token with 40 tokens of context; measured 75000 µs: 1.50 times that
             of an M2 with 10 cores at 1.40 GHz and 100 GB/s, 83% of it reached; 0.6 µs until a read has its data, `+
		"5.2 µs a dispatch\n")
	r.Predicted = &speed.Prediction{MeasuredUS: 9, Why: "it is no GPU"}
	assert.Contains(t, said(r), "\npredicted    nothing: it is no GPU\n")
	r = engineReport()
	r.PromptTPS = 500
	assert.Contains(t, said(r), ": 100% of the 480 ", "a bound is measured with an error")
	r.PromptTokens, r.DecodedTokens = 0, 0
	assert.NotRegexp(t, "prompt|generation", said(r))
}

// TestRoutingFigures: each column shows its own figure.
func TestRoutingFigures(t *testing.T) {
	var out strings.Builder
	reports := []outcome.Report{{
		Mode: "pipelined-2", Answers: 40, Accuracy: new(0.9), AccuracyLow: new(0.77), AccuracyHigh: new(0.961),
		EscalatedShare: new(0.042), TokensPerAnswer: 22, Escalations: new(1.9), Asks: new(2.4), Timeouts: new(3),
		Time: result.Times{Mean: 111, P50: 101.6, P90: 190.4}, HiddenShare: new(0.51), HitRate: new(0.62),
		MissedShare: new(0.07), BytesUp: new(61.25), BytesDown: new(12.0), EqualToSerial: new(true), Differing: new(0),
		EqualToCloud: new(false), DifferingFromCloud: new(4), Known: new(0.5), Turned: new(0.25), Unverified: new(6),
		CloudTokens: &outcome.CloudTokens{Prefilled: 40.25, Decoded: 3.5, Ahead: 9.75, AheadUsed: 4.125},
		Cost:        &price.Cost{PerAnswer: 0.00025, Per1000: 0.26, CloudOnly: 0.0007},
	}}
	require.NoError(t, printRouting(&out, reports))
	gap := regexp.MustCompile(" {2,}")
	tables := strings.Split(out.String(), "\n\n")
	require.Len(t, tables, 5)
	for i, want := range [][2][]string{
		{{"mode", "right", "interval", "cloud", "ms p50", "ms p90", "hidden", "hits", "same"},
			{"pipelined-2", "90.0%", "77–96%", "4.2%", "102", "190", "51.0%", "62.0%", "yes"}},
		{{"mode", "asks", "timed out", "bytes up", "bytes down", "known", "turned", "unverified"},
			{"pipelined-2", "2.4", "3", "61.2", "12.0", "0.5", "0.2", "6"}},
		{{"mode", "prefilled", "decoded", "ahead", "used", "cost", "per 1000", "cloud only"},
			{"pipelined-2", "40.2", "3.5", "9.8", "4.1", "0.00025", "0.26", "0.0007"}},
	} {
		head, row, _ := strings.Cut(tables[i], "\n")
		assert.Equal(t, want[0], gap.Split(strings.TrimSpace(head), -1))
		assert.Equal(t, want[1], gap.Split(strings.TrimSpace(row), -1))
	}
	legend := regexp.MustCompile(`(?m)^\S.*`).FindAllString(tables[3], -1)
	assert.Len(t, legend, 8+7+7, "a line for every column but the first")
	for _, line := range strings.Split(out.String(), "\n") {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), tableWidth)
	}

	f := routingFlags{json: true}
	out.Reset()
	require.NoError(t, f.print(&app{stdout: &out}, append(reports, outcome.Report{Mode: "local"}),
		result.Run{Measurement: "demo"}))
	about := regexp.MustCompile(`(?m),"run":{"measurement":"demo".*}}$`)
	assert.Equal(t, `{"mode":"pipelined-2","answers":40,"accuracy":0.9,"accuracy_low":0.77,"accuracy_high":0.961,`+
		`"escalated_share":0.042,`+
		`"tokens_per_answer":22,"escalations_per_answer":1.9,"asks_per_answer":2.4,"timeouts":3,`+
		`"time_per_answer_ms":{"mean":111,"p50":101.6,"p90":190.4,"p99":0},`+
		`"hidden_share":0.51,"hit_rate":0.62,"missed_share":0.07,"bytes_up_per_escalation":61.25,`+
		`"bytes_down_per_escalation":12,`+
		`"equal_to_serial":true,"answers_differing_from_serial":0,"equal_to_cloud":false,`+
		`"answers_differing_from_cloud":4,`+
		`"known_per_answer":0.5,"turned_per_answer":0.25,"unverified":6,`+
		`"cloud_tokens_per_answer":{"prefilled":40.25,"decoded":3.5,"ahead":9.75,"ahead_used":4.125},`+
		`"cost":{"per_answer":0.00025,"per_1000_answers":0.26,"cloud_only_per_answer":0.0007}}`+"\n"+
		`{"mode":"local","answers":0,"tokens_per_answer":0,`+
		`"time_per_answer_ms":{"mean":0,"p50":0,"p90":0,"p99":0}}`+"\n",
		about.ReplaceAllString(out.String(), "}"))
	out.Reset()
	require.NoError(t, f.print(&app{stdout: &out}, nil, result.Run{}))
	assert.Empty(t, out.String())
}

// TestTallyText: the line below an answer that is shown as it comes.
func TestTallyText(t *testing.T) {
	assert.Equal(t, "20 tokens, 4 of them from the large model",
		tallyText(engine.Routing{Tokens: 20, Cloud: 4, Wait: time.Second}))
	assert.Equal(t, "20 tokens, 4 of them from the large model, 3 from the small one since no answer came in time; "+
		"of 1.235s from asks to answers, 568ms were spent on drafting that held",
		tallyText(engine.Routing{Tokens: 20, Cloud: 4, Timeouts: 3, Answered: 1, Wait: 1234567 * time.Microsecond,
			Hidden: 567890 * time.Microsecond}))
}

// TestRunReport: what stderr says of a run, figure by figure.
func TestRunReport(t *testing.T) {
	late := errors.New("no answer before the deadline")
	report := func(e summaryEvent) string {
		var out strings.Builder
		w := newCloudWatch(nil, nil, nil)
		w.attempted(nil)
		w.cause = late
		f := &runFlags{answer: answerFlags{Settings: terms.Settings{MaxTokens: 9}}}
		o := &runOutput{a: &app{stderr: &out}, f: f, context: 512, watch: w}
		o.report(e)
		return out.String()
	}
	e := summaryEvent{PromptTokens: 12, GeneratedTokens: 9, PromptMS: 34.4, PromptTPS: 56.78, GenerationTPS: 90.12,
		LoadMS: 345.6, Stop: "length"}
	const last = "12 tokens of prompt in 34 ms (56.8/s), 9 generated at 90.1/s, stopped at the limit of 9 tokens " +
		"(-n); model loaded in 346 ms\n"
	assert.Equal(t, last, report(e))
	e.LookupProposed, e.LookupAccepted, e.PassesPerToken = 8, 5, 0.375
	const guessed = "5 of 8 tokens guessed from the text were right (--lookup): 0.38 passes over the model a token\n"
	assert.Equal(t, last+guessed, report(e))
	e.LookupProposed = 0
	e.Seed = new(uint64(7))
	assert.Equal(t, "drawn with --seed 7, which gives the same text again\n"+last, report(e))
	e.Seed, e.RoutedEvent = nil, &RoutedEvent{}
	assert.Equal(t, "the cloud was not asked for any of these tokens\n"+last, report(e))
	e.RoutedEvent = &RoutedEvent{
		CloudTokens: 4, Timeouts: 2, EdgeTimeouts: 2, Escalations: 6, Answered: 5, Unanswered: 1, Hits: 3, Asks: 8,
		Audit: "exact", Audited: 40, Missed: 3, AuditedFor: 40, MissedFor: 3, BytesUp: 700, BytesDown: 80,
		WaitMS: 900.4, HiddenMS: 400.6, ExposedMS: 500, LostMS: 100, all: 10, EscalatedShare: 0.4, Needless: 1,
	}
	assert.Equal(t, `4 of 10 tokens (40.0%) come from the cloud, which answered 5 of 6 questions; 700 bytes up, 80 down
answers took 900 ms in all; drafting went on for 401 ms of that
1 of 5 answers were the small model's own choice (20.0%): questions without a need
2 tokens are the small model's because the answer was late or failed, so that `+
		`the text may differ from that of serial decoding without a deadline: `+
		late.Error()+`
of 40 tokens that were not asked for, the cloud would have chosen 3 differently (7.5%)
`+last, report(e))
	e.RoutedEvent.Audit, e.AuditedFor, e.MissedFor = "sampled", 200, 30
	assert.Contains(t, report(e), "of 40 tokens, drawn at random from 200 that were not asked for, "+
		"the cloud would have chosen 3 differently (15.0% of all, estimated)\n")
	e.RoutedEvent.Audit, e.Audited, e.AuditedFor = "none", 0, 0
	assert.Contains(t, report(e), "the gateway's model cannot say how it would have chosen where it was not asked\n")
	e.RoutedEvent.Audit = "exact"
	assert.NotContains(t, report(e), "differently", "nothing was audited")
}

// TestRoutedEvent: each figure of the summary is the one of its name.
func TestRoutedEvent(t *testing.T) {
	r := draft.Summary{
		Cloud: 1, Timeouts: 2, Escalations: 3, Hits: 4, Asks: 5, Drafted: 6, Wasted: 7, Audited: 8, Missed: 9,
		AuditedFor: 108, MissedFor: 109,
		Tokens: 8, Needless: 18,
		BytesUp: 10, BytesDown: 11, Exposed: 12 * time.Millisecond, Answered: 100, Failed: 101, Late: 102, Dropped: 103,
		Wait: 104, Hidden: 105, TimedOut: 106,
		Known: 107, Turned: 110, Unverified: 111, Prefilled: 112, Decoded: 113, Ahead: 114, AheadUsed: 115, Warmed: 116,
	}
	w := &cloudWatch{answers: 13, failures: 14, wait: 15 * time.Millisecond, hidden: 1600 * time.Microsecond,
		lost: 17 * time.Millisecond}
	b, err := json.Marshal(routedEvent(r, w))
	require.NoError(t, err)
	assert.JSONEq(t, `{"cloud_tokens":1,"escalated_share":0.125,"needless":18,"timeouts":2,"edge_timeout_tokens":2,
		"escalations":3,"answered":13,"unanswered":14,"hits":4,"asks":5,
		"drafted":6,"wasted":7,"audited":8,"missed":9,
		"audited_for":108,"missed_for":109,
		"bytes_up":10,"bytes_down":11,"wait_ms":15,"hidden_ms":1.6,"exposed_ms":12,"lost_ms":17,"known":107,
		"turned":110,"unverified":111,"prefilled":112,"decoded":113,"ahead":114,
		"ahead_used":115,"warmed":116,"warmed_in_vain":0}`, string(b))
	r.Asks = 0
	assert.Equal(t, 116, routedEvent(r, w).WarmedInVain)
	var out strings.Builder
	o := &runOutput{a: &app{stderr: &out}, watch: newCloudWatch(nil, nil, nil)}
	said := func(e RoutedEvent) string {
		out.Reset()
		o.reportCloud(summaryEvent{RoutedEvent: &e})
		return out.String()
	}
	assert.Contains(t, said(RoutedEvent{}), "there was no connection to the cloud")
	o.watch.attempted(nil)
	assert.Equal(t, "the cloud was not asked for any of these tokens\n", said(RoutedEvent{}))
	assert.Contains(t, said(RoutedEvent{WarmedInVain: 7}), "7 tokens of the prompt were sent early in vain (--no-warm")
	assert.Contains(t, said(RoutedEvent{Asks: 2}), "(2 questions) did not become part of the text")
}

// TestVerifiedOfRun: what is said of verification, answers ahead and costs where they are asked for, and not a word of
// them elsewhere.
func TestVerifiedOfRun(t *testing.T) {
	said := func(f runFlags, r RoutedEvent) (string, RoutedEvent) {
		var out strings.Builder
		o := &runOutput{a: &app{stderr: &out}, f: &f, watch: newCloudWatch(nil, nil, nil)}
		r.Turned, r.Unverified, r.all = new(*r.Turned), new(*r.Unverified), 50
		o.verified(&r, 100)
		o.reportCloud(summaryEvent{RoutedEvent: &r})
		return out.String(), r
	}
	event := RoutedEvent{
		CloudTokens: 5, EscalatedShare: 0.1, Escalations: 6, Known: 2, Answered: 4, Turned: new(3), Unverified: new(0),
		Prefilled: 300, Decoded: 20, Ahead: 30, AheadUsed: 10,
	}
	text, r := said(runFlags{}, event)
	const all = "5 of 50 tokens (10.0%) come from the cloud, which answered 4 of 4 questions; 0 bytes up, 0 down\n" +
		"answers took 0 ms in all; drafting went on for 0 ms of that\n"
	const more = "2 more questions needed no asking: an earlier answer told\n" +
		"the cloud decoded 30 tokens ahead, of which 10 were of use\n"
	assert.Equal(t, all+more, text)
	assert.Nil(t, r.Verify)
	assert.Nil(t, r.Turned)
	assert.Nil(t, r.Unverified)
	assert.Nil(t, r.Cost)

	f := runFlags{verify: verifyFlags{verify: margin{true, 0.5}}}
	f.verify.price.list = &price.List{Prefill: 1000, Decode: 10_000}
	text, r = said(f, event)
	const verified = "verified with a margin of 0.5 nats: 3 tokens turned before they were shown"
	const cost = "the large model's work cost 0.8 (800 per thousand such answers); alone it would have cost 0.6\n"
	assert.Equal(t, all+more+verified+"\n"+cost, text)
	assert.Equal(t, 0.5, *r.Verify)
	assert.Equal(t, 3, *r.Turned)
	assert.InDelta(t, 0.8, r.Cost.PerAnswer, 1e-12)
	assert.InDelta(t, 800, r.Cost.Per1000, 1e-9)
	assert.InDelta(t, 0.6, r.Cost.CloudOnly, 1e-12, "100 tokens of prompt, and 50 of text")

	event.Unverified = new(7)
	text, _ = said(f, event)
	assert.Contains(t, text, verified+"; 7 tokens were shown unverified, since no answer came in time\n")
	b, err := json.Marshal(tokenEvent{Unverified: true})
	require.NoError(t, err)
	assert.Contains(t, string(b), `"unverified":true`)
	b, err = json.Marshal(tokenEvent{})
	require.NoError(t, err)
	assert.NotContains(t, string(b), "unverified")
}

// TestSummaryOfRun: the figures of --json fit together.
func TestSummaryOfRun(t *testing.T) {
	m := tinyModel(t, "q8_0")
	for _, n := range []string{"1", "20"} {
		ids, _, s, _ := routedTokens(t, "-m", m, "--tokens", "1,2,3,4,5", "-n", n)
		assert.Equal(t, ids, s.Tokens)
		assert.InEpsilon(t, 5/s.PromptMS*1000, s.PromptTPS, 1e-9)
		if n == "1" {
			assert.Zero(t, s.GenerationTPS, "the first token is the prompt's")
		} else {
			assert.InEpsilon(t, 19/s.DecodeMS*1000, s.GenerationTPS, 1e-9)
		}
		assert.Positive(t, s.LoadMS)
		assert.Nil(t, s.RoutedEvent, "without a cloud")
		assert.Nil(t, s.Error)
	}
	assert.Equal(t, 2.5, ms(2500*time.Microsecond))
	assert.Equal(t, 4.0, perSecond(2, time.Second/2))
	assert.Zero(t, perSecond(0, time.Second))
	assert.Zero(t, perSecond(2, 0))
}

// TestPassesOfRun: each figure of passes and guesses has its name.
func TestPassesOfRun(t *testing.T) {
	b, err := json.Marshal(summaryEvent{
		Passes: 3, PassesPerToken: 0.75, LookupProposed: 5, LookupAccepted: 1, RanAhead: 6, RanInVain: 2,
	})
	require.NoError(t, err)
	for _, want := range []string{
		`"passes":3,`, `"passes_per_token":0.75,`, `"lookup_proposed":5,`, `"lookup_accepted":1,`,
		`"ran_ahead":6,`, `"ran_in_vain":2,`,
	} {
		assert.Contains(t, string(b), want)
	}
}

// TestSummaryStops: a text that did not end by itself was interrupted, or failed, and says why.
func TestSummaryStops(t *testing.T) {
	e, err := engine.Open(tinyModel(t, "q8_0"), engine.Options{})
	require.NoError(t, err)
	defer e.Close()
	s, err := e.NewSession()
	require.NoError(t, err)
	o := newRunOutput(&app{stdout: io.Discard}, &runFlags{}, 0, e, s)
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
