package result

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Times sums up durations, in milliseconds. Percentiles are read from a histogram (HdrHistogram, three digits): the
// least recorded time that so many percent of the durations do not exceed, to 0.1%.
type Times struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// longest is the longest time that a histogram tells from longer ones.
const longest = 24 * time.Hour

// NewHistogram returns an empty histogram of durations in nanoseconds, from 1 µs to a day, with three digits.
// Histograms of parts of a measurement are merged before percentiles are read: there is no average of percentiles.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(longest), 3)
}

// Summarise sums up durations; all zero where there are none.
func Summarise(all []time.Duration) Times {
	if len(all) == 0 {
		return Times{}
	}
	h, sum := NewHistogram(), time.Duration(0)
	for _, d := range all {
		_ = h.RecordValue(int64(min(max(d, 0), longest))) // within its range
		sum += d
	}
	at := func(percent float64) float64 { return Milliseconds(time.Duration(h.ValueAtQuantile(percent))) }
	return Times{Mean: Milliseconds(sum) / float64(len(all)), P50: at(50), P90: at(90), P99: at(99)}
}

// Milliseconds of a duration, with all its digits.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
