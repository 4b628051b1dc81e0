package train

import "math"

// The constants of Adam that its authors recommend.
const (
	beta1, beta2 = 0.9, 0.999
	epsilon      = 1e-8
)

// adam is the state of the optimiser: after t gradients g,
//
//	m = β₁·m + (1-β₁)·g    v = β₂·v + (1-β₂)·g²    θ -= rate · (m/(1-β₁ᵗ) / (√(v/(1-β₂ᵗ)) + ε) + decay·θ)
//
// The decay of the weights is that of AdamW (Loshchilov and Hutter, arXiv 1711.05101).
type adam struct {
	m, v        []float32
	rate        float64
	decay       float64
	done, steps int
}

func newAdam(n int, rate, decay float64, steps int) *adam {
	return &adam{m: make([]float32, n), v: make([]float32, n), rate: rate, decay: decay, steps: steps}
}

// adamStep holds the constants of one step.
type adamStep struct{ rate, m, v float64 } // the rate; 1/(1-β₁ᵗ); 1/(1-β₂ᵗ)

func (a *adam) nextStep() adamStep {
	a.done++
	t := float64(a.done)
	return adamStep{a.rate * scheduledRate(a.done, a.steps), 1 / (1 - math.Pow(beta1, t)), 1 / (1 - math.Pow(beta2, t))}
}

// scheduledRate returns the share of the full rate at a step, from 1: it rises over the first twentieth and then falls
// along half a cosine, to a hundredth.
func scheduledRate(step, steps int) float64 {
	warm := max(1, steps/20)
	if step <= warm {
		return float64(step) / float64(warm)
	}
	return 0.01 + 0.99*0.5*(1+math.Cos(math.Pi*float64(step-warm)/float64(max(1, steps-warm))))
}

func (a *adam) updateWeights(theta, g []float32, lo int, at adamStep) {
	for i, g := range g {
		i += lo
		m := beta1*float64(a.m[i]) + (1-beta1)*float64(g)
		v := beta2*float64(a.v[i]) + (1-beta2)*float64(g)*float64(g)
		a.m[i], a.v[i] = float32(m), float32(v)
		theta[i] -= float32(at.rate * (m*at.m/(math.Sqrt(v*at.v)+epsilon) + a.decay*float64(theta[i])))
	}
}
