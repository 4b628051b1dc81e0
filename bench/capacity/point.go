package capacity

import (
	"math"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// Point is the measured or simulated result for a number of devices. Times are those of whole answers: from sending the
// prompt until the last token is on the device, including its own computing and all round trips. Rates are those within
// the window.
type Point struct {
	Devices  int     `json:"devices"`  // of all gateways
	Gateways int     `json:"gateways"` //
	Answers  int     `json:"answers"`  // in the percentiles
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	P99      float64 `json:"p99_ms"`
	// 95% confidence interval of the 95th percentile, if answers are independent
	P95Low  float64 `json:"p95_low_ms"`
	P95High float64 `json:"p95_high_ms"`
	// share of the time in which passes ran, of all gateways; absent for real devices
	Utilisation float64 `json:"utilisation,omitempty"`
	PerSecond   float64 `json:"answers_per_second"`
	TokensTPS   float64 `json:"answer_tokens_per_second"`
	AsksPS      float64 `json:"asks_per_second"`         // prompts in the mode cloud
	RowsPerPass float64 `json:"rows_per_pass,omitempty"` // absent for real devices
	// maximum size of the KV cache, of all gateways: answers under way, each with its prompt and its answer
	KVTokens int `json:"kv_tokens_max"`
	// for real devices: payload of asks and of their answers, each way; absent in the mode cloud
	BytesUp   float64 `json:"bytes_up_per_answer,omitempty"`
	BytesDown float64 `json:"bytes_down_per_answer,omitempty"`
}

// within reports whether there are answers, and the 95th percentile of their times is at most bound milliseconds.
func (p *Point) within(bound float64) bool { return p.Answers > 0 && p.P95 <= bound }

// tally counts events within a window.
type tally struct {
	window  Window
	took    []time.Duration // of answers that count
	busy    time.Duration
	passes  int
	rows    int
	asks    int
	answers int // completed within the window
	maxOpen int
}

// add adds the tally of another gateway.
func (t *tally) add(o *tally) {
	t.took = append(t.took, o.took...)
	t.busy += o.busy
	t.passes += o.passes
	t.rows += o.rows
	t.asks += o.asks
	t.answers += o.answers
	t.maxOpen += o.maxOpen
}

// point computes the point of a tally, without the numbers of devices and gateways.
func (t *tally) point(w *Workload) Point {
	slices.Sort(t.took)
	seconds := (t.window.End - t.window.Warm).Seconds()
	n := len(t.took)
	p := Point{
		Answers: n, P50: t.at(0.5), P95: t.at(0.95), P99: t.at(0.99),
		Utilisation: t.busy.Seconds() / seconds, PerSecond: float64(t.answers) / seconds,
		TokensTPS: float64(t.answers*w.Tokens) / seconds, AsksPS: float64(t.asks) / seconds,
		KVTokens: t.maxOpen * (w.Prompt + w.Tokens),
	}
	if n > 0 {
		apart := 1.96 * math.Sqrt(0.95*0.05/float64(n)) // as a share of the ranks
		p.P95Low, p.P95High = t.at(0.95-apart), t.at(min(0.95+apart, 1))
	}
	if t.passes > 0 {
		p.RowsPerPass = float64(t.rows) / float64(t.passes)
	}
	return p
}

// at returns the shortest time that a share of the answers does not exceed, in milliseconds; 0 if there are none. The
// times must be sorted.
func (t *tally) at(share float64) float64 {
	n := len(t.took)
	if n == 0 {
		return 0
	}
	rank := int(math.Ceil(share*float64(n) - 1e-9))
	return result.Milliseconds(t.took[min(max(rank, 1), n)-1])
}
