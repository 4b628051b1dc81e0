package regular

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Numbers are numbers within limits.
type Numbers struct {
	Min, Max Limit
	Step     *big.Rat // they are multiples of it; above 0; nil: any
}

// Limit is a bound of numbers; the zero value is none.
type Limit struct {
	At   *big.Rat // nil: there is none
	Open bool     // At itself is not within it
}

// Digits of numbers if no bound requires more.
const (
	wholeDigits = 15 // a float64 preserves all of them
	partDigits  = 15
	openDigits  = 6 // next to a bound that is open
)

// anyNumber matches numbers without bounds.
const anyNumber = `^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?$`

// ParseNumber reads a number of a schema.
func ParseNumber(text string) (*big.Rat, error) {
	if _, exponent, found := strings.Cut(strings.ToLower(text), "e"); found {
		if e, err := strconv.Atoi(exponent); err != nil || e < -400 || e > 400 {
			return nil, fmt.Errorf("%.40s is not possible: exponents are -400 to 400", text)
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if len(text) > 1000 || !ok {
		return nil, fmt.Errorf("%.40s is not a number of at most 1000 digits", text)
	}
	return r, nil
}

// AtLeast and AtMost tighten a bound.
func (b *Numbers) AtLeast(l Limit) { b.Min.tightenTo(l, 1) }

// AtMost is AtLeast of the other bound.
func (b *Numbers) AtMost(l Limit) { b.Max.tightenTo(l, -1) }

func (l *Limit) tightenTo(o Limit, sign int) {
	if o.At == nil {
		return
	}
	if l.At != nil {
		if c := sign * o.At.Cmp(l.At); c < 0 || c == 0 && !o.Open {
			return
		}
	}
	*l = o
}

// And restricts b to numbers that are also in o.
func (b *Numbers) And(o Numbers) {
	b.AtLeast(o.Min)
	b.AtMost(o.Max)
	if b.Step == nil || o.Step == nil {
		if o.Step != nil {
			b.Step = o.Step
		}
		return
	}
	lcm := new(big.Int).Mul(b.Step.Num(), o.Step.Num())
	lcm.Div(lcm, new(big.Int).GCD(nil, nil, b.Step.Num(), o.Step.Num()))
	b.Step = new(big.Rat).SetFrac(lcm, new(big.Int).GCD(nil, nil, b.Step.Denom(), o.Step.Denom()))
}

// Forget drops a bound that is beyond all numbers generated without it: the other bound is not as large.
func (b *Numbers) Forget() {
	large := new(big.Rat).SetInt(powerOfTen(wholeDigits))
	far := new(big.Rat).Mul(large, large)
	low, high := b.Min.At, b.Max.At
	if high != nil && high.Cmp(far) > 0 && (low == nil || low.Cmp(large) < 0) {
		b.Max, high = Limit{}, nil
	}
	if low != nil && low.Cmp(far.Neg(far)) < 0 && (high == nil || high.Cmp(large.Neg(large)) > 0) {
		b.Min = Limit{}
	}
}

// Without returns parts of b that together leave out some numbers: those below each of them, and the rest.
func (b Numbers) Without(values []string) (parts []Numbers) {
	var out []*big.Rat
	for _, v := range values {
		if r, err := ParseNumber(v); err == nil { // else it is not a number of the schema, which was read before
			out = append(out, r)
		}
	}
	slices.SortFunc(out, (*big.Rat).Cmp)
	for _, r := range out {
		low := b
		low.AtMost(Limit{r, true})
		parts = append(parts, low)
		b.AtLeast(Limit{r, true})
	}
	return append(parts, b)
}

// floorAtScale returns the largest whole n such that n/scale is within a bound from above; nil for none.
func (l Limit) floorAtScale(scale *big.Int) *big.Int {
	if l.At == nil {
		return nil
	}
	v := new(big.Rat).Mul(l.At, new(big.Rat).SetInt(scale))
	n := new(big.Int).Div(v.Num(), v.Denom()) // Euclidean: rounds down, as the denominator is positive
	if l.Open && v.IsInt() {
		n.Sub(n, big.NewInt(1))
	}
	return n
}

// scaledBounds returns the smallest and the largest whole n such that n/scale is within the bounds; nil for none.
func (b *Numbers) scaledBounds(scale *big.Int) (low, high *big.Int) {
	if b.Min.At != nil {
		low = Limit{new(big.Rat).Neg(b.Min.At), b.Min.Open}.floorAtScale(scale)
		low.Neg(low)
	}
	return low, b.Max.floorAtScale(scale)
}

// fillMissingBounds replaces a missing bound: by the default number of digits, or one more than the other bound has.
func fillMissingBounds(low, high *big.Int) (*big.Int, *big.Int) {
	limit := func(other *big.Int) *big.Int {
		digits := wholeDigits
		if other != nil {
			digits = max(digits, len(new(big.Int).Abs(other).String())+1)
		}
		return new(big.Int).Sub(powerOfTen(digits), big.NewInt(1))
	}
	l, h := low, high
	if l == nil {
		l = limit(high)
		l.Neg(l)
	}
	if h == nil {
		h = limit(low)
	}
	return l, h
}

func powerOfTen(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// Numbers returns the numbers within b that are whole, or are not, or both.
func (m *Maker) Numbers(b Numbers, whole, broken bool) (*Set, error) {
	if !broken {
		return b.integerSet(m)
	}
	all, err := b.numberSet(m)
	if err != nil || whole {
		return all, err
	}
	parts, err := m.unquotedSet(`^-?[0-9]+\.[0-9]*[1-9][0-9]*$`)
	if err != nil {
		return nil, err
	}
	return m.And(all, parts)
}

func (m *Maker) unquotedSet(pattern string) (*Set, error) {
	p, err := parsePattern(pattern)
	if err != nil {
		return nil, err
	}
	return p.toByteSet(m, "")
}

func (b *Numbers) integerSet(m *Maker) (*Set, error) {
	if b.Step != nil {
		return b.multipleSet(m, b.Step.Num(), 0) // also of a fraction, in lowest terms
	}
	a := newNFA()
	low, high := fillMissingBounds(b.scaledBounds(big.NewInt(1)))
	a.markAccepting(a.addIntegers(0, low, high, 0)...)
	return a.determinize(m)
}

func (b *Numbers) numberSet(m *Maker) (*Set, error) {
	if b.Step != nil {
		digits, exact := b.Step.FloatPrec()
		if !exact || digits > partDigits {
			return nil, fmt.Errorf("multiples of %s are not supported: it has more than %d digits after the point",
				b.Step.RatString(), partDigits)
		}
		scaled := new(big.Int).Mul(b.Step.Num(), powerOfTen(digits))
		return b.multipleSet(m, scaled.Div(scaled, b.Step.Denom()), digits)
	}
	if b.Min.At == nil && b.Max.At == nil {
		return m.unquotedSet(anyNumber)
	}
	a := newNFA()
	low, high := fillMissingBounds(b.scaledBounds(big.NewInt(1)))
	a.markAccepting(a.addIntegers(0, low, high, 0)...)
	a.addFractions(low, high)
	if err := b.addNumbersNearBounds(a); err != nil {
		return nil, err
	}
	return a.determinize(m)
}

// multipleSet returns the numbers within bounds that have a number of digits after the point and, read without it, are
// multiples of n.
func (b *Numbers) multipleSet(m *Maker, n *big.Int, digits int) (*Set, error) {
	a := newNFA()
	low, high := fillMissingBounds(b.scaledBounds(powerOfTen(digits)))
	a.markAccepting(a.addIntegers(0, low, high, digits)...)
	a, err := a.filterMultiples(m, n)
	if err != nil {
		return nil, err
	}
	return a.determinize(m)
}

// filterMultiples returns the texts of a, numbers in digits with or without a sign, that are multiples of n if a point
// in them is ignored. a has no jumps.
func (a *nfa) filterMultiples(m *Maker, n *big.Int) (*nfa, error) {
	if n.Cmp(big.NewInt(maxStates)) > 0 {
		return nil, ErrSize
	}
	out, of := newNFA(), n.Int64()
	open, known := []pair{{}}, map[pair]int32{{}: 0} // states of a, and remainders
	enter := func(p pair) int32 {
		id, ok := known[p]
		if !ok {
			id = out.addState()
			known[p] = id
			open = append(open, p)
		}
		return id
	}
	for len(open) > 0 {
		p := open[len(open)-1]
		open = open[:len(open)-1]
		here, at := known[p], a.states[p.a]
		out.states[here].end = at.end && p.b == 0
		for _, x := range at.arcs {
			if x.Lo < '0' { // a sign or a point
				out.addArc(here, x.Lo, x.Lo, enter(pair{x.To, p.b}))
				continue
			}
			for d := x.Lo; d <= x.Hi; d++ {
				out.addArc(here, d, d, enter(pair{x.To, int32((int64(p.b)*10 + int64(d-'0')) % of)}))
			}
		}
		if len(out.states) > maxNFAStates {
			return nil, ErrSize
		}
		if err := m.Spend(20); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addIntegers adds paths for the whole numbers of low to high, with a point before some last digits and without -0; it
// returns their ends.
func (a *nfa) addIntegers(from int32, low, high *big.Int, digits int) (ends []int32) {
	if low.Sign() < 0 {
		l, h := maxBigInt(new(big.Int).Neg(high), big.NewInt(1)), new(big.Int).Neg(low)
		ends = a.addNaturals(a.addText(from, "-"), l, h, digits)
	}
	return append(ends, a.addNaturals(from, maxBigInt(low, new(big.Int)), high, digits)...)
}

// addNaturals adds paths for the numbers of low to high, with a point before some last digits; low is not negative.
func (a *nfa) addNaturals(from int32, low, high *big.Int, digits int) (ends []int32) {
	if low.Cmp(high) > 0 {
		return nil
	}
	pointed := func(text string) string {
		if digits == 0 {
			return text
		}
		return text[:len(text)-digits] + "." + text[len(text)-digits:]
	}
	lo, hi := fmt.Sprintf("%0*d", digits+1, low), fmt.Sprintf("%0*d", digits+1, high)
	for n := len(lo); n <= len(hi); n++ {
		zeros, nines := strings.Repeat("0", n), strings.Repeat("9", n)
		l, h := lo, hi
		if n > len(lo) {
			l = "1" + zeros[1:]
		}
		if n < len(hi) {
			h = nines
		}
		end := a.addState()
		a.addTextRange(from, pointed(l), pointed(h), pointed(zeros), pointed(nines), end)
		ends = append(ends, end)
	}
	return ends
}

// addFractions adds the numbers with a point between consecutive whole ones that are both within bounds, including the
// smaller one.
func (a *nfa) addFractions(low, high *big.Int) {
	less := func(n *big.Int) *big.Int { return new(big.Int).Sub(n, big.NewInt(1)) }
	negative := func(n *big.Int) *big.Int { return new(big.Int).Neg(n) }
	ends := a.addNaturals(0, maxBigInt(low, new(big.Int)), less(high), 0)
	if low.Sign() < 0 { // -n.x for n from that of high to that of low, less one
		from, least := a.addText(0, "-"), maxBigInt(negative(high), new(big.Int))
		ends = append(ends, a.addNaturals(from, least, less(negative(low)), 0)...)
	}
	for _, end := range ends {
		at, last := a.addText(end, "."), a.addState()
		for range partDigits {
			to := a.addState()
			a.addArc(at, '0', '9', to)
			a.addJump(to, last)
			at = to
		}
		a.markAccepting(last)
	}
}

func maxBigInt(x, y *big.Int) *big.Int {
	if x.Cmp(y) < 0 {
		return y
	}
	return x
}

func (b *Numbers) addNumbersNearBounds(a *nfa) error {
	digits := 0
	for _, l := range []Limit{b.Min, b.Max} {
		if l.At == nil {
			continue
		}
		n, exact := l.At.FloatPrec()
		if !exact || n > partDigits {
			return fmt.Errorf("bounds of more than %d digits after the point are not supported", partDigits)
		}
		if digits = max(digits, n); l.Open {
			digits = max(digits, openDigits)
		}
	}
	low, high := b.scaledBounds(powerOfTen(digits))
	if low != nil && high != nil && low.Cmp(high) > 0 && digits < partDigits {
		digits++ // between two numbers there is one with a digit more
	}
	for n := range digits {
		b.addDecimalsNearBounds(a, n+1)
	}
	return nil
}

// addDecimalsNearBounds adds the numbers with a number of digits after the point that are within bounds and next to
// them: with one bound, those up to the next whole number.
func (b *Numbers) addDecimalsNearBounds(a *nfa, digits int) {
	scale := powerOfTen(digits)
	low, high := b.scaledBounds(scale)
	if low == nil {
		low = new(big.Int).Sub(high, scale)
	}
	if high == nil {
		high = new(big.Int).Add(low, scale)
	}
	a.markAccepting(a.addIntegers(0, low, high, digits)...)
}
