// Package stats has the statistics for comparing runs on the same questions. Random draws use a seed: the same numbers
// give the same intervals.
package stats

import (
	"encoding/json"
	"math"
)

// Interval is an estimate between two bounds at [Confidence].
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Accuracy is the share of right answers with Wilson's interval at 95%. As an embedded field it has three names of the
// record that other programs read.
type Accuracy struct {
	Value float64 `json:"accuracy"`
	Low   float64 `json:"accuracy_low"`
	High  float64 `json:"accuracy_high"`
}

// NewAccuracy returns the accuracy of right answers among all.
func NewAccuracy(right, all int) *Accuracy { return new(Accuracy(Wilson(right, all))) }

// MarshalJSON writes null for NaN.
func (i Interval) MarshalJSON() ([]byte, error) {
	if math.IsNaN(i.Value) || math.IsNaN(i.Low) || math.IsNaN(i.High) {
		return []byte("null"), nil
	}
	type plain Interval
	return json.Marshal(plain(i))
}

// Confidence of all intervals, two-sided.
const Confidence = 0.95
