package regular

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// rat returns a number.
func rat(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text)
	}
	return r
}

// has reports whether a number is within bounds, by definition.
func (b Numbers) has(v *big.Rat) bool {
	if at := b.Min.At; at != nil && (v.Cmp(at) < 0 || v.Cmp(at) == 0 && b.Min.Open) {
		return false
	}
	if at := b.Max.At; at != nil && (v.Cmp(at) > 0 || v.Cmp(at) == 0 && b.Max.Open) {
		return false
	}
	return b.Step == nil || new(big.Rat).Quo(v, b.Step).IsInt()
}

// someLimits returns no bound, and bounds at some numbers.
func someLimits(at ...string) []Limit {
	all := []Limit{{}}
	for _, text := range at {
		all = append(all, Limit{rat(text), false}, Limit{rat(text), true})
	}
	return all
}

// eachNumber calls with for the bounds below and above that are not empty.
func eachNumber(low, high []Limit, with func(Numbers)) {
	for _, l := range low {
		for _, h := range high {
			if b := (Numbers{Min: l, Max: h}); l.At == nil || h.At == nil || l.At.Cmp(h.At) <= 0 {
				with(b)
			}
		}
	}
}

// TestNumbersWithin: of the whole numbers, all within bounds are in the set, and no others; of the numbers with a
// point, those between whole ones that are within bounds, and those with as many digits as the bounds have.
func TestNumbersWithin(t *testing.T) {
	racing.Spare(t)
	m := newMaker()
	type value struct {
		text       string
		v          *big.Rat
		near, away *big.Rat // the whole numbers around it: towards 0, and one further
		places     int
	}
	var values []value
	add := func(text string) {
		v, further := rat(text), rat("1")
		if strings.HasPrefix(text, "-") {
			further = rat("-1")
		}
		whole, part, _ := strings.Cut(text, ".")
		near := rat(whole)
		values = append(values, value{text, v, near, further.Add(further, near), len(part)})
	}
	for n := -125; n <= 125; n++ {
		add(fmt.Sprint(n))
		add(fmt.Sprintf("%d.0", n))
		add(fmt.Sprintf("%d.5", n))
	}
	for n := -301; n <= 131; n++ {
		add(strconv.FormatFloat(float64(n)/100, 'f', 2, 64))
	}
	low := someLimits("-120", "-2.5", "-1", "0.25")
	eachNumber(low, someLimits("-99", "0", "0.5", "12.75"), func(b Numbers) {
		digits := 0
		for _, l := range []Limit{b.Min, b.Max} {
			if l.At != nil {
				n, _ := l.At.FloatPrec()
				digits = max(digits, n, map[bool]int{true: openDigits}[l.Open])
			}
		}
		for _, kinds := range []struct{ whole, broken bool }{{true, false}, {false, true}, {true, true}} {
			d, err := m.Numbers(b, kinds.whole, kinds.broken)
			require.NoError(t, err)
			for _, x := range values {
				inside := b.has(x.v) && (kinds.broken || x.places == 0) && (kinds.whole || !x.v.IsInt())
				certain := x.places == 0 || b.has(x.near) && b.has(x.away) || // no zero has a sign near a bound
					x.places <= digits && !strings.HasPrefix(x.text, "-0.00")
				if has := d.Has(x.text); has != inside && (has || certain) {
					t.Fatalf("%+v %+v: %s: %v", b, kinds, x.text, has)
				}
			}
			for _, text := range []string{"00", "01", "-01", "1.", ".5", "+1", "", "-", "1e", "01.5", "1 "} {
				require.False(t, d.Has(text), "%+v: %q", b, text)
			}
			any := kinds.whole && kinds.broken && b.Min.At == nil && b.Max.At == nil
			require.Equal(t, any, d.Has("1e5"), "%+v: 1e5", b)
			require.Equal(t, any, d.Has("-0"), "%+v: -0", b)
		}
	})
}

// TestManyDigits: without bounds, whole numbers have up to 15 digits, and those with a bound one more than it has.
func TestManyDigits(t *testing.T) {
	nines := func(n int) string { return strings.Repeat("9", n) }
	for _, c := range []struct {
		name    string
		b       Numbers
		yes, no []string
	}{
		{"no bound", Numbers{}, []string{nines(15), "-" + nines(15)}, []string{"1" + nines(15), "-1" + nines(15)}},
		{"a short minimum", Numbers{Min: Limit{At: rat("5")}}, []string{"5", nines(15)},
			[]string{"4", "1" + nines(15)}},
		{"a long minimum", Numbers{Min: Limit{At: rat(nines(20))}}, []string{nines(20), nines(21)},
			[]string{nines(19), nines(22)}},
		{"a long negative maximum", Numbers{Max: Limit{At: rat("-" + nines(20))}},
			[]string{"-" + nines(20), "-" + nines(21)}, []string{"-" + nines(19), "-" + nines(22), "1"}},
		{"an open minimum with a point", Numbers{Min: Limit{rat("0.1234567"), true}, Max: Limit{At: rat("1")}},
			[]string{"0.1234568", "0.123457"}, []string{"0.1234567", "0.12345671"}},
		{"a long maximum", Numbers{Max: Limit{At: rat(nines(20))}}, []string{nines(20), "-" + nines(21)},
			[]string{"1" + nines(20)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := newMaker().Numbers(c.b, true, strings.Contains(c.yes[0], "."))
			require.NoError(t, err)
			for _, text := range c.yes {
				assert.True(t, d.Has(text), text)
			}
			for _, text := range c.no {
				assert.False(t, d.Has(text), text)
			}
		})
	}
	d, err := newMaker().Numbers(Numbers{}, true, true)
	require.NoError(t, err)
	for text, want := range map[string]bool{
		nines(15): true, "1" + nines(15): false, "-0": true, "1." + nines(15): true, "1." + nines(16): false,
		"1e-99": true, "1E+9": true, "1e100": false, "1.5e7": true, "0e0": true,
	} {
		assert.Equal(t, want, d.Has(text), text)
	}
	between, err := newMaker().Numbers(Numbers{Min: Limit{At: rat("0")}, Max: Limit{At: rat("2")}}, true, true)
	require.NoError(t, err)
	for n, want := range map[int]bool{1: true, partDigits: true, partDigits + 1: false} {
		assert.Equal(t, want, between.Has("1."+nines(n)), n)
	}
}

