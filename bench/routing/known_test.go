package routing

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// script is a cloud with a fixed round trip. It records the positions that it was asked for.
type script struct {
	draft.Cloud
	away time.Duration

	mu    sync.Mutex
	asked []int
	first []int32 // the context of the first ask
}

func (s *script) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	s.mu.Lock()
	if s.asked = append(s.asked, len(q.Context)); len(s.asked) == 1 {
		s.first = q.Context
	}
	s.mu.Unlock()
	return distant{s.Cloud, s.away}.Ask(ctx, q)
}

const (
	knownPace   = 20 * time.Millisecond
	knownTokens = 32
	knownTrip   = 110 * time.Millisecond
)

// knownTime is a way to answer, and the time that it takes.
type knownTime struct {
	name, mode string
	policy     router.Options
	window     int
	agrees     bool
	want       func(t *testing.T, asked []int, prompt int) time.Duration
}

// knownTimes are the times per answer, by mode:
//
//	local      a pass for every token but the last
//	serial     the same, and a round trip for every token that is asked for
//	pipelined  if every guess is right: the later one of the last pass and the last answer, as nothing waits;
//	           if none is: serial, with the passes rounded up that are in progress when an answer arrives
func knownTimes() []knownTime {
	return []knownTime{
		{"alone", "local", router.Options{}, 0, false,
			func(*testing.T, []int, int) time.Duration { return 31 * knownPace }},
		{"serial always", "serial", router.Options{Policy: router.Always}, 0, false,
			func(t *testing.T, asked []int, _ int) time.Duration {
				assert.Len(t, asked, knownTokens)
				return 31*knownPace + 32*knownTrip
			}},
		{"serial at times", "serial", router.Options{Policy: router.Random, Threshold: new(0.3)}, 0, true,
			func(t *testing.T, asked []int, _ int) time.Duration {
				assert.Greater(t, len(asked), 3)
				assert.Less(t, len(asked), 20)
				return 31*knownPace + time.Duration(len(asked))*knownTrip
			}},
		{"pipelined, guesses hold", "pipelined-1", router.Options{Policy: router.Random, Threshold: new(0.3)}, 64, true,
			func(_ *testing.T, asked []int, prompt int) time.Duration {
				last := 31 * knownPace
				for _, at := range asked {
					last = max(last, time.Duration(at-prompt)*knownPace+knownTrip)
				}
				return last
			}},
		{"pipelined, no guess holds", "pipelined-1", router.Options{Policy: router.Always}, 64, false,
			func(*testing.T, []int, int) time.Duration {
				return 31*knownPace + 31*120*time.Millisecond + knownTrip // nothing is drafted after the last token
			}},
		{"pipelined, no guess holds, little drafted", "pipelined-1", router.Options{Policy: router.Always}, 2, false,
			func(*testing.T, []int, int) time.Duration { return 31*knownPace + 32*knownTrip }},
	}
}

// TestKnownTimes: with a paced edge, a cloud at a known round trip and known answers, the time per answer can be
// computed, and the report agrees within 3%. Models compute in no time.
func TestKnownTimes(t *testing.T) {
	racing.Spare(t)
	for _, c := range knownTimes() {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				edge := tiny(t, nil)
				service, err := edge.Serve(engine.ServeOptions{})
				require.NoError(t, err)
				defer service.Close()
				cloud := &script{Cloud: fixedCloud(77), away: knownTrip} // a token that this model never guesses
				if c.agrees {
					cloud.Cloud = service.Local(1)
				}
				o := Options{
					Edge: edge, Large: edge, Questions: []task.Question{{Text: "who?"}},
					Modes: modes(t, c.mode), Router: c.policy,
					Draft: draft.Options{Deadline: -1, Window: max(c.window, 1), InFlight: 64,
						Warm: -1, Lookup: -1},
					MaxTokens: knownTokens, EdgeTPS: 1 / knownPace.Seconds(), Parallel: 1, Repeat: 2, Direct: cloud,
					Dial: func(context.Context, int) (draft.Cloud, func(), error) { return cloud, func() {}, nil },
				}
				prompt, err := o.Prompt("who?")
				require.NoError(t, err)
				reports := mustMeasure(t, o)
				r := reports[0]
				require.Len(t, r.Samples, 2)
				require.Equal(t, 2*knownTokens, r.Sums.Tokens)
				asked := cloud.asked
				if c.mode == "serial" || c.agrees {
					asked = asked[:len(asked)/2] // of the first repetition; the second asks for the same
				}
				want := float64(c.want(t, asked, len(prompt)).Milliseconds())
				assert.InEpsilon(t, want, r.Time.Mean, 0.03)
				for _, s := range r.Samples {
					assert.InEpsilon(t, want, result.Rounded(s.Took), 0.03)
				}
				assert.InEpsilon(t, want, r.Time.P99, 0.03)
				if c.mode == "local" {
					assert.InEpsilon(t, 20, r.Between.P50, 0.01)
					assert.InEpsilon(t, 31, r.Rates()["passes"], 1e-9)
					return
				}
				if c.mode == "serial" {
					assert.InEpsilon(t, 110*float64(len(asked)), r.Rates()["exposed_ms"], 0.01,
						"serial waits for each answer")
					assert.Zero(t, r.Sums.Hidden)
				}
			})
		})
	}
}

