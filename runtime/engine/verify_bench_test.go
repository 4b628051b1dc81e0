//go:build !noasm

package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// served opens the model that PILOTFISH_MODEL names, or else a tiny one, as a service.
func served(b *testing.B) *Service {
	b.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(b, err)
	e := small(b, Options{Threads: 2}, func(s *synth.Spec) { *s = synth.Tiny(recipe, 3) })
	if file := os.Getenv("PILOTFISH_MODEL"); file != "" {
		e, err = Open(file, Options{})
		require.NoError(b, err)
		b.Cleanup(func() { e.Close() })
	}
	s, err := e.Serve(ServeOptions{Apart: true, Lookup: -1, Slots: 16 * e.Context()})
	require.NoError(b, err)
	b.Cleanup(s.Close)
	return s
}

// BenchmarkVerify compares questions with 17 new tokens after 200 that verify the last 16 positions with the same
// questions without verification, in turns, so that load on the machine affects both. It reports the median in
// milliseconds, and the median ratio of all pairs.
func BenchmarkVerify(b *testing.B) {
	const before, news = 200, 17
	s, r := served(b), rand.New(rand.NewPCG(1, 2))
	for _, sampling := range []terms.Sampling{{}, {Temperature: 0.8}, {Temperature: 0.8, TopK: 40}} {
		kinds := []terms.Job{{}, {Question: terms.Question{AuditFrom: before + 1}},
			{Question: terms.Question{AuditFrom: before + 1, Verify: terms.EachChoice}},
			{Question: terms.Question{AuditFrom: before + 1, Verify: terms.EachScore}}}
		b.Run(fmt.Sprintf("temperature %v, top-k %d", sampling.Temperature, sampling.TopK), func(b *testing.B) {
			took := make([][]float64, len(kinds))
			for b.Loop() {
				for i, q := range kinds {
					q.Session, q.K, q.Sampling = uint64(i), 1, sampling
					q.Context = echo(before)
					for range news {
						q.Context = append(q.Context, r.Int32N(256))
					}
					_, err := s.Ask(b.Context(), terms.Job{Session: q.Session,
						Question: terms.Question{Context: q.Context[:before], K: 1}})
					require.NoError(b, err)
					begin := time.Now()
					_, err = s.Ask(b.Context(), q)
					require.NoError(b, err)
					took[i] = append(took[i], float64(time.Since(begin))/1e6)
				}
			}
			b.ReportMetric(0, "ns/op")
			ratios := make([][]float64, len(kinds))
			for i := range kinds {
				for n := range took[i] {
					ratios[i] = append(ratios[i], took[i][n]/took[0][n])
				}
			}
			for i, name := range []string{"nothing", "audit", "choices", "scores"} {
				b.ReportMetric(middle(took[i]), name+"-ms")
				b.ReportMetric(middle(ratios[i]), name+"-ratio")
			}
		})
	}
}

// BenchmarkBesideAhead asks for a token of a text of 200 at random times, while another device has tokens decoded
// ahead, and while it has not. It reports how long the questions waited for their first step, and how long the step
// took.
func BenchmarkBesideAhead(b *testing.B) {
	s, r := served(b), rand.New(rand.NewPCG(3, 4))
	for _, ahead := range []int{0, 64} {
		b.Run(fmt.Sprint("ahead ", ahead), func(b *testing.B) {
			var queue, compute []float64
			_, err := s.Local(1).Ask(b.Context(), draft.Question{Context: echo(100)})
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(b.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				for n := int32(0); ahead > 0 && ctx.Err() == nil; n++ {
					a, err := s.Local(1).Ask(ctx, draft.Question{Context: append(echo(100), n), Ahead: ahead})
					if err == nil {
						all(a.Ahead)
					}
				}
			}()
			text := echo(200)
			for b.Loop() {
				time.Sleep(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
				text = append(text, r.Int32N(256))
				a, err := s.Ask(b.Context(), terms.Job{Session: 2, Device: 2,
					Question: terms.Question{Context: text, K: 1}})
				require.NoError(b, err)
				queue, compute = append(queue, float64(a.Queue)/1e6), append(compute, float64(a.Compute)/1e6)
			}
			cancel()
			<-over
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(middle(queue), "queue-ms")
			b.ReportMetric(queue[len(queue)*9/10], "queue-p90-ms")
			b.ReportMetric(queue[len(queue)-1], "queue-max-ms")
			b.ReportMetric(middle(compute), "compute-ms")
			b.ReportMetric(float64(s.Stats().Ahead), "tokens-ahead")
		})
	}
}
