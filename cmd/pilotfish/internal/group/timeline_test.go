package group

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
)

// TestCellName: the name of a cell has the parameters that it sets.
func TestCellName(t *testing.T) {
	c := outcome.Cell{RTT: 40}
	assert.Equal(t, "40 ms", CellName(&c))
	c.Loss, c.EdgeTPS, c.Trace = 0.02, 12.5, "5g"
	assert.Equal(t, "40 ms, loss 0.02, 12.5 tokens/s, 5g", CellName(&c))
}
