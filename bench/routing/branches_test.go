package routing

import (
	"context"
	"flag"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/internal/stat"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

var branchQuestions = flag.Int("branch-questions", 40, "questions of the matrix of branches")

// branchCells makes TestBranchesByPrice test every cell of the matrix, as `make branches` does.
var branchCells = flag.Bool("branch-cells", false, "all cells of the matrix of branches, not every other one")

// distant is a cloud with a round trip.
type distant struct {
	draft.Cloud
	away time.Duration
}

func (d distant) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	select {
	case <-time.After(d.away):
		return d.Cloud.Ask(ctx, q)
	case <-ctx.Done():
		return draft.Answer{}, ctx.Err()
	}
}

// lab measures branches in virtual time. Models compute in no time; only the pace and the round trip count, so that the
// results do not depend on the load of the machine.
type lab struct {
	edge, large *engine.Engine
	prompts     [][]int32
}

// demoLab returns a lab with the demo's pair.
func demoLab(t *testing.T, n int) (l lab) {
	open := func(b []byte) *engine.Engine {
		f, err := gguf.Parse(b)
		require.NoError(t, err)
		e, err := engine.New(f, "demo", engine.Options{Threads: 1})
		require.NoError(t, err)
		return e
	}
	l.edge, l.large = open(demo.Small()), open(demo.Large())
	for _, q := range demo.Questions(demo.HeldOut)[:n] {
		prompt, err := l.edge.Chat(tokenizer.Message{Role: "user", Content: q.Text})
		require.NoError(t, err)
		l.prompts = append(l.prompts, prompt)
	}
	return l
}

// storyLab returns a lab with the pair that writes stories.
func storyLab(t *testing.T, n int) (l lab) {
	open := func(name string) *engine.Engine {
		e, err := engine.Open(sharedtest.Shared(t, "data", "models", name), engine.Options{Threads: 1})
		require.NoError(t, err)
		return e
	}
	l.edge, l.large = open("stories-weak-qwen2-f32.gguf"), open("stories260k-qwen2-f32.gguf")
	starts := []string{" Once upon a time", " One day", " There was a", " Tom", " Lily", " The", " A big", " In the"}
	for i := range n {
		next := []string{"", " little", " and", " was", " very"}[i/len(starts)%5]
		prompt, err := l.edge.RawPrompt(starts[i%len(starts)] + next)
		require.NoError(t, err)
		l.prompts = append(l.prompts, prompt)
	}
	return l
}

// took returns the time of each answer with a number of branches, in milliseconds.
func (l lab) took(t *testing.T, branches int, rtt time.Duration, row float64) (all []float64) {
	service, err := l.large.Serve(engine.ServeOptions{})
	require.NoError(t, err)
	defer service.Close()
	s, err := l.edge.NewSession()
	require.NoError(t, err)
	for i, prompt := range l.prompts {
		r, err := router.New(router.Options{Policy: router.Margin})
		require.NoError(t, err)
		begin := time.Now()
		for _, err := range s.Routed(t.Context(), prompt, engine.Route{
			Settings: terms.Settings{MaxTokens: 64}, Router: r, Pace: 60, RowCost: row,
			Cloud: distant{service.Local(uint64(i)), rtt + 40*time.Millisecond},
			Draft: draft.Options{Branches: branches, Deadline: -1, Lookup: -1},
		}) {
			require.NoError(t, err)
		}
		all = append(all, time.Since(begin).Seconds()*1000)
	}
	return all
}

// TestBranchesByPrice: on a device with 60 calls per second, for any cost of a row and any round trip, choosing the
// number of branches by price is as fast as the best fixed number, within 2%; within 4% if most tokens are escalated.
func TestBranchesByPrice(t *testing.T) {
	if testing.Short() {
		t.Skip("a matrix of links: make long")
	}
	rtts := []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
		300 * time.Millisecond}
	rows := []float64{0, 0.1, 0.3, 1}
	for name, newLab := range map[string]func(*testing.T, int) lab{"demo": demoLab, "stories": storyLab} {
		t.Run(name, func(t *testing.T) {
			questions, bound := *branchQuestions, 0.02
			if name == "stories" { // stories are longer and escalate most tokens
				questions, bound = questions/4, 0.04
			}
			t.Log("row cost   rtt      1      2      4      8   auto  over the best, and 95% of the paired differences")
			for r, row := range rows {
				for c, rtt := range rtts {
					// one of each row and column; of those the demo takes every other one, and the stories the rest
					if ((r+c)%4 > 0 || (r%2 > 0) == (name == "demo")) && !*branchCells {
						continue
					}
					bubble.Test(t, func(t *testing.T) {
						l := newLab(t, questions)
						defer l.edge.Close()
						defer l.large.Close()
						var best []float64
						var means []float64
						for _, n := range []int{1, 2, 4, 8} {
							took := l.took(t, n, rtt, row)
							means = append(means, stat.Mean(took))
							if best == nil || stat.Mean(took) < stat.Mean(best) {
								best = took
							}
						}
						auto := l.took(t, draft.AutoBranches, rtt, row)
						less := make([]float64, len(auto))
						for i := range auto {
							less[i] = auto[i] - best[i]
						}
						over, spread := meanDeviation(less)
						mean := stat.Mean(best)
						t.Logf("%8.2f %5v %6.0f %6.0f %6.0f %6.0f %6.0f %+6.1f%% ±%.1f%%", row, rtt, means[0],
							means[1], means[2], means[3], stat.Mean(auto), 100*over/mean,
							196*spread/math.Sqrt(float64(len(less)))/mean)
						assert.LessOrEqual(t, over, bound*mean)
					})
				}
			}
		})
	}
}

