package stats

import (
	"cmp"
	"math"
	"slices"
)

// Point is one run on a curve of quality against cost.
type Point struct{ X, Y float64 }

// Curve interpolates linearly between points. Points with the same X are one point with the mean of their Y.
type Curve []Point

// NewCurve sorts points. It leaves out those with NaN.
func NewCurve(points []Point) Curve {
	sorted := slices.Clone(points)
	sorted = slices.DeleteFunc(sorted, func(p Point) bool { return math.IsNaN(p.X) || math.IsNaN(p.Y) })
	slices.SortStableFunc(sorted, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	var c Curve
	for i := 0; i < len(sorted); {
		sum, n := 0.0, 0
		for ; i+n < len(sorted) && sorted[i+n].X == sorted[i].X; n++ {
			sum += sorted[i+n].Y
		}
		c = append(c, Point{sorted[i].X, sum / float64(n)})
		i += n
	}
	return c
}

// At returns the Y of the curve at x; NaN outside of its range.
func (c Curve) At(x float64) float64 {
	i, found := slices.BinarySearchFunc(c, x, func(p Point, x float64) int { return cmp.Compare(p.X, x) })
	switch {
	case found:
		return c[i].Y
	case i == 0 || i == len(c):
		return math.NaN()
	}
	a, b := c[i-1], c[i]
	return a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X)
}
