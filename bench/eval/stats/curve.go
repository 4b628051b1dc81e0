package stats

import (
	"cmp"
	"math"
	"slices"
)

// Point is one run on a curve of quality against cost.
type Point struct{ X, Y float64 }

// Curve goes through points in straight lines. Points of the same X are one point with the mean of their Y.
type Curve []Point

// NewCurve puts points in order. Those that are not numbers are left out.
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

// Frontier is the most that a curve's points give for so much X or less: without those that another one beats for no
// more X. A line between two of the rest is what taking turns between them gives.
func (c Curve) Frontier() (best Curve) {
	for _, p := range c {
		if len(best) == 0 || p.Y > best[len(best)-1].Y {
			best = append(best, p)
		}
	}
	if last := len(c) - 1; last >= 0 && best[len(best)-1].X < c[last].X {
		best = append(best, Point{c[last].X, best[len(best)-1].Y}) // for more X there is no less
	}
	return best
}

// At is the Y of the curve at x; not a number where no line of it goes.
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

// Area is the mean of Y over low to high: the area below the curve there, by the width. It is not a number where the
// curve does not reach so far, and the Y at low where that equals high.
func (c Curve) Area(low, high float64) float64 {
	first, last := c.At(low), c.At(high)
	if math.IsNaN(first) || math.IsNaN(last) || low == high {
		return first + (last - first)
	}
	area, before := 0.0, Point{low, first}
	for _, p := range append(slices.DeleteFunc(slices.Clone(c),
		func(p Point) bool { return p.X <= low || p.X >= high }), Point{high, last}) {
		area += (p.X - before.X) * (p.Y + before.Y) / 2
		before = p
	}
	return area / (high - low)
}