// TestRouteOfMode: an answer is decoded at the given pace and price of rows.
func TestRouteOfMode(t *testing.T) {
	b := &measurement{Options: Options{MaxTokens: 9, EdgeTPS: 50, RowCost: 0.3,
		Draft: draft.Options{Window: 5}}}
	m := modes(t, "pipelined-3")[0]
	r := b.newRoute(m, nil, new(outcome.Answer))
	r.Observe = nil
	assert.Equal(t, engine.Route{
		Settings: terms.Settings{MaxTokens: 9}, Pace: 50, RowCost: 0.3, Draft: m.Draft(draft.Options{Window: 5}),
	}, r)
}

// TestOrder: over 2n rounds each mode is equally often at each place, and equally often directly after each other mode.
func TestOrder(t *testing.T) {
	for n := 1; n <= 12; n++ {
		places, after := map[[2]int]int{}, map[[2]int]int{}
		for round := range 2 * n {
			all := modeOrder(round, n)
			sorted := slices.Sorted(slices.Values(all))
			for i, m := range all {
				require.Equal(t, i, sorted[i], "each once")
				places[[2]int{i, m}]++
				if i > 0 {
					after[[2]int{all[i-1], m}]++
				}
			}
		}
		for i := range n {
			for m := range n {
				assert.Equal(t, 2, places[[2]int{i, m}], "%d modes: %d at %d", n, m, i)
				if i != m {
					assert.Equal(t, 2, after[[2]int{i, m}], "%d modes: %d after %d", n, m, i)
				}
			}
		}
	}
}

// warming is a cloud that is sent text early, in 5 ms.
type warming struct{ draft.Cloud }

func (warming) Warm(context.Context, []int32) (up, down int, err error) {
	time.Sleep(5 * time.Millisecond)
	return 1, 1, nil
}

// TestWhatWasWarmed: the prompt is sent early, in vain if no token is escalated. An answer does not wait for a prompt
// that is sent in vain, so the time is virtual: the prompt arrives before the second token.
func TestWhatWasWarmed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := Options{
			Edge: tiny(t, nil), Large: tiny(t, nil), Questions: []task.Question{{Text: "who?"}, {Text: "why?"}},
			Modes: modes(t, "serial"), Draft: draft.Options{Deadline: -1}, MaxTokens: 6, EdgeTPS: 50, Parallel: 1,
			Dial: func(context.Context, int) (draft.Cloud, func(), error) {
				return warming{fixedCloud(77)}, func() {}, nil
			},
		}
		prompts := 0
		for _, q := range o.Questions {
			prompt, err := o.Prompt(q.Text)
			require.NoError(t, err)
			prompts += len(prompt)
		}
		measure := func(r router.Options) outcome.Report {
			o.Router = r
			reports := mustMeasure(t, o)
			return reports[0]
		}
		always := measure(router.Options{Policy: router.Always})
		assert.Equal(t, prompts, always.Sums.Warmed)
		hardly := measure(router.Options{Policy: router.Random, Threshold: new(1e-12)})
		assert.Equal(t, prompts, hardly.Sums.Warmed)
		never := measure(router.Options{Policy: router.Never})
		assert.Zero(t, never.Sums.Warmed)
		for i := range 2 {
			assert.Positive(t, hardly.Samples[i].Passes)
		}
	})
}

// meanDeviation returns the mean of x, and the standard deviation of the population that x is a sample of.
func meanDeviation(x []float64) (mean, deviation float64) {
	mean = stat.Mean(x)
	squares := 0.0
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(squares / float64(max(len(x)-1, 1)))
}
