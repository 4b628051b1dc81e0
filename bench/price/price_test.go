package price

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]List{
		"prefill=0.5,decode=1.5":   {0.5, 1.5},
		"decode=1.5, prefill=0.5":  {0.5, 1.5},
		"prefill=0,decode=2":       {0, 2},
		"prefill=3e-2,decode=0":    {0.03, 0},
		"prefill=1e12,decode=1e12": {maxPrice, maxPrice},
	} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
		again, err := Parse(got.String())
		require.NoError(t, err)
		assert.Equal(t, got, again)
	}
	for text, says := range map[string]string{
		"":                             "prefill=X,decode=Y",
		"prefill=1":                    "no price for decode",
		"decode=1":                     "no price for prefill",
		"prefill=1,prefill=2":          `"prefill=2" is unknown or repeated`,
		"prefill=1,decode=2,cached=3":  `"cached=3"`,
		"prefill=1,decode=2,":          `""`,
		"prefill=-1,decode=2":          `"prefill=-1" is not an amount`,
		"prefill=NaN,decode=2":         "is not an amount",
		"prefill=1,decode=Inf":         "is not an amount",
		"prefill=1,decode=1.1e12":      "number from 0 to 1e+12",
		"prefill=1,decode":             "is not an amount",
		"prefill=0,decode=0":           "both prices are 0",
		"prefill=1,decode=two dollars": "is not an amount",
	} {
		got, err := Parse(text)
		assert.ErrorContains(t, err, says, text)
		assert.Zero(t, got)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"prefill=0.5,decode=1.5", "decode=1,prefill=0", "prefill=,decode=", "=,=",
		"prefill=1e400,decode=1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(l.String())
		require.NoError(t, err)
		assert.Equal(t, l, again)
		assert.GreaterOrEqual(t, l.Of(Work{7, 8, 9}), 0.0)
	})
}

// TestCost: the cost of a sum of work is the sum of the costs: tokens times prices.
func TestCost(t *testing.T) {
	l := List{Prefill: 2, Decode: 10}
	assert.InDelta(t, 2.0, l.Of(Work{Prefilled: 1_000_000}), 1e-12)
	assert.InDelta(t, 10.0, l.Of(Work{Decoded: 1_000_000}), 1e-12)
	assert.InDelta(t, 10.0, l.Of(Work{Ahead: 1_000_000}), 1e-12, "tokens ahead cost as much as decoded ones")
	assert.Equal(t, Work{Prefilled: 30, Decoded: 7}, Alone(30, 7))
	r := rand.New(rand.NewPCG(1, 2))
	work := func() Work { return Work{r.IntN(1000), r.IntN(1000), r.IntN(1000)} }
	for range 1000 {
		a, b, p := work(), work(), List{r.Float64(), r.Float64()}
		assert.InDelta(t, p.Of(a)+p.Of(b), p.Of(a.Plus(b)), 1e-12, "parts and whole")
		assert.InDelta(t, 3*p.Of(a), List{3 * p.Prefill, 3 * p.Decode}.Of(a), 1e-12, "three times the prices")
		n := 1 + r.IntN(9)
		c := p.Answers(n, a, b)
		assert.InDelta(t, p.Of(a), c.PerAnswer*float64(n), 1e-12)
		assert.InDelta(t, c.PerAnswer*1000, c.Per1000, 1e-9)
		assert.InDelta(t, p.Of(b), c.CloudOnly*float64(n), 1e-12)
		more := a
		more.Prefilled++
		assert.Greater(t, p.Of(more), p.Of(a))
		more = a
		more.Ahead++
		assert.Greater(t, p.Of(more), p.Of(a), "used or unused")
	}
	b, err := json.Marshal(Cost{1, 2, 3})
	require.NoError(t, err)
	assert.JSONEq(t, `{"per_answer":1,"per_1000_answers":2,"cloud_only_per_answer":3}`, string(b))
}

func TestMoney(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 0.0000123456: "0.00001235", 12.3456: "12.35", 123456: "123456",
		0.1: "0.1", 1000: "1000", 9.9999: "10", -0.25: "-0.25",
	} {
		assert.Equal(t, want, Money(x))
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		x := r.Float64() * []float64{1e-9, 1e-3, 1, 1e6}[r.IntN(4)]
		text := Money(x)
		assert.NotContains(t, text, "e")
		back, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		assert.InEpsilon(t, x, back, 0.001)
		assert.LessOrEqual(t, len(strings.TrimLeft(strings.ReplaceAll(text, ".", ""), "0")), 7)
	}
}
