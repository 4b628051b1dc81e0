package result

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Times summarizes durations, in milliseconds. Percentiles are from a histogram (HdrHistogram, three digits): the
// shortest recorded time that this percentage of the durations does not exceed, to 0.1%.
type Times struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// longest is the upper limit of a histogram.
const longest = 24 * time.Hour

// NewHistogram returns an empty histogram of durations in nanoseconds, from 1 µs to a day, with three digits. To get
// percentiles of several parts of a measurement, merge their histograms: percentiles cannot be averaged.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(longest), 3)
}

// Add records a duration in a histogram: one out of range as the nearest value in range.
func Add(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 0), h.HighestTrackableValue())) // never fails within the range
}

func percentileMS(h *hdrhistogram.Histogram, percent float64) float64 {
	return Milliseconds(time.Duration(h.ValueAtQuantile(percent)))
}

// TimesOf summarizes a histogram; all zero if it is empty.
func TimesOf(h *hdrhistogram.Histogram) Times {
	if h.TotalCount() == 0 {
		return Times{}
	}
	return Times{h.Mean() / float64(time.Millisecond), percentileMS(h, 50), percentileMS(h, 90), percentileMS(h, 99),
		percentileMS(h, 99.9), Milliseconds(time.Duration(h.Max()))}
}

// Summarise summarizes durations, or nanoseconds, with their exact mean; all zero if there are none.
func Summarise[T ~int64](all []T) Times {
	h, sum := NewHistogram(), T(0)
	for _, d := range all {
		Add(h, time.Duration(d))
		sum += d
	}
	t := TimesOf(h)
	t.Mean = Milliseconds(time.Duration(sum)) / float64(max(len(all), 1))
	return t
}

// Milliseconds converts a duration, without rounding.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Rounded converts a duration to milliseconds, rounded to a microsecond.
func Rounded(d time.Duration) float64 { return Milliseconds(d.Round(time.Microsecond)) }
