package sample

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// RepeatWindow is how many tokens before a position RepeatPenalty looks at, as in llama.cpp.
const RepeatWindow = 64

// Place is the input of a choice by [Sampler.PickBy] in addition to the head.
type Place struct {
	Recent []int32       // the last [RepeatWindow] tokens, or fewer; see [terms.Settings].RepeatPenalty
	Counts map[int32]int // number of occurrences of a token in the answer
	Mask   []uint64      // tokens that may stand there, a bit each; nil: all
}

// PickBy returns the token at position pos by rules: the token of [Sampler.Pick] if the rules change nothing and all
// tokens are allowed. The head has all logits, or else its best tokens are used as if they were all. If no token is
// allowed, it returns -1.
//
// Logits are changed first, by bias, repeat penalty, and the other penalties; then tokens that are not allowed are left
// out; then PickBy does the same as [Sampler.Pick], with MinP last.
func (s *Sampler) PickBy(pos int, out *backend.Output, r *terms.Settings, at Place) int32 {
	can := s.allowedTokens(out, r, at)
	if len(can) == 0 {
		return -1
	}
	if s.o.Greedy() {
		best := can[0]
		for _, c := range can[1:] {
			if c.Logit > best.Logit { // of equal ones the first: ids rise
				best = c
			}
		}
		return best.ID
	}
	can = s.cutCandidates(can, r)
	best, _ := s.drawBestCandidate(pos, &backend.Output{Top: can[:1]}, can)
	return best
}

func (s *Sampler) allowedTokens(out *backend.Output, r *terms.Settings, at Place) []backend.Candidate {
	s.order = s.order[:0]
	switch {
	case len(out.Logits) == 0:
		for _, c := range out.Top {
			if at.Mask == nil || int(c.ID)>>6 < len(at.Mask) && at.Mask[c.ID>>6]>>(c.ID&63)&1 != 0 {
				s.order = append(s.order, c)
			}
		}
		slices.SortFunc(s.order, func(a, b backend.Candidate) int { return cmp.Compare(a.ID, b.ID) })
	case at.Mask == nil:
		s.candidatesFrom(out.Logits, math.Inf(-1))
	default:
		for i, word := range at.Mask {
			for ; word != 0; word &= word - 1 {
				if id := i<<6 | bits.TrailingZeros64(word); id < len(out.Logits) {
					s.order = append(s.order, backend.Candidate{ID: int32(id), Logit: out.Logits[id]})
				}
			}
		}
	}
	if r.Adjusts() {
		s.adjustLogits(r, at)
	}
	return s.order
}

func (s *Sampler) adjustLogits(r *terms.Settings, at Place) {
	about := s.about[:0]
	for id := range r.LogitBias {
		about = append(about, id)
	}
	if r.Repeats() {
		about = append(about, at.Recent...)
	}
	for id := range at.Counts {
		about = append(about, id)
	}
	slices.Sort(about)
	byID := func(c backend.Candidate, id int32) int { return int(c.ID) - int(id) }
	for _, id := range slices.Compact(about) {
		if i, ok := slices.BinarySearchFunc(s.order, id, byID); ok {
			s.order[i].Logit = adjustedLogit(r, id, s.order[i].Logit, at)
		}
	}
	s.about = about
}

func adjustedLogit(r *terms.Settings, id int32, logit float32, at Place) float32 {
	l := float64(logit) + float64(r.LogitBias[id])
	if r.Repeats() && slices.Contains(at.Recent, id) {
		if l > 0 {
			l /= r.RepeatPenalty
		} else {
			l *= r.RepeatPenalty
		}
	}
	if n := at.Counts[id]; n > 0 {
		l -= r.PresencePenalty + float64(n)*r.FrequencyPenalty
	}
	return finiteFloat32(l)
}

// cutCandidates returns the tokens of can that can be drawn, by temperature, top-k, top-p and min-p. If it leaves some
// out, the most probable come first.
func (s *Sampler) cutCandidates(can []backend.Candidate, r *terms.Settings) []backend.Candidate {
	if s.o.TopK == 0 && !s.usesTopP() && r.MinP == 0 {
		return can
	}
	best := slices.MaxFunc(can, func(a, b backend.Candidate) int { return compareByLogit(b, a) })
	mass := 0.0
	switch {
	case s.o.TopK > 0:
		can = topCandidates(can, s.o.TopK)
		mass = s.totalWeight(can)
	case s.usesTopP():
		for _, c := range can {
			mass += math.Exp(float64(c.Logit-best.Logit) / s.o.Temperature)
		}
		least := (1 - s.o.TopP) * mass / float64(len(can)) // see [Sampler.drawableTokens]
		can = s.dropBelowShare(can, best, least)
	}
	if r.MinP > 0 {
		can = s.dropBelowShare(can, best, r.MinP)
	}
	slices.SortFunc(can, compareByLogit)
	return s.cutNucleus(can, mass)
}

// dropBelowShare returns the tokens with at least a share of the weight of the best one.
func (s *Sampler) dropBelowShare(can []backend.Candidate, best backend.Candidate, share float64) []backend.Candidate {
	least := float64(best.Logit) + s.o.Temperature*math.Log(share)
	return slices.DeleteFunc(can, func(c backend.Candidate) bool { return float64(c.Logit) < least })
}

func topCandidates(can []backend.Candidate, k int) []backend.Candidate {
	room := max(4*k, 1024)
	best, last := can[:0], float32(math.Inf(-1)) // the logit of the k-th best so far
	for _, c := range can {
		if c.Logit < last {
			continue
		}
		if len(best) == room {
			slices.SortFunc(best, compareByLogit)
			best, last = best[:k], best[k-1].Logit
		}
		best = append(best, c)
	}
	slices.SortFunc(best, compareByLogit)
	return best[:min(k, len(best))]
}
