// Package sample chooses the next token from logits: the best one, or one drawn at random with noise that is a pure
// function of seed, position and token. A sampled run is therefore as repeatable as a greedy one, and an edge and a
// cloud that use one seed draw the same token as often as their distributions allow.
//
// Drawing is the Gumbel-max method: argmax over i of logit[i]/T + g[i] with independent standard Gumbel noise g has the
// distribution softmax(logit/T) (Gumbel 1954; Maddison, Tarlow and Minka, arXiv 1411.0030).
package sample

import (
	"cmp"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Sampler chooses tokens. It keeps memory between calls, and one goroutine may use it at a time.
type Sampler struct {
	o     terms.Sampling
	order []backend.Candidate // the tokens that can be drawn, most probable first
	about []int32             // tokens that rules affect
}

// New returns a sampler for a valid sampling.
func New(o terms.Sampling) (*Sampler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Sampler{o: o}, nil
}

// Want adds to w what [Sampler.Pick] needs of the head.
func (s *Sampler) Want(w backend.Want) backend.Want {
	w.K = max(w.K, 1)
	if !s.o.Greedy() {
		if s.o.TopK > 0 && s.o.TopK <= maxBest {
			w.K = max(w.K, s.o.TopK)
		} else {
			w.Logits = true
		}
	}
	return w
}

// maxBest is the maximum number of best tokens that the head finds cheaply; a larger choice uses all logits.
const maxBest = 256

// WantScores adds to w what [Sampler.Choose] needs of the head.
func (s *Sampler) WantScores(w backend.Want) backend.Want {
	w = s.Want(w)
	w.Logits = w.Logits || s.o.Greedy() // stands may be any token
	return w
}

// Pick returns the token at position pos of its text, from the output of the head for the position before. Temperature
// comes first, then top-k, then top-p: each acts on the distribution that the one before it leaves.
func (s *Sampler) Pick(pos int, out *backend.Output) int32 {
	if s.o.Greedy() {
		return out.Top[0].ID
	}
	best, _ := s.drawBestCandidate(pos, out, s.drawableTokens(out))
	return best
}

// Choose returns the token that Pick returns, its score, and the score of the token stands at pos. The score of a token
// is its log-probability; if tokens are drawn, it is the log-probability divided by the temperature, plus the noise of
// pos. A token that cannot be drawn, or that has no logit in the output, has the score -Inf. Other scores are finite,
// and that of the choice is the largest.
func (s *Sampler) Choose(pos int, out *backend.Output, stands int32) (choice int32, score, standing float32) {
	if s.o.Greedy() {
		top, lse := out.Top[0], float64(out.LogSumExp)
		score, standing = finiteFloat32(float64(top.Logit)-lse), float32(math.Inf(-1))
		if l, ok := logitOf(out, stands); ok {
			standing = finiteFloat32(float64(l) - lse)
		}
		return top.ID, score, standing
	}
	can := s.drawableTokens(out)
	choice, most := s.drawBestCandidate(pos, out, can)
	base := float64(out.LogSumExp) / s.o.Temperature
	score, standing = finiteFloat32(most-base), float32(math.Inf(-1))
	if i := slices.IndexFunc(can, func(c backend.Candidate) bool { return c.ID == stands }); i >= 0 {
		standing = finiteFloat32(float64(can[i].Logit)/s.o.Temperature + s.noiseAt(pos, stands).gumbel() - base)
	}
	return choice, score, standing
}

// drawBestCandidate returns the best of the tokens that can be drawn, and its logit at the temperature plus its noise.
func (s *Sampler) drawBestCandidate(pos int, out *backend.Output, can []backend.Candidate) (best int32, most float64) {
	best, most = out.Top[0].ID, math.Inf(-1)
	for _, c := range can {
		l, n := float64(c.Logit)/s.o.Temperature, s.noiseAt(pos, c.ID)
		if l+n.upperBound() <= most {
			continue // most tokens, without a logarithm
		}
		if v := l + n.gumbel(); v > most {
			best, most = c.ID, v
		}
	}
	return best, most
}

func (s *Sampler) noiseAt(pos int, id int32) noise { return noiseOf(s.o.Seed, uint64(pos), uint64(id)) }

func logitOf(out *backend.Output, id int32) (logit float32, ok bool) {
	if id >= 0 && int(id) < len(out.Logits) {
		return out.Logits[id], true
	}
	for _, c := range out.Top {
		if c.ID == id {
			return c.Logit, true
		}
	}
	return 0, false
}

// finiteFloat32 converts v to float32. It rounds a value that is too large, or NaN, to the largest or the least finite
// one.
func finiteFloat32(v float64) float32 {
	if !(v >= -math.MaxFloat32) {
		return -math.MaxFloat32
	}
	return float32(min(v, math.MaxFloat32))
}

func (s *Sampler) drawableTokens(out *backend.Output) []backend.Candidate {
	if k := s.o.TopK; k > 0 && (k <= len(out.Top) || len(out.Logits) == 0) {
		best := out.Top[:min(k, len(out.Top))] // a vocabulary of fewer than k gives fewer
		return s.cutNucleus(best, s.totalWeight(best))
	}
	if s.o.TopK > 0 {
		best := s.sortedCandidates(out.Logits, math.Inf(-1))
		best = best[:min(s.o.TopK, len(best))]
		return s.cutNucleus(best, s.totalWeight(best))
	}
	if !s.usesTopP() {
		return s.candidatesFrom(out.Logits, math.Inf(-1))
	}
	top, mass := float64(out.Top[0].Logit), 0.0
	for _, l := range out.Logits {
		mass += math.Exp((float64(l) - top) / s.o.Temperature)
	}
	// All V tokens with weights under (1-p)·mass/V together weigh less than (1-p)·mass, so the others reach p without
	// them: they need not be sorted.
	least := top + s.o.Temperature*math.Log((1-s.o.TopP)*mass/float64(len(out.Logits)))
	return s.cutNucleus(s.sortedCandidates(out.Logits, least), mass)
}

// candidatesFrom returns the tokens with logits of at least least, by rising id.
func (s *Sampler) candidatesFrom(logits []float32, least float64) []backend.Candidate {
	s.order = s.order[:0]
	for i, l := range logits {
		if float64(l) >= least {
			s.order = append(s.order, backend.Candidate{ID: int32(i), Logit: l})
		}
	}
	return s.order
}

func (s *Sampler) sortedCandidates(logits []float32, least float64) []backend.Candidate {
	c := s.candidatesFrom(logits, least)
	slices.SortFunc(c, compareByLogit)
	return c
}

// compareByLogit orders by falling logit, of equal ones by rising id.
func compareByLogit(a, b backend.Candidate) int {
	return cmp.Or(cmp.Compare(b.Logit, a.Logit), cmp.Compare(a.ID, b.ID))
}

func (s *Sampler) usesTopP() bool { return s.o.TopP > 0 && s.o.TopP < 1 }

// totalWeight returns Σ exp((l-max)/T) over c, sorted by falling logit.
func (s *Sampler) totalWeight(c []backend.Candidate) float64 {
	sum := 0.0
	for i := range c {
		sum += s.relativeWeight(c, i)
	}
	return sum
}

func (s *Sampler) relativeWeight(c []backend.Candidate, i int) float64 {
	return math.Exp(float64(c[i].Logit-c[0].Logit) / s.o.Temperature)
}

// cutNucleus cuts c, sorted by falling logit, to the fewest tokens that together reach the share top-p of mass
// (Holtzman et al., arXiv 1904.09751).
func (s *Sampler) cutNucleus(c []backend.Candidate, mass float64) []backend.Candidate {
	if !s.usesTopP() {
		return c
	}
	sum := 0.0
	for i := range c {
		if sum += s.relativeWeight(c, i); sum >= s.o.TopP*mass {
			return c[:i+1]
		}
	}
	return c
}