// TestStreamed: a text of the large model alone takes a round trip, and the pace of each token, which includes the time
// to compute it.
func TestStreamed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		edge := tiny(t, nil)
		o := Options{Edge: edge, Large: edge, Questions: []task.Question{{Text: "a"}}, Modes: modes(t, "cloud"),
			MaxTokens: 5, RTT: 30 * time.Millisecond, CloudPace: 40 * time.Millisecond}
		reports := mustMeasure(t, o)
		assert.Equal(t, 230*time.Millisecond, reports[0].Samples[0].Took)
		assert.Equal(t, 70*time.Millisecond, reports[0].Samples[0].FirstToken)
		ended, end := context.WithCancel(t.Context())
		end()
		_, err := Measure(ended, o)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

// TestCellsAndTurns: repetitions, warm-up and variants: the number of asks per question, and the cell of each
// report.
func TestCellsAndTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		edge := tiny(t, func(s *synth.Spec) { s.Layers = 1 })
		cloud := &script{Cloud: fixedCloud(77), away: time.Millisecond}
		dialled, hung := 0, 0
		progress := 0
		o := Options{
			Edge: edge, Large: edge, Questions: []task.Question{{Text: "a"}, {Text: "b"}, {Text: "c"}},
			Modes: modes(t, "local", "serial", "serial"), Router: router.Options{Policy: router.Always},
			Draft: draft.Options{Deadline: -1, Warm: -1}, MaxTokens: 4,
			EdgeTPS: 50, Parallel: 1, Repeat: 3, WarmUp: 2, RTT: 30 * time.Millisecond, Loss: 0.1,
			Traces: []string{"x/a.up", "b.down"}, RowCost: 0.5, CloudPace: 5 * time.Millisecond,
			Dial: func(context.Context, int) (draft.Cloud, func(), error) {
				dialled++
				return cloud, func() { hung++ }, nil
			},
			Progress: func(done, total int) {
				progress++
				assert.Equal(t, progress, done)
				assert.Equal(t, 27, total)
			},
		}
		reports := mustMeasure(t, o)
		assert.Equal(t, 27, progress)
		assert.Equal(t, 2, dialled, "each connection is kept")
		prompt, err := o.Prompt("c")
		require.NoError(t, err)
		assert.Equal(t, prompt, cloud.first,
			"the warm-up uses the last question, so that the first measured one is new")
		assert.Equal(t, dialled, hung)
		assert.Equal(t, 2*4*(2+9), len(cloud.asked),
			"4 tokens of 2 questions to warm up and 9 that count, twice serial")
		require.Len(t, reports, 3)
		for i, r := range reports {
			assert.Equal(t, []string{"local", "serial", "serial"}[i], r.Mode)
			assert.Equal(t, []int{0, 1, 2}[i], r.Variant)
			assert.Equal(t, &outcome.Cell{RTT: 30, Loss: 0.1, Trace: "a.up+b.down", EdgeTPS: 50, RowCost: 0.5,
				ModelMS:  5,
				Parallel: 1}, r.Cell)
			require.Len(t, r.Samples, 9)
			for k, s := range r.Samples {
				assert.Equal(t, k%3, s.Question)
				assert.Equal(t, k/3, s.Repetition)
			}
			assert.InEpsilon(t, 60, []float64{r.Time.Mean, r.Time.Mean - 4, r.Time.Mean - 4}[i], 0.02)
			if i == 0 {
				continue
			}
			assert.Zero(t, *r.Differing)
			assert.Equal(t, 1.0, r.Rates()["escalated_share"])
		}
	})
}

// TestOneQuestion: a question that is repeated finds no cached prompt, because each repetition is a new device.
func TestOneQuestion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		edge := tiny(t, func(s *synth.Spec) { s.Layers = 1 })
		dialled, hung := 0, 0
		o := Options{
			Edge: edge, Large: edge, Questions: []task.Question{{Text: "a"}}, Modes: modes(t, "serial"),
			Repeat: 3, WarmUp: 1, Parallel: 1,
			Router: router.Options{Policy: router.Always}, Draft: draft.Options{Deadline: -1, Warm: -1}, MaxTokens: 2,
			Dial: func(context.Context, int) (draft.Cloud, func(), error) {
				dialled++
				return fixedCloud(77), func() { hung++ }, nil
			},
		}
		reports := mustMeasure(t, o)
		assert.Equal(t, 3, reports[0].Answers)
		assert.Equal(t, 1+3, dialled, "one for the warm-up, and one for each repetition")
		assert.Equal(t, dialled, hung)

		o.Router = router.Options{Policy: router.Margin, Budget: 0.5}
		d := &device{b: &measurement{Options: o}, modes: o.Modes, sessions: make([]*modeSession, 1)}
		require.NoError(t, d.prepareSessions(t.Context(), 0))
		seated := *d.sessions[0]
		for range 2 {
			_, err := d.answerQuestion(t.Context(), 0, 0)
			require.NoError(t, err)
		}
		assert.Same(t, seated.router, d.sessions[0].router, "the balance of a budget goes on")
		assert.NotSame(t, seated.session, d.sessions[0].session)
		d.closeSessions()
	})
}

// TestBoundOfOptions: the verdict that the bound waits for takes a round trip and a token of the large model.
func TestBoundOfOptions(t *testing.T) {
	o := Options{Modes: modes(t, "local", "verified"), RTT: 30 * time.Millisecond, CloudPace: 5 * time.Millisecond}
	one := outcome.Answer{Took: time.Second, Figures: draft.Summary{Tokens: 3, Passes: 3}}
	reports := o.buildReports([][]outcome.Answer{{one}, {one}}, nil)
	assert.InDelta(t, 1035, *reports[1].Bound, 1e-9)
}

// fixedCloud answers every question with the same token.
type fixedCloud int32

func (f fixedCloud) Ask(context.Context, draft.Question) (draft.Answer, error) {
	return draft.Answer{Reply: draft.Reply{Token: int32(f)}}, nil
}
