package run

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
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
	"github.com/pilotfish-ai/pilotfish/internal/record"
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
	s.PromptTokens, s.PromptTime = 12, 34400*time.Microsecond
	e = event.Summary{PromptTPS: 56.78, GenerationTPS: 90.12, LoadMS: 345.6, Stop: "end"}
	f.stats = true
	const last = "12 tokens of prompt in 34 ms (56.8/s), 9 generated at 90.1/s, stopped at the end token; model " +
		"loaded in 346 ms\n"
	assert.Equal(t, last, report())
	s.Proposed, s.Accepted, s.Passes = 8, 5, 3
	assert.Equal(t, last+"5 of 8 tokens guessed from the text were right (--lookup): 0.38 passes over the model a "+
		"token\n", report())
	s.Proposed, e.Seed = 0, new(uint64(7))
	assert.Equal(t, "drawn with --seed 7\n"+last, report())
	s.Stop = "length"
	assert.Equal(t, "cut off after 9 tokens (-n); drawn with --seed 7\n"+last, report())
	e.Seed, e.Ignored, s.Stop = nil, []string{"#/a", "#/b"}, ""
	assert.Equal(t, "--json-schema: these have no effect: #/a, #/b\n"+last, report())
	e.Ignored, f.model.Large = nil, "large.gguf"
	s.Drafts, s.DraftsAccepted, s.DraftPasses = 9, 7, 4
	assert.Equal(t, last+"7 of 9 tokens that the small model drafted were accepted, k = 2.2 in 4 passes; 0.38 passes "+
		"over the large model a token\n", report())
	s.Drafts, s.DraftsAccepted, s.DraftPasses = 0, 0, 0
	assert.Contains(t, report(), "0 of 0 tokens that the small model drafted were accepted, k = 0.0 in 0 passes; ")

	f.model.Large, route.Cloud = "", new(pilotfish.Gateway)
	s.Routing = draft.Summary{PromptTokens: 12, PromptTime: s.PromptTime, Escalations: 7, Known: 2, Unasked: 1,
		Answered: 3, Asks: 8, BytesUp: 700, BytesDown: 80,
		Wait: 900 * time.Millisecond, Hidden: 400 * time.Millisecond, Exposed: 600 * time.Millisecond}
	e.Routed = new(event.Routed)
	const line = "4 of 9 tokens from the large model, 600 ms waited\n"
	assert.Equal(t, line+`8 questions, 700 bytes up, 80 down
of the questions about the text and its end, 3 of 4 were answered
answers took 900 ms in all; drafts of use took 400 ms of that, waiting and other drafts 600 ms
`+last, report())
	f.stats = false
	assert.Equal(t, line, report())
	f.stats = true
	e.Routed.Verify, s.Verified, s.Turned = new(0.5), true, 3
	assert.Equal(t, "4 of 9 tokens from the large model, which verified the others, 600 ms waited\n"+
		"8 questions, 700 bytes up, 80 down\nverified with a margin of 0.5 nats: 3 tokens replaced before they were "+
		"shown\n"+last, report())
	e.Routed.Verify, e.Routed.Promise, e.Routed.Policy = nil, balanced, "verify"
	e.Routed.Budget = 0.07
	e.Routed.Balance = &event.Balance{Total: router.Total{Tokens: 100, Escalations: 5}, Share: 0.05}
	assert.Contains(t, report(), "budget 7%: 5 replacements for 100 tokens of all answers so far (5.0%)\n8 questions, ")
	assert.Contains(t, report(), "\nverified with a margin that follows the budget: 3 tokens replaced before ")
}

// TestEveryFigure: each figure of an answer that is declared reaches the summary of --json, under its name and with its
// value.
func TestEveryFigure(t *testing.T) {
	var s pilotfish.Stats
	want := map[string]float64{}
	v := reflect.ValueOf(&s.Routing).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" {
			assert.False(t, v.Field(i).CanInt(), "a figure without a name")
			continue
		}
		require.NotEmpty(t, name, "field %d has no name", i)
		v.Field(i).SetInt(int64(i+1) * int64(time.Millisecond))
		want[name] = float64(v.Field(i).Int())
		if strings.HasSuffix(name, "_ms") {
			want[name] = float64(i + 1)
		}
	}
	b, err := record.Marshal(newSummaryEvent(s))
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(b, &got))
	for name, x := range want {
		assert.Equal(t, x, got[name], name)
	}
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
			assert.NotNil(t, summary.IDs, "an empty list, not null")
		})
	}
}

// TestSummaryEvent: each figure of an answer has its own field.
func TestSummaryEvent(t *testing.T) {
	s := pilotfish.Stats{Text: "text", Stop: "length", Shortened: true, Ignored: []string{"#/a"}, Tokens: 11,
		Routing: pilotfish.Routing{PromptTokens: 30, PromptTime: 2 * time.Second, DecodeTime: 4 * time.Second}}
	assert.Equal(t, event.Summary{Text: "text", Stop: "length", Shortened: true, Ignored: []string{"#/a"},
		GeneratedTokens: 11, PromptTPS: 15, GenerationTPS: 2.5, Routing: s.Routing}, newSummaryEvent(s))
	m, err := pilotfish.Load(demo.Small(), "small", pilotfish.Options{Context: 64})
	require.NoError(t, err)
	defer m.Close()
	o := newRunOutput(&cli.App{Stdout: io.Discard}, &runFlags{}, 3*time.Second, m)
	o.ids = []int32{5, 6}
	e := o.newSummary(t.Context(), nil)
	assert.Equal(t, 3000., e.LoadMS)
	assert.Equal(t, o.session.KVLimit(), e.KVBytes)
	assert.Equal(t, []int32{5, 6}, e.IDs)
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
		assert.Equal(t, ids, s.IDs)
		assert.InEpsilon(t, 5/s.PromptTime.Seconds(), s.PromptTPS, 1e-2)
		if n == "1" {
			assert.Zero(t, s.GenerationTPS, "the first token comes with the prompt")
		} else {
			assert.InEpsilon(t, 19/s.DecodeTime.Seconds(), s.GenerationTPS, 1e-2)
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