// TestNumbersRefused: a step or a bound with too many digits after the point is refused.
func TestNumbersRefused(t *testing.T) {
	for want, b := range map[string]Numbers{
		"multiples of 1/3 are not supported: it has more than 15 digits":  {Step: rat("1/3")},
		"multiples of 1/10000000000000000 are not supported":              {Step: rat("1e-16")},
		"bounds of more than 15 digits after the point are not supported": {Min: Limit{At: rat("1e-16")}},
		"bounds of more than 15 digits":                                   {Max: Limit{At: rat("1e-16")}},
	} {
		_, err := newMaker().Numbers(b, true, true)
		assert.ErrorContains(t, err, want)
		_, err = newMaker().Numbers(b, true, false)
		assert.NoError(t, err, "of whole numbers it is possible")
	}
	for _, b := range []Numbers{{Step: rat("1e-15"), Max: Limit{At: rat("0")}}, {Min: Limit{At: rat("1e-15")}}} {
		_, err := newMaker().Numbers(b, true, true)
		assert.NoError(t, err, "%+v", b)
	}
}

// TestNumbersAnd: two conditions on numbers together allow what both allow.
func TestNumbersAnd(t *testing.T) {
	var all []Numbers
	eachNumber(someLimits("-1", "0"), someLimits("0", "4.5"), func(b Numbers) { all = append(all, b) })
	for _, step := range []string{"2", "3", "0.5", "0.75"} {
		all = append(all, Numbers{Step: rat(step)})
	}
	for _, a := range all {
		for _, b := range all {
			both := a
			both.And(b)
			for n := range int64(80) {
				v := big.NewRat(n-20, 4)
				require.Equal(t, a.has(v) && b.has(v), both.has(v), "%+v and %+v: %s", a, b, v)
			}
		}
	}
}

// TestNumbersWithout: the parts of bounds without some numbers have all others, each in one of them.
func TestNumbersWithout(t *testing.T) {
	b := Numbers{Min: Limit{At: rat("0")}, Max: Limit{rat("5"), true}}
	for _, out := range [][]string{nil, {"2"}, {"3", "1.5", "0"}, {"2", "2.0", "9", "x"}} {
		parts := b.Without(out)
		for n := range int64(50) {
			v, in := big.NewRat(n-10, 4), 0
			for _, p := range parts {
				if p.has(v) {
					in++
				}
			}
			want := b.has(v)
			for _, o := range out {
				want = want && (o == "x" || rat(o).Cmp(v) != 0)
			}
			assert.Equal(t, want, in == 1, "%v: %s in %d", out, v, in)
			assert.LessOrEqual(t, in, 1)
		}
	}
}

// TestForget: a bound is dropped only if it is beyond all numbers that are generated without it.
func TestForget(t *testing.T) {
	of := func(low, high string) (b Numbers) {
		if low != "" {
			b.Min.At = rat(low)
		}
		if high != "" {
			b.Max = Limit{rat(high), true}
		}
		return b
	}
	for name, c := range map[string]struct{ low, high, keepsLow, keepsHigh string }{
		"a maximum beyond them":      {"0", "1e31", "0", ""},
		"a maximum at the end":       {"0", "1e30", "0", "1e30"},
		"only a maximum beyond them": {"", "1e31", "", ""},
		"a large minimum":            {"1e15", "1e31", "1e15", "1e31"},
		"a minimum beyond them":      {"-1e31", "0", "", "0"},
		"a minimum at the end":       {"-1e30", "0", "-1e30", "0"},
		"only a minimum beyond them": {"-1e31", "", "", ""},
		"a large negative maximum":   {"-1e31", "-1e15", "-1e31", "-1e15"},
		"both beyond them":           {"-1e31", "1e31", "", ""},
		"both among them":            {"1", "2", "1", "2"},
		"none":                       {"", "", "", ""},
	} {
		b := of(c.low, c.high)
		b.Forget()
		assert.Equal(t, of(c.keepsLow, c.keepsHigh), b, name)
	}
}

// TestParseNumber: the numbers of a schema, at their limits.
func TestParseNumber(t *testing.T) {
	digits := func(n int) string { return strings.Repeat("9", n) }
	for text, want := range map[string]string{
		"1": "", "-1.5e3": "", "1e400": "", "1E-400": "", digits(1000): "",
		digits(1001): "is not a number of at most 1000",
		"1e401":      "1e401 is not possible: exponents are -400 to 400", "1e-401": "exponents are -400 to 400",
		"1e99999999999": "exponents are", "x": "x is not a number", "": "is not a number", "1ex": "exponents are",
		digits(990) + "e400": "",
	} {
		got, err := ParseNumber(text)
		if want != "" {
			assert.ErrorContains(t, err, want, text)
			assert.Less(t, len(err.Error()), 120)
			continue
		}
		require.NoError(t, err)
		assert.Zero(t, got.Cmp(rat(text)), text)
	}
}
