package lookup

import (
	"math"
	"slices"
)

const (
	// rowCost is the assumed cost of another row before any is measured, in calls of one row.
	rowCost = 0.1
	// maxTimes is the maximum number of times to keep for each number of rows.
	maxTimes = 9
	// stale is the number of calls after which the weight of a time begins to fall, by half in another stale calls: the
	// machine, the text and its context have changed.
	stale = 256
	// forgotten is the weight below which a time no longer counts.
	forgotten = 1. / 16
)

// Cost estimates the time of a forward call by its number of rows. The zero value assumes a tenth of a call for each
// row after the first.
//
// On a shared machine, times have outliers, and these are only too long, because other programs run at the same time.
// So the estimate is the median of the last few times. An estimate from other numbers of rows counts as one of them,
// and a row is never estimated to cost more than a separate call. So one bad time changes little. Old times gradually
// lose their weight to the assumption, so that rows that were costly are tried again, first where guesses are accepted
// most often. So a bad start cannot switch guessing off for good. Neither can a good start keep it on when rows become
// costly: calls without guesses are timed now and then, and the number of rows at most doubles each time, see
// [Cost.Reach].
type Cost struct {
	calls int
	rows  []rowTimes // by number of rows; nothing at 0
}

// rowTimes are the times of the last calls with one number of rows.
type rowTimes struct {
	took   [maxTimes]float64 // the oldest first
	call   [maxTimes]int     // when that was
	n      int
	sorted [maxTimes]float64
	last   int // the last call with these rows, even if it was not timed
}

// Learn records the time of a forward call with the given number of rows, in any constant unit. A time of zero or less,
// from a clock that stands still, is ignored.
func (c *Cost) Learn(rows int, took float64) {
	if rows < 1 {
		return
	}
	for len(c.rows) <= rows {
		c.rows = append(c.rows, rowTimes{})
	}
	c.calls++
	c.rows[rows].last = c.calls
	if took > 0 {
		c.rows[rows].addTime(took, c.calls)
	}
}

// Reach returns the maximum number of rows of a call that evaluates the given number of rows anyway. It is that number
// as long as there is no such call to compare with, and then twice the largest number so far: if these rows turn out to
// be costly, little is lost.
func (c *Cost) Reach(rows int) int {
	if rows >= len(c.rows) || !c.rows[rows].isRecent(c.calls) {
		return rows
	}
	most := len(c.rows) - 1
	for !c.rows[most].isRecent(c.calls) {
		most--
	}
	return 2 * most
}

func (t *rowTimes) addTime(took float64, call int) {
	gone := 0
	for gone < t.n && (t.n-gone == maxTimes || t.call[gone]+stale < call) {
		gone++
	}
	copy(t.took[:], t.took[gone:t.n])
	copy(t.call[:], t.call[gone:t.n])
	t.n -= gone
	t.took[t.n], t.call[t.n] = took, call
	t.n++
	t.sorted = t.took
	slices.Sort(t.sorted[:t.n])
}

// timesWeight returns how much the times still count, 1 to 0.
func (t *rowTimes) timesWeight(call int) float64 {
	if t.n == 0 {
		return 0
	}
	age := call - t.call[t.n-1]
	w := math.Exp2(-float64(max(0, age-stale)) / stale)
	if w <= forgotten {
		return 0
	}
	return w
}

func (t *rowTimes) isRecent(call int) bool { return t.last > 0 && t.last+stale >= call }

// medianTime returns the lower median of an even number of times.
func (t *rowTimes) medianTime() float64 { return t.sorted[(t.n-1)/2] }

func (t *rowTimes) medianTimeWith(v float64) float64 {
	mid := t.n / 2 // of n+1
	switch at, _ := slices.BinarySearch(t.sorted[:t.n], v); {
	case at < mid:
		return t.sorted[mid-1]
	case at > mid:
		return t.sorted[mid]
	}
	return v
}

// point is a number of rows and what it costs.
type point struct{ rows, cost float64 }

// Curve returns what calls of 1 to most rows cost, in calls of one row: the first is 1, and none is less than the one
// before it.
func (c *Cost) Curve(most int) []float64 {
	curve := make([]float64, most)
	measured := []point{{1, 1}}
	one := c.One()
	for rows := 2; rows < len(c.rows); rows++ {
		if t := &c.rows[rows]; t.timesWeight(c.calls) > 0 {
			measured = append(measured, point{float64(rows), min(t.medianTime()/one, float64(rows))})
		}
	}
	likely := slices.Clone(measured)
	for i, p := range measured[1:] {
		others := interpolateCost(slices.Delete(slices.Clone(measured), i+1, i+2), p.rows)
		if t := &c.rows[int(p.rows)]; t.n > 1 {
			likely[i+1].cost = min(t.medianTimeWith(one*others)/one, p.rows)
		} else {
			likely[i+1].cost = (p.cost + others) / 2
		}
		assumed := 1 + rowCost*(p.rows-1)
		likely[i+1].cost = assumed + c.rows[int(p.rows)].timesWeight(c.calls)*(likely[i+1].cost-assumed)
	}
	for rows, least := max(most, len(c.rows)-1), math.Inf(1); rows > 0; rows-- {
		// A lower cost of more rows shows that fewer do not cost more: what is wrong with times makes them longer.
		least = max(1, min(least, interpolateCost(likely, float64(rows))))
		if rows <= most {
			curve[rows-1] = least
		}
	}
	return curve
}

// One is the time of a call of one row, or what follows for it from the least number that was measured; 0 where nothing
// was.
func (c *Cost) One() float64 {
	for rows := range c.rows {
		if t := &c.rows[rows]; t.n > 0 {
			return t.medianTime() / (1 + rowCost*float64(rows-1))
		}
	}
	return 0
}

// interpolateCost is the cost of a number of rows on the lines through points, of which the first is {1, 1}: between
// two the one that joins them, and beyond the last the one from the first through it.
func interpolateCost(points []point, rows float64) float64 {
	last := points[len(points)-1]
	slope := rowCost
	if len(points) > 1 {
		slope = (last.cost - 1) / (last.rows - 1)
	}
	for i, p := range points {
		if rows == p.rows {
			return p.cost
		}
		if rows < p.rows {
			last, slope = points[i-1], (p.cost-points[i-1].cost)/(p.rows-points[i-1].rows)
			break
		}
	}
	return last.cost + slope*(rows-last.rows)
}
