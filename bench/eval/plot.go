package eval

import (
	"fmt"
	"math"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// axes is a drawing of 640 by 400 units.
type axes struct {
	Title string
	Clip  string // name of the clip path
	X, Y  []tick
	Lines []line
	Dots  []dot
}

// The position of the curves in a drawing.
const (
	plotLeft, plotTop     = 56.0, 16.0
	plotWidth, plotHeight = 568.0, 330.0
)

// tick is a label at an axis.
type tick struct {
	At   float64
	Text string
}

// line is a curve of a policy.
type line struct{ Colour, Policy, Points string }

// dot is a run with its interval.
type dot struct {
	Colour, Name string
	X, Y         float64
	Low, High    float64 // of the interval, from top to bottom High ≤ Y ≤ Low
	Oracle       bool
}

// smallShare is the end of the second drawing: about the maximum share that one would pay for.
const smallShare = 0.1

// draw draws the runs of a report twice: over all shares and over the small ones.
func draw(r *Report) []axes {
	low, high := 1.0, 0.0
	for _, run := range r.Runs {
		if y, l, h, ok := run.quality(); ok {
			low, high = min(low, y, l), max(high, y, h)
		}
	}
	if low > high {
		low, high = 0, 1
	}
	low, high = math.Floor(low*10)/10, math.Ceil(high*10)/10
	if high == low {
		high += 0.1
	}
	whole, small := newAxes(r, 1, low, high), newAxes(r, smallShare, low, high)
	whole.Title, whole.Clip = "all shares", "whole"
	small.Title, small.Clip = fmt.Sprintf("shares up to %.0f%%", 100*smallShare), "small"
	return []axes{whole, small}
}

// quality returns the value of a run in the curve, with its interval.
func (r *RunReport) quality() (y, low, high float64, ok bool) {
	switch {
	case r.Accuracy != nil:
		return *r.Accuracy, *r.AccuracyLow, *r.AccuracyHigh, true
	case r.Agreement != nil:
		return r.Agreement.Value, r.Agreement.Low, r.Agreement.High, true
	}
	return 0, 0, 0, false
}

// newAxes makes a drawing of shares from 0 to most, and qualities from low to high.
func newAxes(r *Report, most, low, high float64) axes {
	var a axes
	x := func(share float64) float64 { return plotLeft + plotWidth*share/most }
	y := func(q float64) float64 { return plotTop + plotHeight*(high-q)/(high-low) }
	for i := range 6 {
		share := most * float64(i) / 5
		a.X = append(a.X, tick{x(share), fmt.Sprintf("%.4g%%", 100*share)})
	}
	for i := range int(math.Round((high-low)*10)) + 1 {
		q := low + float64(i)/10
		a.Y = append(a.Y, tick{y(q), fmt.Sprintf("%.0f%%", 100*q)})
	}
	for _, p := range r.Policies {
		a.Lines = append(a.Lines, line{colour(p.Policy), p.Policy, points(r, p.Policy, x, y)})
	}
	for _, run := range r.Runs {
		q, l, h, ok := run.quality()
		if !ok || run.EscalatedShare > most {
			continue
		}
		a.Dots = append(a.Dots, dot{
			Colour: colour(run.Policy), Name: run.Name(), X: x(run.EscalatedShare), Y: y(q), Low: y(l), High: y(h),
			Oracle: run.Policy == Oracle,
		})
	}
	return a
}

// points returns the points of a policy's curve, including the ends that all curves share. The drawing clips points
// outside.
func points(r *Report, policy string, x, y func(float64) float64) string {
	var all []stats.Point
	for _, run := range r.Runs {
		q, _, _, ok := run.quality()
		if p := router.Policy(run.Policy); ok && run.run().plain() &&
			(run.Policy == policy || p == router.Never || p == router.Always) {
			all = append(all, stats.Point{X: run.EscalatedShare, Y: q})
		}
	}
	var b strings.Builder
	for _, p := range stats.NewCurve(all) {
		fmt.Fprintf(&b, "%.1f,%.1f ", x(p.X), y(p.Y))
	}
	return strings.TrimSpace(b.String())
}
