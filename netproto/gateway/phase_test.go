package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/phase/phasetest"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestPhase: profiles distinguish the work of the gateway from that of its caller.
func TestPhase(t *testing.T) {
	seen := make(chan map[string][]string, 1)
	up := &fake{change: func(terms.Job, *terms.Reply) error { seen <- phasetest.Here(t); return nil }}
	ask(t, session(t, dial(t, start(t, "", gateway.Options{}, up), nil)), path(12, 1))
	assert.Equal(t, []string{"gateway"}, (<-seen)["phase"])
	assert.Empty(t, phasetest.Here(t))
}
