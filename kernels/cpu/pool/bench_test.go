package pool

import (
	"fmt"
	"testing"
)

// BenchmarkRun measures the cost of a loop that does nothing.
func BenchmarkRun(b *testing.B) {
	for _, pass := range []bool{true, false} {
		b.Run(fmt.Sprintf("pass=%v", pass), func(b *testing.B) {
			p := New(2)
			defer p.Close()
			if pass {
				p.Begin()
				defer p.End()
			}
			f := func(_, _, _ int) {}
			b.ReportAllocs()
			for b.Loop() {
				p.Run(2, 1, f)
			}
		})
	}
}
