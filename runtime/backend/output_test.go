package backend

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestLogProbs: a head returns log-probabilities of all of its tokens, and a head made from log-probabilities returns
// these.
func TestLogProbs(t *testing.T) {
	o := Output{Top: []Candidate{{ID: 7, Logit: 3}, {ID: 2, Logit: 1.5}}, LogSumExp: 3.25}
	both := []terms.Candidate{{ID: 7, LogProb: -0.25}, {ID: 2, LogProb: -1.75}}
	assert.Equal(t, both, o.LogProbs(2))
	assert.Equal(t, both, o.LogProbs(9))
	assert.Equal(t, both[:1], o.LogProbs(1))
	assert.Nil(t, o.LogProbs(0))
	assert.Nil(t, o.LogProbs(-1))
	head := FromLogProbs(both)
	assert.Equal(t, both, head.LogProbs(2))
}
