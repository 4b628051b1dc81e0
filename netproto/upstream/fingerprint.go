package upstream

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// fingerprint is how an engine continues some fixed contexts: the most probable tokens of each, best first. Engines
// with the same weights agree but for rounding.
type fingerprint [][]terms.Candidate

const (
	printContexts = 8
	printTop      = 5

	// mostApart is the mean difference in nats, from which on two engines have different weights. Rounding activations
	// to 8 bits makes 0.03 to 0.08 for Qwen2.5-Coder-0.5B; that and the 1.5B are 0.4 to 0.8 apart.
	mostApart = 0.2
)

// takeFingerprint asks about contexts that are no text of users.
func (m *managedEngine) takeFingerprint(
	ctx context.Context, e dialect.Engine, f dialect.Facts,
) (all fingerprint, err error) {
	few := min(m.u.o.Vocabulary.Size(), 256)
	for i := range printContexts {
		n := 6 + 2*i
		a := dialect.Ask{K: min(printTop, f.Choices, m.u.o.Vocabulary.Size())}
		for j := range n {
			a.Context = append(a.Context, int32((7*j*j+13*j*n+n)%few))
		}
		r, err := m.askTrial(ctx, e, a)
		if err != nil {
			return nil, err
		}
		if len(r.Top) == 0 {
			r.Top = []terms.Candidate{{ID: r.Token}}
		}
		all = append(all, r.Top)
	}
	return all, nil
}

// meanDifference returns the mean difference of the log-probabilities of two fingerprints. A token that the other one
// does not list is less probable there than those that it lists; it counts as half a nat at least.
func (p fingerprint) meanDifference(q fingerprint) float64 {
	sum, n := 0.0, 0
	for i := range p {
		for _, pair := range [][2][]terms.Candidate{{p[i], q[i]}, {q[i], p[i]}} {
			other := pair[1]
			for _, c := range pair[0] {
				at := slices.IndexFunc(other, func(x terms.Candidate) bool { return x.ID == c.ID })
				if at >= 0 {
					sum += math.Abs(float64(c.LogProb - other[at].LogProb))
				} else {
					sum += math.Max(0.5, float64(c.LogProb-other[len(other)-1].LogProb))
				}
				n++
			}
		}
	}
	return sum / float64(n)
}

// checkFingerprint returns an error if the engine answers otherwise than the first engine that was in service did: it
// has another model, or other weights.
func (m *managedEngine) checkFingerprint(ctx context.Context, e dialect.Engine, f dialect.Facts) error {
	p, err := m.takeFingerprint(ctx, e, f)
	if err != nil {
		return classifyRefusal(err)
	}
	m.u.printed.Lock()
	defer m.u.printed.Unlock()
	if m.u.print == nil {
		m.u.print, m.u.printOf = p, m.url
		return nil
	}
	if by := m.u.print.meanDifference(p); !(by <= mostApart) {
		return &unsuitableError{fmt.Errorf("its answers are not those of %s: it has another model, or other weights "+
			"(its log-probabilities differ by %.2f on average): restart the gateway if that is wanted",
			m.u.printOf, by)}
	}
	return nil
}
