package capacity

import (
	"math"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// Point is the result for a mode and a number of devices. Times are those of whole answers: from sending the prompt
// until the last token is on the device, including its own computing and all round trips.
type Point struct {
	Mode      Mode    `json:"mode"`
	Devices   int     `json:"devices"`
	Answers   int     `json:"answers"` // in the percentiles
	P50       float64 `json:"p50_ms"`
	P95       float64 `json:"p95_ms"`
	P99       float64 `json:"p99_ms"`
	PerSecond float64 `json:"answers_per_second"` // begun per second, of all devices
	TokensTPS float64 `json:"answer_tokens_per_second"`
	// payload of asks and of their answers, each way; absent in the mode cloud
	BytesUp   float64 `json:"bytes_up_per_answer,omitempty"`
	BytesDown float64 `json:"bytes_down_per_answer,omitempty"`
}

// answerTimes are the times of answers.
type answerTimes []time.Duration

// newPoint returns the point of answers that began within a time, without devices and bytes. It sorts the times.
func (t answerTimes) newPoint(w *Workload, mode Mode, within time.Duration) Point {
	slices.Sort(t)
	n := float64(len(t))
	rate := n / within.Seconds()
	return Point{
		Mode: mode, Answers: len(t),
		P50: t.percentileMS(0.5), P95: t.percentileMS(0.95), P99: t.percentileMS(0.99),
		PerSecond: rate, TokensTPS: rate * float64(w.Tokens),
	}
}

// percentileMS returns the shortest time that a share of the answers does not exceed, in milliseconds. The times must
// be sorted.
func (t answerTimes) percentileMS(share float64) float64 {
	rank := int(math.Ceil(share*float64(len(t)) - 1e-9))
	return result.Milliseconds(t[min(max(rank, 1), len(t))-1])
}
