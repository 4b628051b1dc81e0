package lookup

const (
	// lengths is the number of match lengths with separate rates; longer matches share the last rate.
	lengths = 16
	// priorWeight is the number of observations that the initial assumption counts for.
	priorWeight = 4
	// memory is the approximate number of observations of a length that are remembered.
	memory = 64
	// rarest and surest are the lower and the upper bound of a rate.
	rarest, surest = 0.005, 0.995
)

// Rate estimates how often the guess after a match is the token that follows, by the length of the match. It can learn
// from every token, whether the guess was evaluated or not. So guesses that fail soon cost nothing, and they are made
// again when a text begins to repeat. Old observations fade, because texts change.
//
// The zero value assumes that one guess in three is accepted after a match of 2 tokens, and nearly every guess after a
// long match.
type Rate struct {
	right, seen [lengths + 1]float64 // by length, fading sums of observations, which begin with the assumption
}

func assumedRate(length int) float64 { return 1 - 4/(3*float64(length)) }

func lengthBucket(length int) int { return max(pair, min(length, lengths)) }

// Learn records whether the guess after a match of the given length was the token that followed.
func (r *Rate) Learn(length int, right bool) {
	b := lengthBucket(length)
	const keep = 1 - 1./memory
	if r.seen[b] == 0 {
		r.right[b], r.seen[b] = priorWeight*assumedRate(b), priorWeight
	}
	r.right[b] *= keep
	r.seen[b] = r.seen[b]*keep + 1
	if right {
		r.right[b]++
	}
}

// Of returns the probability that the guess after a match of the given length is accepted. It is greater than 0 and
// less than 1.
func (r *Rate) Of(length int) float64 {
	b := lengthBucket(length)
	if r.seen[b] == 0 {
		return assumedRate(b)
	}
	return max(rarest, min(r.right[b]/r.seen[b], surest))
}

// Chances returns, for n guesses after a match of the given length, the probability that each guess and all before it
// are accepted: the product of the rates, because an accepted guess makes the match longer by one.
func (r *Rate) Chances(length, n int) []float64 {
	all := make([]float64, n)
	for i, p := 0, 1.0; i < n; i++ {
		p *= r.Of(length + i)
		all[i] = p
	}
	return all
}
