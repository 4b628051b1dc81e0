//go:build !noasm

package engine

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// BenchmarkLookup compares texts with and without guesses in turns, so that load on the machine affects both: the
// figure is the median speedup of all pairs. PILOTFISH_MODEL names the model. Greedy decoding with random weights falls
// into loops, and sampling at temperature 1 from a large vocabulary does not repeat.
func BenchmarkLookup(b *testing.B) {
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(b, err)
	e := small(b, Options{Threads: 2}, func(s *synth.Spec) { *s = synth.Tiny(recipe, 3) })
	if file := os.Getenv("PILOTFISH_MODEL"); file != "" {
		e, err = Open(file, Options{})
		require.NoError(b, err)
		defer e.Close()
	}
	for _, temperature := range []float64{0, 1} {
		b.Run(fmt.Sprintf("temperature %v", temperature), func(b *testing.B) {
			s := session(b, e)
			var ratios, passes, off, auto []float64
			tps := func(seed uint64, rows int) float64 {
				r := terms.Settings{
					MaxTokens: 64, IgnoreEnd: true, Lookup: rows,
					Temperature: temperature, Seed: seed,
				}
				for _, err := range s.Generate(b.Context(), echo(60), r) {
					require.NoError(b, err)
				}
				return 63 / s.Summary().DecodeTime.Seconds()
			}
			seed := uint64(0)
			for b.Loop() {
				seed++
				first, second := -1, 0
				if seed%2 == 0 {
					first, second = second, first
				}
				one := map[int]float64{}
				for _, rows := range []int{first, second} {
					one[rows] = tps(seed, rows)
					if rows == 0 {
						passes = append(passes, s.Summary().PassesPerToken())
					}
				}
				ratios, off, auto = append(ratios, one[0]/one[-1]), append(off, one[-1]), append(auto, one[0])
			}
			b.ReportMetric(middle(ratios), "times-as-fast")
			b.ReportMetric(middle(passes), "passes/token")
			b.ReportMetric(middle(off), "tokens/s-off")
			b.ReportMetric(middle(auto), "tokens/s-auto")
		})
	}
}

// middle returns the median.
func middle[T cmp.Ordered](x []T) T {
	slices.Sort(x)
	return x[len(x)/2]
}
