package chart

import (
	"fmt"
	"math"
	"strings"
)

// Axis is an axis from 0 to End, or a little beyond.
type Axis struct {
	Label  string  // quantity, with its unit
	Linear bool    // numbers; else shares, shown in percent
	End    float64 // 0 means 1
}

// Limits of an axis: the approximate number of its intervals, and its end.
const (
	ticksWanted = 5
	maxShown    = 1e15
)

func (a Axis) endValue() float64 {
	if !(a.End > 1e-12) { // also NaN
		return 1
	}
	return min(a.End, maxShown)
}

// tickValues returns the labelled values: multiples of 1, 2, 5 times a power of ten. The last one is the end of the
// drawn axis.
func (a Axis) tickValues() (all []float64) {
	least := a.endValue() / ticksWanted
	power := math.Pow(10, math.Floor(math.Log10(least)))
	step := 10 * power
	for _, m := range []float64{5, 2, 1} {
		if m*power >= least*(1-1e-9) {
			step = m * power
		}
	}
	for i := range int(math.Ceil(a.endValue()/step-1e-9)) + 1 {
		all = append(all, float64(i)*step)
	}
	return all
}

// relativePosition returns the position of x on the axis, from 0 to 1. Values beyond an end are at this end.
func (a Axis) relativePosition(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	all := a.tickValues()
	return min(max(x/all[len(all)-1], 0), 1)
}

func (a Axis) formatValue(x float64) string {
	if !a.Linear {
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
		return formatDecimals(x, 2-int(math.Log10(max(x, 1))))
	}
	digits := fmt.Sprintf("%.0f", x)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// formatDecimals formats x, 0 or more, with at most the given number of decimals, without trailing zeros.
func formatDecimals(x float64, digits int) string {
	text := fmt.Sprintf("%.*f", digits, x)
	if x < 1 {
		text = fmt.Sprintf("%.3f", x)
	}
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
