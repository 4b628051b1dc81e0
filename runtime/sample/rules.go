package sample

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// RepeatWindow is how many tokens before a position RepeatPenalty looks at, as in llama.cpp.
const RepeatWindow = 64

// Rules change what can be drawn by the text that stands there. The zero value changes nothing.
type Rules struct {
	// MinP, with a temperature: only tokens that have at least this share of the probability of the best one can be
	// drawn, in [0, 1]; after the temperature, as with the others.
	MinP float64
	// RepeatPenalty divides the logits of the last [RepeatWindow] tokens by it, or multiplies them if they are
	// negative.
	// 0 and 1 change nothing.
	RepeatPenalty float64
	// PresencePenalty is taken off the logit of each token that the answer has; FrequencyPenalty as often as it has it.
	PresencePenalty, FrequencyPenalty float64
	// Bias is added to the logits of some tokens, -100 to 100.
	Bias map[int32]float32
}

// Validate reports a value that is out of range.
func (r Rules) Validate() error {
	finite := func(name string, v float64) error {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: %v is not a number", name, v)
		}
		return nil
	}
	switch {
	case !(r.MinP >= 0 && r.MinP <= 1):
		return fmt.Errorf("min-p: %v is not within 0 to 1", r.MinP)
	case !(r.RepeatPenalty >= 0) || math.IsInf(r.RepeatPenalty, 1):
		return fmt.Errorf("repeat penalty: %v is not a number of at least 0", r.RepeatPenalty)
	}
	for id, b := range r.Bias {
		if !(b >= -100 && b <= 100) {
			return fmt.Errorf("logit bias: %v of token %d is not within -100 to 100", b, id)
		}
	}
	if err := finite("presence penalty", r.PresencePenalty); err != nil {
		return err
	}
	return finite("frequency penalty", r.FrequencyPenalty)
}

// Any reports whether something is changed for choices by o.
func (r Rules) Any(o terms.Sampling) bool { return r.MinP > 0 && !o.Greedy() || r.Adjusts() }

// Adjusts reports whether logits are changed.
func (r Rules) Adjusts() bool {
	return r.repeats() || r.PresencePenalty != 0 || r.FrequencyPenalty != 0 || len(r.Bias) > 0
}

func (r Rules) repeats() bool { return r.RepeatPenalty != 0 && r.RepeatPenalty != 1 }

// Place is what a choice by [Rules] depends on besides the head.
type Place struct {
	Recent []int32       // the last [RepeatWindow] tokens, or fewer; see [Rules.RepeatPenalty]
	Counts map[int32]int // how often the answer has a token
	Mask   []uint64      // tokens that may stand there, a bit each; nil: all
}

// PickBy returns the token at position pos by rules: that of [Sampler.Pick] where they change nothing and all tokens
// may stand there. The head has all logits, or its best tokens stand for all. If no token may stand there, it is -1.
//
// Logits are changed first, by bias, repeat penalty, and the other penalties; tokens that may not stand there are left
// out; then comes what [Sampler.Pick] does, and MinP last.
func (s *Sampler) PickBy(pos int, out *backend.Output, r Rules, at Place) int32 {
	can := s.possible(out, r, at)
	if len(can) == 0 {
		return -1
	}
	if s.o.Greedy() {
		best := can[0]
		for _, c := range can[1:] {
			if c.Logit > best.Logit || c.Logit == best.Logit && c.ID < best.ID {
				best = c
			}
		}
		return best.ID
	}
	can = s.cut(can, r)
	best, _ := s.draw(pos, &backend.Output{Top: can[:1]}, can)
	return best
}

// possible returns the tokens that may stand at a place, with logits as the rules change them.
func (s *Sampler) possible(out *backend.Output, r Rules, at Place) []backend.Candidate {
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
		s.candidates(out.Logits, math.Inf(-1))
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
		s.change(r, at)
	}
	return s.order
}

// change changes the logits of s.order, which has rising ids, of the tokens that the rules are about.
func (s *Sampler) change(r Rules, at Place) {
	about := s.about[:0]
	for id := range r.Bias {
		about = append(about, id)
	}
	if r.repeats() {
		about = append(about, at.Recent...)
	}
	for id := range at.Counts {
		about = append(about, id)
	}
	slices.Sort(about)
	byID := func(c backend.Candidate, id int32) int { return int(c.ID) - int(id) }
	for _, id := range slices.Compact(about) {
		if i, ok := slices.BinarySearchFunc(s.order, id, byID); ok {
			s.order[i].Logit = r.change(id, s.order[i].Logit, at)
		}
	}
	s.about = about
}

// change returns the logit of a token as the rules change it.
func (r Rules) change(id int32, logit float32, at Place) float32 {
	l := float64(logit) + float64(r.Bias[id])
	if r.repeats() && slices.Contains(at.Recent, id) {
		if l > 0 {
			l /= r.RepeatPenalty
		} else {
			l *= r.RepeatPenalty
		}
	}
	if n := at.Counts[id]; n > 0 {
		l -= r.PresencePenalty + float64(n)*r.FrequencyPenalty
	}
	return finite(l)
}

// cut returns those of some tokens that can be drawn, by temperature, top-k, top-p and min-p, most probable first where
// there are fewer.
func (s *Sampler) cut(can []backend.Candidate, r Rules) []backend.Candidate {
	if s.o.TopK == 0 && !s.cuts() && r.MinP == 0 {
		return can
	}
	best := slices.MaxFunc(can, func(a, b backend.Candidate) int { return compare(b, a) })
	mass := 0.0
	switch {
	case s.o.TopK > 0:
		can = top(can, s.o.TopK)
		mass = s.mass(can)
	case s.cuts():
		for _, c := range can {
			mass += math.Exp(float64(c.Logit-best.Logit) / s.o.Temperature)
		}
		least := (1 - s.o.TopP) * mass / float64(len(can)) // see [Sampler.choice]
		can = s.atLeast(can, best, least)
	}
	if r.MinP > 0 {
		can = s.atLeast(can, best, r.MinP)
	}
	slices.SortFunc(can, compare)
	return s.nucleus(can, mass)
}

// atLeast leaves those of some tokens that have a share of the weight of the best one.
func (s *Sampler) atLeast(can []backend.Candidate, best backend.Candidate, share float64) []backend.Candidate {
	least := float64(best.Logit) + s.o.Temperature*math.Log(share)
	return slices.DeleteFunc(can, func(c backend.Candidate) bool { return float64(c.Logit) < least && c.ID != best.ID })
}

// top leaves the k best of some tokens, in order.
func top(can []backend.Candidate, k int) []backend.Candidate {
	room := max(4*k, 1024)
	best, last := can[:0], float32(math.Inf(-1)) // the logit of the k-th best so far
	for _, c := range can {
		if c.Logit < last {
			continue
		}
		if len(best) == room {
			slices.SortFunc(best, compare)
			best, last = best[:k], best[k-1].Logit
		}
		best = append(best, c)
	}
	slices.SortFunc(best, compare)
	return best[:min(k, len(best))]
}
