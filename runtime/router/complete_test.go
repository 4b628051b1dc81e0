package router

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestComplete: what is given takes precedence; a certificate holds for its policy, where no budget is given and a
// balance could take over; and what neither says is a budget.
func TestComplete(t *testing.T) {
	certified := &File{Net: new(Net), Certificate: &Certificate{Policy: Learned, Threshold: 0.25, Budget: 0.1},
		Confidences: []float32{0.5}}
	unwatched := &File{Net: new(Net), Certificate: certified.Certificate}
	judge, half := &File{Judge: new(Judge)}, 0.5
	for name, c := range map[string]struct {
		f         *File
		o         Options
		policy    Policy
		threshold float64
		budget    float64 // of a fallback if by is set
		by        bool
	}{
		"nothing":                  {nil, Options{}, Verify, 0, DefaultBudget, false},
		"a threshold":              {nil, Options{Threshold: &half}, Margin, half, 0, false},
		"a budget":                 {nil, Options{Budget: 0.3}, Verify, 0, 0.3, false},
		"never":                    {nil, Options{Policy: Never, Budget: 0.3}, Never, 0, 0, false},
		"a certificate":            {certified, Options{}, Learned, 0.25, 0.1, true},
		"and a threshold":          {certified, Options{Threshold: &half}, Learned, half, 0, false},
		"and a budget":             {certified, Options{Budget: 0.3}, Learned, 0, 0.3, false},
		"of another policy":        {certified, Options{Policy: Margin}, Margin, 0, DefaultBudget, false},
		"and a balance":            {certified, Options{Balance: new(Balance)}, Learned, 0.25, 0.1, true},
		"without confidences":      {unwatched, Options{}, Learned, 0.25, 0, true},
		"and a balance in vain":    {unwatched, Options{Balance: new(Balance)}, Learned, 0, DefaultBudget, false},
		"a judge":                  {judge, Options{}, Judged, 0, DefaultBudget, false},
		"a judge with a threshold": {judge, Options{Threshold: &half}, Judged, half, 0, false},
	} {
		o, by, err := c.f.Complete(c.o)
		require.NoError(t, err, name)
		assert.Equal(t, c.policy, o.Policy, name)
		assert.Equal(t, c.budget, o.Bound(), name)
		assert.Equal(t, c.by, by != nil, name)
		assert.Equal(t, c.threshold > 0, o.Threshold != nil, name)
		if o.Threshold != nil {
			assert.Equal(t, c.threshold, *o.Threshold, name)
		}
	}
	o, _, err := judge.Complete(Options{Policy: Learned})
	assert.ErrorContains(t, err, "only a judge")
	assert.Equal(t, Learned, o.Policy)
}
