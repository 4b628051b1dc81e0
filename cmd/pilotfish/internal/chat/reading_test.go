package chat

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestReading: after a second it is shown how much of the new part of a prompt has been read, whether a device reports
// operations or whole passes. It goes when the answer begins; of a short prompt nothing is shown.
func TestReading(t *testing.T) {
	op := func(at time.Duration, kind backend.OpKind, layer, rows int) pilotfish.Op {
		return pilotfish.Op{Kind: kind, Layer: int16(layer), Rows: int32(rows), End: at}
	}
	var out strings.Builder
	s := func() pilotfish.Stats {
		return pilotfish.Stats{Routing: pilotfish.Routing{PromptTokens: 300, ReusedTokens: 100}}
	}
	r := &promptProgress{w: &out, layers: 4}
	for layer := range 4 {
		for _, kind := range []backend.OpKind{backend.OpDelta, backend.OpProjectAdd, backend.OpNormGateUp} {
			r.countOperation(op(time.Duration(layer)*time.Second, kind, layer, 50), s)
		}
	}
	r.countOperation(op(time.Second, backend.OpHead, -1, 100), s)
	r.countOperation(op(time.Second, backend.OpEmbed, -1, 100), s)
	const half = "\rreading the question: 6%\rreading the question: 12%" +
		"\rreading the question: 18%\rreading the question: 25%"
	assert.Equal(t, half, out.String())
	r.countOperation(op(2*time.Second, backend.OpRun, -1, 150), s)
	r.clearProgress()
	r.clearProgress()
	r.countOperation(op(3*time.Second, backend.OpAttend, 1, 100), s)
	assert.Equal(t, half+"\rreading the question: 99%\r\x1b[K", out.String())

	out.Reset()
	r = &promptProgress{w: &out, layers: 2}
	r.countOperation(op(999*time.Millisecond, backend.OpRun, -1, 150), s)
	r.clearProgress()
	assert.Empty(t, out.String())
}
