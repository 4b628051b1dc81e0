package lookup

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// learn reports calls with all numbers of rows to c, with a time of slope for each row after the first.
func learn(c *Cost, calls int, slope float64, noise func() float64) {
	for i := range calls {
		rows := 1 + i%8
		c.Learn(rows, (1+slope*float64(rows-1))*noise())
	}
}

func exact() float64 { return 1 }

// FuzzCurve: for any times the curve starts with 1 and never falls.
func FuzzCurve(f *testing.F) {
	f.Add(uint64(1), uint16(40), uint8(8))
	f.Add(uint64(2), uint16(1), uint8(1))
	f.Add(uint64(3), uint16(900), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, calls uint16, most uint8) {
		r := rand.New(rand.NewPCG(seed, 3))
		var c Cost
		for range calls % 1000 {
			c.Learn(r.IntN(12)-1, r.ExpFloat64()-0.1)
			curve := c.Curve(int(most % 12))
			require.Len(t, curve, int(most%12))
			for i, v := range curve {
				require.GreaterOrEqual(t, v, 1.0)
				require.Less(t, v, 1e12)
				require.True(t, i > 0 || v == 1, v)
				require.True(t, i == 0 || v >= curve[i-1], curve)
				require.LessOrEqual(t, v, float64(i+1)*(1+1e-9), curve)
			}
		}
	})
}

// TestCostAssumed: without measurements, or with a clock that stands still, a row has the default cost.
func TestCostAssumed(t *testing.T) {
	var c Cost
	for range 3 {
		curve := c.Curve(8)
		for i, v := range curve {
			assert.InDelta(t, 1+rowCost*float64(i), v, 1e-9)
		}
		learn(&c, 50, 0, func() float64 { return 0 })
		c.Learn(3, -1)
		c.Learn(0, 1)
	}
}

// TestCostMeasured: the curve equals the measurements, also with outliers, in any unit, and between and beyond the
// measured numbers.
func TestCostMeasured(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, unit := range []float64{1e-4, 1, 1e7} {
		for _, slope := range []float64{0, 0.02, 0.3, 1} {
			var c Cost
			learn(&c, 400, slope, func() float64 {
				if r.IntN(10) == 0 {
					return unit * 20
				}
				return unit * (1 + 0.02*r.Float64())
			})
			for i, v := range c.Curve(8) {
				assert.InEpsilon(t, 1+slope*float64(i), v, 0.1, "%d rows", i+1)
			}
		}
	}
	var c Cost
	for range 5 {
		c.Learn(1, 10)
		c.Learn(4, 16)
	}
	for i, v := range c.Curve(8) {
		assert.InDelta(t, 1+0.2*float64(i), v, 1e-9)
	}
}

// TestCostForgets: costly rows are known after two calls; old times are forgotten, so that rows are tried again.
func TestCostForgets(t *testing.T) {
	var c Cost
	c.Learn(1, 1)
	c.Learn(8, 8)
	assert.InDelta(t, (8+1.7)/2, c.Curve(8)[7], 1e-9)
	c.Learn(8, 8)
	assert.InDelta(t, 8, c.Curve(8)[7], 1e-9)
	assert.InDelta(t, 2, c.Curve(8)[1], 1e-9, "and fewer rows are probably costly")
	for range stale {
		c.Learn(1, 1)
		assert.InDelta(t, 8, c.Curve(8)[7], 1e-9)
	}
	for half := 1.0; half < 8; half *= 2 {
		for range stale {
			c.Learn(1, 1)
		}
		assert.InDelta(t, 1.7+(8-1.7)/2/half, c.Curve(8)[7], 1e-9, "halved each time")
	}
	for range stale {
		c.Learn(1, 1)
	}
	assert.InDelta(t, 1+7*rowCost, c.Curve(8)[7], 1e-9)
	c.Learn(8, 8)
	c.Learn(8, 8)
	assert.InDelta(t, 8, c.Curve(8)[7], 1e-9)
}

// TestReach: the number of rows at most doubles per call, once a call without guesses is known, and starts again when
// that is forgotten. A clock that stands still does not prevent it.
func TestReach(t *testing.T) {
	for _, took := range []float64{0, 1} {
		var c Cost
		assert.Equal(t, 1, c.Reach(1))
		c.Learn(1, took)
		assert.Equal(t, 2, c.Reach(1))
		assert.Equal(t, 3, c.Reach(3), "a call of three rows is unknown")
		c.Learn(2, took)
		assert.Equal(t, 4, c.Reach(1))
		c.Learn(3, took)
		assert.Equal(t, 6, c.Reach(1))
		assert.Equal(t, 6, c.Reach(3))
		assert.Equal(t, 9, c.Reach(9))
		for range stale - 3 {
			c.Learn(3, took)
			require.Equal(t, 6, c.Reach(1))
		}
		c.Learn(3, took)
		c.Learn(3, took)
		assert.Equal(t, 1, c.Reach(1))
		c.Learn(3, took)
		assert.Equal(t, 2, c.Reach(2))
		assert.Equal(t, 6, c.Reach(3))
		c.Learn(1, took)
		assert.Equal(t, 6, c.Reach(1))
	}
}

// TestCostOfFewTimes: the cost of a number of rows combines its times, in any unit, and the estimate from other
// numbers.
func TestCostOfFewTimes(t *testing.T) {
	for _, unit := range []float64{0.1, 1, 10} {
		var c Cost
		c.Learn(1, unit)
		c.Learn(2, 1.2*unit)
		curve := c.Curve(4)
		assert.InDelta(t, (1.2+1.1)/2, curve[1], 1e-9, "one time and the default")
		assert.InDelta(t, 1+3*0.15, curve[3], 1e-9)

		c = Cost{}
		c.Learn(1, unit)
		c.Learn(4, 1.1*unit)
		c.Learn(4, 3*unit)
		assert.InDelta(t, 1.3, c.Curve(4)[3], 1e-9, "the default lies between two times")
		c.Learn(3, 2*unit)
		assert.InDelta(t, 2.5, c.Curve(4)[3], 1e-9, "and so does the estimate from three rows")
		c.Learn(4, 1.2*unit)
		c.Learn(4, 1.2*unit)
		assert.InDelta(t, 1.2, c.Curve(4)[3], 1e-9)

		c = Cost{}
		c.Learn(1, unit)
		c.Learn(2, 4*unit)
		c.Learn(8, 100*unit)
		assert.InDelta(t, 2, c.Curve(2)[1], 1e-9, "never more than a call for each row")
	}
}

// TestCostKeepsTheLast: new times replace old ones, and the last ones are kept.
func TestCostKeepsTheLast(t *testing.T) {
	var c Cost
	c.Learn(1, 1)
	for _, took := range []float64{2, 2, 2, 2, 2, 2, 1.2, 1.2, 1.2} {
		c.Learn(2, took)
	}
	assert.InDelta(t, 2, c.Curve(2)[1], 1e-9)
	c.Learn(2, 1.2)
	assert.InDelta(t, 1.2, c.Curve(2)[1], 1e-9, "the first of nine is dropped")
	for range stale - 4 {
		c.Learn(1, 1)
	}
	c.Learn(2, 1.9)
	assert.Equal(t, 5, c.rows[2].n, "the times of 2 are stale, those of 1.2 are not")
	assert.InDelta(t, 1.2, c.Curve(2)[1], 1e-9)
}
