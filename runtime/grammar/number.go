package grammar

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// numbers are the bounds of a number. nil is none.
type numbers struct {
	least, most           *big.Rat
	aboveLeast, belowMost bool     // the bound itself is not in
	step                  *big.Rat // the number is a multiple of it, above 0
}

// Digits of numbers without a bound that asks for more.
const (
	wholeDigits = 15 // of which a float64 keeps each
	partDigits  = 15
	openDigits  = 6 // next to a bound that is not in itself
)

// parseNumber reads a number of a schema.
func parseNumber(text string) (*big.Rat, error) {
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

func (b *numbers) atLeast(v *big.Rat, above bool) {
	if b.least == nil || v.Cmp(b.least) > 0 || v.Cmp(b.least) == 0 && above {
		b.least, b.aboveLeast = v, above
	}
}

func (b *numbers) atMost(v *big.Rat, below bool) {
	if b.most == nil || v.Cmp(b.most) < 0 || v.Cmp(b.most) == 0 && below {
		b.most, b.belowMost = v, below
	}
}

// multipleOf has numbers be multiples of v, and of what they had to be multiples of before.
func (b *numbers) multipleOf(v *big.Rat) {
	if b.step == nil {
		b.step = v
		return
	}
	lcm := new(big.Int).Mul(b.step.Num(), v.Num())
	lcm.Div(lcm, new(big.Int).GCD(nil, nil, b.step.Num(), v.Num()))
	b.step = new(big.Rat).SetFrac(lcm, new(big.Int).GCD(nil, nil, b.step.Denom(), v.Denom()))
}

// forget drops a bound that is beyond all numbers which are written without it: the other one is not as large.
func (b *numbers) forget() {
	large := new(big.Rat).SetInt(power(wholeDigits))
	far := new(big.Rat).Mul(large, large)
	if b.most != nil && b.most.Cmp(far) > 0 && (b.least == nil || b.least.Cmp(large) < 0) {
		b.most = nil
	}
	if b.least != nil && b.least.Cmp(far.Neg(far)) < 0 && (b.most == nil || b.most.Cmp(large.Neg(large)) > 0) {
		b.least = nil
	}
}

// without returns parts of b, which together leave out some numbers.
func (b numbers) without(values []string) (parts []numbers) {
	parts = []numbers{b}
	for _, v := range values {
		r, err := parseNumber(v)
		if err != nil {
			continue // no number of a schema, which was read before
		}
		for _, p := range parts {
			low, high := p, p
			low.atMost(r, true)
			high.atLeast(r, true)
			parts = append(parts[1:], low, high)
		}
	}
	return parts
}

// scaled returns the least and the most whole numbers n such that n/scale is within the bounds; nil for none.
func (b *numbers) scaled(scale *big.Int) (least, most *big.Int) {
	factor := new(big.Rat).SetInt(scale)
	if b.least != nil {
		least = floor(new(big.Rat).Mul(b.least, factor))
		v := new(big.Rat).Quo(new(big.Rat).SetInt(least), factor)
		if c := v.Cmp(b.least); c < 0 || c == 0 && b.aboveLeast {
			least.Add(least, big.NewInt(1))
		}
	}
	if b.most != nil {
		most = floor(new(big.Rat).Mul(b.most, factor))
		v := new(big.Rat).Quo(new(big.Rat).SetInt(most), factor)
		if v.Cmp(b.most) == 0 && b.belowMost {
			most.Sub(most, big.NewInt(1))
		}
	}
	return least, most
}

func floor(r *big.Rat) *big.Int {
	return new(big.Int).Div(r.Num(), r.Denom()) // Euclidean: rounds down, as the denominator is positive
}

// fill puts digits where there is no bound: as many as such numbers have, or one more than the other bound.
func fill(least, most *big.Int) (*big.Int, *big.Int) {
	limit := func(of *big.Int) *big.Int {
		digits := wholeDigits
		if of != nil {
			digits = max(digits, len(new(big.Int).Abs(of).String())+1)
		}
		return new(big.Int).Sub(power(digits), big.NewInt(1))
	}
	l, m := least, most
	if l == nil {
		l = new(big.Int).Neg(limit(most))
	}
	if m == nil {
		m = limit(least)
	}
	return l, m
}

// power is 10 to the n.
func power(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// multiples returns the numbers within bounds that have so many digits behind the point and, read without it, are
// multiples of m.
func (b *numbers) multiples(e *effort, m *big.Int, digits int) (*dfa, error) {
	whole := newNFA()
	least, most := fill(b.scaled(power(digits)))
	for _, end := range whole.whole(0, least, most, min(digits, 1)+digits) {
		whole.end[end] = true
	}
	whole, err := whole.divisible(e, m)
	if err != nil {
		return nil, err
	}
	if digits == 0 {
		return whole.determine(e)
	}
	a := newNFA()
	a.pointed(whole, digits)
	return a.determine(e)
}

// divisible returns those of the texts, numbers in digits with or without a sign, that are multiples of m.
func (a *nfa) divisible(e *effort, m *big.Int) (*nfa, error) {
	if m.Cmp(big.NewInt(maxRegular)) > 0 {
		return nil, errSize
	}
	type pair struct {
		at, rest int32
	}
	out, of := newNFA(), int32(m.Int64())
	open, known := []pair{{}}, map[pair]int32{{}: 0}
	enter := func(p pair) int32 {
		id, ok := known[p]
		if !ok {
			id = out.place()
			known[p] = id
			open = append(open, p)
		}
		return id
	}
	for len(open) > 0 {
		p := open[len(open)-1]
		open = open[:len(open)-1]
		here := known[p]
		out.end[here] = a.end[p.at] && p.rest == 0
		for _, to := range a.places[p.at].jumps {
			out.jump(here, enter(pair{to, p.rest}))
		}
		for _, x := range a.places[p.at].arcs {
			if x.lo == '-' {
				out.arc(here, '-', '-', enter(pair{x.to, p.rest}))
				continue
			}
			for d := x.lo; d <= x.hi; d++ {
				out.arc(here, d, d, enter(pair{x.to, int32((int64(p.rest)*10 + int64(d-'0')) % int64(of))}))
			}
		}
		if len(out.places) > maxPlaces {
			return nil, errSize
		}
		if err := e.spend(20); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// of returns the numbers within bounds that are whole, or are not, or both.
func (b *numbers) of(e *effort, k kinds) (*dfa, error) {
	switch k {
	case integer:
		return b.integers(e)
	case number:
		return b.all(e)
	}
	all, err := b.all(e)
	if err != nil {
		return nil, err
	}
	p, err := parsePattern(`^-?[0-9]+\.[0-9]*[1-9][0-9]*$`)
	if err != nil {
		return nil, err
	}
	parts, err := p.bytes(e, "")
	if err != nil {
		return nil, err
	}
	return all.product(e, parts, false)
}

// integers returns the whole numbers within bounds.
func (b *numbers) integers(e *effort) (*dfa, error) {
	if b.step != nil {
		return b.multiples(e, b.step.Num(), 0) // of fractions in lowest terms, too
	}
	a := newNFA()
	least, most := fill(b.scaled(big.NewInt(1)))
	for _, end := range a.whole(0, least, most, 0) {
		a.end[end] = true
	}
	return a.determine(e)
}

// all returns the numbers within bounds.
func (b *numbers) all(e *effort) (*dfa, error) {
	if b.step != nil {
		digits, exact := b.step.FloatPrec()
		if !exact || digits > partDigits {
			return nil, fmt.Errorf("multiples of %s are not supported: it has more than %d digits behind the point",
				b.step.RatString(), partDigits)
		}
		return b.multiples(e, new(big.Int).Div(new(big.Int).Mul(b.step.Num(), power(digits)), b.step.Denom()), digits)
	}
	a := newNFA()
	if b.least == nil && b.most == nil {
		a.unbounded()
		return a.determine(e)
	}
	least, most := fill(b.scaled(big.NewInt(1)))
	for _, end := range a.whole(0, least, most, 0) {
		a.end[end] = true
	}
	a.fractions(least, most)
	if err := b.between(a); err != nil {
		return nil, err
	}
	return a.determine(e)
}

// unbounded adds any number, with some digits and an exponent of up to two.
func (a *nfa) unbounded() {
	begin, zero := a.place(), a.place()
	a.arc(0, '-', '-', begin)
	a.jump(0, begin)
	a.arc(begin, '0', '0', zero)
	first := a.place()
	a.arc(begin, '1', '9', first)
	whole := a.digits(first, 0, wholeDigits-1)
	a.jump(zero, whole)
	end := a.place()
	a.jump(whole, end)
	part := a.digits(a.text(whole, "."), 1, partDigits)
	a.jump(part, end)
	e := a.place()
	for _, at := range []int32{whole, part} {
		a.arc(at, 'e', 'e', e)
		a.arc(at, 'E', 'E', e)
	}
	sign := a.place()
	a.jump(e, sign)
	a.arc(e, '+', '+', sign)
	a.arc(e, '-', '-', sign)
	a.jump(a.digits(sign, 1, 2), end)
	a.end[end] = true
}

// whole leads along the whole numbers of least to most, with zeros in front up to some digits and no -0; it returns
// where they end.
func (a *nfa) whole(from int32, least, most *big.Int, digits int) (ends []int32) {
	if least.Cmp(most) > 0 {
		return nil
	}
	if least.Sign() < 0 {
		l, m := new(big.Int).Neg(most), new(big.Int).Neg(least)
		if l.Sign() <= 0 {
			l = big.NewInt(1)
		}
		ends = a.natural(a.text(from, "-"), l, m, digits)
	}
	if most.Sign() >= 0 {
		l := least
		if l.Sign() < 0 {
			l = new(big.Int)
		}
		ends = append(ends, a.natural(from, l, most, digits)...)
	}
	return ends
}

// natural leads along the numbers of least to most, neither negative.
func (a *nfa) natural(from int32, least, most *big.Int, digits int) (ends []int32) {
	lo, hi := padded(least, digits), padded(most, digits)
	for n := len(lo); n <= len(hi); n++ {
		l, h := lo, hi
		if n > len(lo) {
			l = "1" + strings.Repeat("0", n-1)
		}
		if n < len(hi) {
			h = strings.Repeat("9", n)
		}
		end := a.place()
		a.within(from, l, h, end)
		ends = append(ends, end)
	}
	return ends
}

func padded(n *big.Int, digits int) string {
	s := n.String()
	return strings.Repeat("0", max(0, digits-len(s))) + s
}

// within leads along the digits between two numbers of as many, at least one, to a place.
func (a *nfa) within(from int32, lo, hi string, to int32) {
	if len(lo) == 1 {
		a.arc(from, lo[0], hi[0], to)
		return
	}
	rest := len(lo) - 1
	least, most := strings.Repeat("0", rest), strings.Repeat("9", rest)
	part := func(first, last byte, lo, hi string) {
		next := a.place()
		a.arc(from, first, last, next)
		a.within(next, lo, hi, to)
	}
	first, last := lo[0], hi[0]
	if first == last {
		part(first, first, lo[1:], hi[1:])
		return
	}
	if lo[1:] != least {
		part(first, first, lo[1:], most)
		first++
	}
	if hi[1:] != most {
		part(last, last, least, hi[1:])
		last--
	}
	if first <= last {
		next := a.place()
		a.arc(from, first, last, next)
		for range rest - 1 {
			digit := a.place()
			a.arc(next, '0', '9', digit)
			next = digit
		}
		a.arc(next, '0', '9', to)
	}
}

// fractions adds the numbers with a point between two whole ones next to each other that are both within bounds, the
// smaller one included.
func (a *nfa) fractions(least, most *big.Int) {
	below := new(big.Int).Sub(most, big.NewInt(1))
	var ends []int32
	if l := maxInt(least, new(big.Int)); l.Cmp(below) <= 0 {
		ends = a.natural(0, l, below, 0)
	}
	if low := new(big.Int).Neg(least); low.Sign() > 0 { // -n.x for n from that of most to least-1
		l, h := maxInt(new(big.Int).Neg(most), new(big.Int)), new(big.Int).Sub(low, big.NewInt(1))
		if l.Cmp(h) <= 0 {
			ends = append(ends, a.natural(a.text(0, "-"), l, h, 0)...)
		}
	}
	for _, end := range ends {
		a.end[a.digits(a.text(end, "."), 1, partDigits)] = true
	}
}

func maxInt(x, y *big.Int) *big.Int {
	if x.Cmp(y) < 0 {
		return y
	}
	return x
}

// between adds the numbers with up to as many digits behind the point as the bounds have: those next to the bounds.
func (b *numbers) between(a *nfa) error {
	digits := 0
	for _, r := range []*big.Rat{b.least, b.most} {
		if r == nil {
			continue
		}
		n, exact := r.FloatPrec()
		if !exact || n > partDigits {
			return fmt.Errorf("bounds of more than %d digits behind the point are not supported", partDigits)
		}
		digits = max(digits, n)
	}
	if b.aboveLeast || b.belowMost {
		digits = max(digits, openDigits)
	}
	if digits == 0 {
		return nil
	}
	for n := 1; n <= digits; n++ {
		b.nextTo(a, n)
	}
	return nil
}

// nextTo adds the numbers with so many digits behind the point that are within bounds and next to them: with one bound,
// those up to the next whole number.
func (b *numbers) nextTo(a *nfa, digits int) {
	scale := power(digits)
	least, most := b.scaled(scale)
	if least == nil {
		least = new(big.Int).Sub(most, scale)
	}
	if most == nil {
		most = new(big.Int).Add(least, scale)
	}
	point := newNFA()
	for _, end := range point.whole(0, least, most, digits+1) {
		point.end[end] = true
	}
	a.pointed(point, digits)
}

// pointed adds numbers with a point before the last digits.
func (a *nfa) pointed(numbers *nfa, digits int) {
	left := numbers.toEnd()
	first := int32(len(a.places))
	for range numbers.places {
		a.place()
	}
	a.jump(0, first)
	for p, at := range numbers.places {
		from := first + int32(p)
		if left[p] == digits {
			from = a.text(from, ".")
		}
		for _, x := range at.arcs {
			a.arc(from, x.lo, x.hi, first+x.to)
		}
		a.end[first+int32(p)] = numbers.end[p]
	}
}

// toEnd is how many bytes lead from each place to the end; -1: as many as one likes, as at the beginning.
func (a *nfa) toEnd() []int {
	left := make([]int, len(a.places))
	for i := range left {
		left[i] = -1
		if a.end[i] {
			left[i] = 0
		}
	}
	for n, more := 0, true; more; n++ {
		more = false
		for p, at := range a.places {
			for _, x := range at.arcs {
				if p > 0 && left[p] < 0 && left[x.to] == n {
					left[p], more = n+1, true
				}
			}
		}
	}
	return left
}
