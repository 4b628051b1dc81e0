package draft

import (
	"cmp"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// guess is a token that the answer may be, and how probable that is as far as the small model can tell.
type guess struct {
	token int32
	p     float64
}

// mostGuesses is how many guesses at an answer are drafted at most.
func (o Options) mostGuesses() int {
	if o.Branches == AutoBranches {
		return MostBranches
	}
	return o.withDefaults().Branches
}

// guesses returns the tokens that can become branches at a position: the local one, then the best others, most probable
// first.
func (r *run) guesses(pos int, local int32, head *backend.Output) []guess {
	if r.Mode == Serial {
		return nil
	}
	all := r.likely(pos, local, head)
	at := slices.IndexFunc(all, func(g guess) bool { return g.token == local })
	first := all[at]
	copy(all[1:], all[:at])
	all[0] = first
	return all[:min(len(all), r.mostGuesses())]
}

// likely returns the local token and the candidates of the head, most probable first.
//
// Where the large model takes its best token, that is likely to be a token as the small model's probability of it says.
// Where it draws one, that is the one with the greatest sum of log-probability ÷ temperature and noise, and the noise is
// known here: so the probability is that of the sums, each with an error that the other model makes, as if that was
// distributed like the noise. Then it is the softmax of the sums, of which those that matter are at hand. Without noise
// and at temperature 1 both are the same.
func (r *run) likely(pos int, local int32, head *backend.Output) []guess {
	all := make([]guess, 0, len(head.Top)+1)
	for _, c := range head.Top {
		all = append(all, guess{c.ID, float64(c.Logit - head.LogSumExp)})
	}
	if !slices.ContainsFunc(all, func(g guess) bool { return g.token == local }) {
		all = append(all, guess{local, math.Log(float64(probability(head, local)))})
	}
	if !r.Sampling.Greedy() {
		r.drawn(pos, all)
	}
	for i := range all {
		all[i].p = math.Exp(all[i].p)
	}
	slices.SortStableFunc(all, func(a, b guess) int { return cmp.Compare(b.p, a.p) })
	return all
}

// drawn turns log-probabilities into those of being drawn, where the noise of the position is known.
func (r *run) drawn(pos int, all []guess) {
	for i, g := range all {
		all[i].p = g.p/r.Sampling.Temperature + r.Sampling.Noise(pos, g.token)
	}
	most := slices.MaxFunc(all, func(a, b guess) int { return cmp.Compare(a.p, b.p) }).p
	sum := 0.0
	for _, g := range all {
		sum += math.Exp(g.p - most)
	}
	for i := range all {
		all[i].p -= most + math.Log(sum)
	}
}
