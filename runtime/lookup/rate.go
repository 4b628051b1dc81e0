package lookup

const (
	// lengths is how many lengths of a match have a rate of their own; longer ones share the last.
	lengths = 16
	// priorWeight is how many observations what is assumed at the start counts for.
	priorWeight = 4
	// memory is about how many observations of a length are remembered.
	memory = 64
	// rarest and surest bound a rate: nothing is certain.
	rarest, surest = 0.005, 0.995
)

// Rate learns how often the guess behind a match is the token that follows, by the length of the match. It can be
// taught at every token, whether the guess was evaluated or not: so guesses that fail stop costing anything, and come
// back by themselves when a text begins to repeat. Old observations are forgotten, since texts change.
//
// The zero value knows nothing and assumes: at a match of 2 tokens one guess in three is accepted, at long ones nearly
// all.
type Rate struct {
	right, seen [lengths + 1]float64 // by length, sums of observations that fade, the first of them what is assumed
}

// assumed is the rate of a length that nothing is known of.
func assumed(length int) float64 { return 1 - 4/(3*float64(length)) }

func bucket(length int) int { return max(pair, min(length, lengths)) }

// Learn notes whether the guess behind a match of a length was the token that followed.
func (r *Rate) Learn(length int, right bool) {
	b := bucket(length)
	const keep = 1 - 1./memory
	if r.seen[b] == 0 {
		r.right[b], r.seen[b] = priorWeight*assumed(b), priorWeight
	}
	r.right[b] *= keep
	r.seen[b] = r.seen[b]*keep + 1
	if right {
		r.right[b]++
	}
}

// Of is the probability that the guess behind a match of a length is accepted, between 0 and 1, both excluded.
func (r *Rate) Of(length int) float64 {
	b := bucket(length)
	if r.seen[b] == 0 {
		return assumed(b)
	}
	return max(rarest, min(r.right[b]/r.seen[b], surest))
}

// Chances returns, for n guesses behind a match of a length, the probability that all up to each are accepted: the
// product of the rates, as a guess that is accepted makes the match longer by one.
func (r *Rate) Chances(length, n int) []float64 {
	all := make([]float64, n)
	for i, p := 0, 1.0; i < n; i++ {
		p *= r.Of(length + i)
		all[i] = p
	}
	return all
}
