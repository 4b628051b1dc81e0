package train

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	positions = flag.Int("positions", 50_000, "positions of the traces that BenchmarkTrain learns from")
	epochs    = flag.Int("epochs", 2, "epochs of BenchmarkTrain")
)

// BenchmarkTrain trains on traces of width 896 with 64 hidden units, with both kinds of features, from mapped files in
// the page cache. It reports seconds per epoch, multiplications by weights per second, and the anonymous memory of the
// process at the end. The first epoch includes mean and deviation.
func BenchmarkTrain(b *testing.B) {
	const width, each = 896, 100
	s := settings(*positions/each, width)
	src, err := NewTraces([]Folder{{"traces", store(b, s, each, 1)}}, "disagreement")
	require.NoError(b, err)
	for _, threads := range []int{1, 2} {
		b.Run(strconv.Itoa(threads)+" threads", func(b *testing.B) {
			for b.Loop() {
				_, err := Train(b.Context(), src, Options{Epochs: *epochs, Threads: threads, Observe: func(e Epoch) {
					b.Logf("epoch %d after %.1f s: loss %.4f", e.Number, b.Elapsed().Seconds(), e.Loss)
				}})
				require.NoError(b, err)
			}
			each := b.Elapsed() / time.Duration(b.N**epochs)
			b.ReportMetric(each.Seconds(), "s/epoch")
			b.ReportMetric(2*float64(src.Len())*width*64/float64(each.Nanoseconds()), "GMAC/s")
			b.ReportMetric(anonymous(b), "MB")
		})
	}
}

// anonymous returns the anonymous memory in use, in MB; 0 if the system does not report it.
func anonymous(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "RssAnon:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			require.NoError(b, err)
			return kb / 1000
		}
	}
	return 0
}
