package timeline

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// BenchmarkDecode measures how much longer 60 tokens take when they are drawn, with the demo's small model alone on one
// thread at full speed. Its forward calls are among the shortest of all models. The answers take turns, so that other
// load on the machine affects both variants. The tenth percentile counts, because slower answers were disturbed.
func BenchmarkDecode(b *testing.B) {
	f, err := gguf.Parse(demo.Small())
	require.NoError(b, err)
	e, err := engine.New(f, "small", engine.Options{Threads: 1})
	require.NoError(b, err)
	defer e.Close()
	s, err := e.NewSession()
	require.NoError(b, err)
	answer := func(l *Timeline) {
		r := engine.Route{Settings: terms.Settings{MaxTokens: 60, IgnoreEnd: true, Lookup: -1}}
		t := l.Begin("")
		t.Watch(&r)
		defer t.End()
		for _, err := range s.Routed(b.Context(), []int32{1, 2, 3, 4}, r) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	var alone, drawn []time.Duration
	for b.Loop() {
		begin := time.Now()
		answer(nil)
		between := time.Now()
		answer(new(Timeline))
		alone, drawn = append(alone, between.Sub(begin)), append(drawn, time.Since(between))
	}
	slices.Sort(alone)
	slices.Sort(drawn)
	a, d := alone[len(alone)/10], drawn[len(drawn)/10]
	b.ReportMetric(float64(a.Microseconds())/60, "µs/token")
	b.ReportMetric(100*(d.Seconds()/a.Seconds()-1), "%-more")
}

// BenchmarkRecord measures recording one forward call of a model with 24 layers, with its operations and its token.
func BenchmarkRecord(b *testing.B) {
	o := backend.Op{Kind: backend.OpAttend}
	e := draft.Event{Pass: &draft.Pass{Rows: 1}}
	token := draft.Event{Token: &draft.Token{}}
	b.ReportAllocs()
	for b.Loop() {
		t := new(Timeline).Begin("")
		for range 60 {
			for range 2 + 5*24 {
				t.addOperation(o)
			}
			t.Observe(e)
			t.Observe(token)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/60, "ns/call")
}
