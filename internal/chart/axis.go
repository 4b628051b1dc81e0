package chart

import (
	"fmt"
	"math"
	"strings"
)

// Scale is the scale of an axis.
type Scale int

// The scales.
const (
	Percent Scale = iota // shares, shown in percent, from Start to End
	Linear               // numbers, from Start to End or a little beyond
	Log                  // numbers above 0, on a logarithmic scale, from Start to End or a little beyond
)

// Axis is an axis of a chart.
type Axis struct {
	Label string // quantity, with its unit
	Scale Scale
	Start float64 // above 0 with [Log]; there 0 means a thousandth of End
	End   float64 // above Start; 0 means 1
}

// ticksWanted is the approximate number of intervals of an axis.
const ticksWanted = 5

// Limits for the ends of an axis, and how far below its end a logarithmic one may start.
const (
	maxShown   = 1e15
	maxDecades = 9
)

// fitted returns the axis with ends that can be drawn.
func (a Axis) fitted() Axis {
	if a.End == 0 || math.IsNaN(a.End) {
		a.End = 1
	}
	a.End = min(max(a.End, -maxShown), maxShown)
	if a.Start = max(a.Start, -maxShown); math.IsNaN(a.Start) || a.End-a.Start < 1e-12*max(math.Abs(a.End), 1e-12) {
		a.Start = min(0, a.End-1)
	}
	switch a.Scale {
	case Linear:
		step := niceStep((a.End - a.Start) / ticksWanted)
		a.Start, a.End = math.Floor(a.Start/step+1e-9)*step, math.Ceil(a.End/step-1e-9)*step
	case Log:
		if a.End <= 1e-12 {
			a.End = 1
		}
		if a.Start <= 0 {
			a.Start = a.End / 1000
		}
		a.Start = max(a.Start, a.End*math.Pow(10, -maxDecades))
	}
	return a
}

// niceStep returns the minimum of 1, 2, 5 times a power of ten that is at least x.
func niceStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// part returns the position of x on a fitted axis, from 0 to 1.
func (a Axis) part(x float64) float64 {
	from, to := a.Start, a.End
	if a.Scale == Log {
		if !(x > 0) {
			return 0
		}
		from, to, x = math.Log(from), math.Log(to), math.Log(x)
	}
	if math.IsNaN(x) {
		return 0
	}
	return min(max((x-from)/(to-from), 0), 1)
}

// ticks returns the labelled values of a fitted axis with room for at most room labels.
func (a Axis) ticks(room float64) (all []float64) {
	switch a.Scale {
	case Log:
		decades := math.Log10(a.End / a.Start)
		steps := []float64{1, 2, 5}
		if decades*3 > room {
			steps = steps[:1]
		}
		for power := math.Floor(math.Log10(a.Start)); power <= math.Log10(a.End)+1e-9; power++ {
			for _, m := range steps {
				if t := m * math.Pow(10, power); t >= a.Start*(1-1e-9) && t <= a.End*(1+1e-9) {
					all = append(all, t)
				}
			}
		}
	case Linear:
		step := niceStep((a.End - a.Start) / ticksWanted)
		if (a.End-a.Start)/step > room {
			step = niceStep(2 * step)
		}
		first := math.Ceil(a.Start/step - 1e-9) // labels are multiples of their distance
		for i := 0.0; (first+i)*step <= a.End+step*1e-9; i++ {
			all = append(all, (first+i)*step)
		}
	default:
		for i := range ticksWanted + 1 {
			all = append(all, a.Start+float64(i)/ticksWanted*(a.End-a.Start))
		}
	}
	return all
}

// text formats a value of the axis.
func (a Axis) text(x float64) string {
	if a.Scale == Percent {
		return fmt.Sprintf("%.4g%%", 100*x)
	}
	return Number(x)
}

// Number formats x with three digits, or more if there are more before the decimal point, and commas between thousands.
func Number(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "–"
	case x < 0:
		return "−" + Number(-x)
	case x >= 1e9 || x > 0 && x < 1e-3:
		return fmt.Sprintf("%.3g", x)
	case x < 99.95:
		return trimmed(x, 2-int(math.Log10(max(x, 1))))
	}
	digits := fmt.Sprintf("%.0f", x)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// trimmed formats x, 0 or more, with at most the given number of decimals, without trailing zeros.
func trimmed(x float64, digits int) string {
	text := fmt.Sprintf("%.*f", digits, x)
	if x < 1 {
		text = fmt.Sprintf("%.3f", x)
	}
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
