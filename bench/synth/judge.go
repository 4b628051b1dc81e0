package synth

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Judge returns a judge of arbitrary weights for a large model with hidden states of a width. Its probabilities spread
// around one half.
func Judge(width int) (*router.Judge, error) {
	l := router.Layer{In: 2*width + 2, Out: 1, Bias: []float32{0}}
	for i := range l.In {
		l.Weight = append(l.Weight, float32(math.Sin(float64(7*i)))/16)
	}
	n, err := router.NewNet([]router.Layer{l}, true)
	return &router.Judge{Net: n}, err
}
