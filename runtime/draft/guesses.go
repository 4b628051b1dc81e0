package draft

import (
	"cmp"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// guess is a possible answer, with its probability under the small model.
type guess struct {
	token int32
	p     float64
}

func (o Options) maxGuesses() int {
	if o.Branches == AutoBranches {
		return MostBranches
	}
	return o.withDefaults().Branches
}

// answerGuesses returns the tokens that can become branches after a node: the local one, then the best others that may
// follow, most probable first.
func (o *rules) answerGuesses(n *node, local int32, head *backend.Output) []guess {
	if o.Mode == Serial {
		return nil
	}
	all := o.likelyTokens(n.pos+1, local, head)
	all = slices.DeleteFunc(all, func(g guess) bool { return !n.allowsToken(g.token) })
	at := slices.IndexFunc(all, func(g guess) bool { return g.token == local })
	first := all[at]
	copy(all[1:], all[:at])
	all[0] = first
	return all[:min(len(all), o.maxGuesses())]
}

// recordAlternatives notes the probability that the large model chooses c too, which follows n, and the most probable
// tokens that may take its place.
func (o *rules) recordAlternatives(n, c *node, all []guess) {
	const most = 3
	for _, g := range all {
		switch {
		case g.token == c.token:
			c.sure = g.p
		case len(n.others) < most && n.allowsToken(g.token) && !o.End(g.token) && !c.final:
			n.others = append(n.others, g)
		}
	}
}

// likelyTokens returns the local token and the candidates of the head, most probable first.
//
// The large model takes the token with the greatest logit. It is a given token with the small model's probability, as
// if the logits were the small model's with Gumbel noise. If it draws, at a temperature T, it takes the token with the
// greatest sum of logit and T times the noise of the position, which is known here: so the probability is proportional
// to p·exp(T·noise).
func (o *rules) likelyTokens(pos int, local int32, head *backend.Output) []guess {
	all := make([]guess, 0, len(head.Top)+1)
	for _, c := range head.Top {
		all = append(all, guess{c.ID, float64(c.Logit - head.LogSumExp)})
	}
	if !slices.ContainsFunc(all, func(g guess) bool { return g.token == local }) {
		all = append(all, guess{local, math.Log(float64(tokenProbability(head, local)))})
	}
	if !o.Sampling.Greedy() {
		o.applyGumbelNoise(pos, all)
	}
	for i := range all {
		all[i].p = math.Exp(all[i].p)
	}
	slices.SortStableFunc(all, func(a, b guess) int { return cmp.Compare(b.p, a.p) })
	return all
}

func (o *rules) applyGumbelNoise(pos int, all []guess) {
	most, sum := math.Inf(-1), 0.0
	for i, g := range all {
		all[i].p = g.p + o.Sampling.Temperature*sample.Noise(o.Sampling.Seed, pos, g.token)
		most = max(most, all[i].p)
	}
	for _, g := range all {
		sum += math.Exp(g.p - most)
	}
	for i := range all {
		all[i].p -= most + math.Log(sum)
	}
}
