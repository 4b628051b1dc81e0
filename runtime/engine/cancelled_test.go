//go:build !noasm

package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// leaving is a device that calls leave when a pass begins.
type leaving struct {
	backend.Device
	left  int // passes before that
	leave func()
}

func (d *leaving) Begin(kv backend.KV, rows []backend.Row) backend.Pass {
	if d.left--; d.left == 0 {
		d.leave()
	}
	return d.Device.Begin(kv, rows)
}

// TestCancelledPrompt: what was computed of a prompt before its client left stays, and the prompt goes on there when it
// is sent again, with the same tokens as if nothing had happened; with passes that sessions share, and without.
func TestCancelledPrompt(t *testing.T) {
	const tokens, rows = 1529, 512
	prompt := make([]int32, tokens)
	for i := range prompt {
		prompt[i] = int32(i * i % 251)
	}
	for name, c := range map[string]struct {
		alone bool
		piece int
	}{"shared": {false, promptAlone}, "alone": {true, rows}} {
		for pass := 1; (pass-1)*c.piece < tokens; pass++ {
			e := small(t, Options{Context: 2000}, func(s *synth.Spec) { s.Context = 2000 })
			e.model.Close()
			d := &leaving{Device: e.device}
			e.device = d
			var err error
			e.model, err = transformer.Load(e.file, d)
			require.NoError(t, err)
			if c.alone {
				e.batcher = nil
			}
			s := session(t, e)
			left := errors.New("left")
			ctx, cancel := context.WithCancelCause(t.Context())
			d.left, d.leave = pass, func() { cancel(left) }
			r := Route{Settings: terms.Settings{MaxTokens: 3, IgnoreEnd: true}}
			for _, err := range s.Routed(ctx, prompt, r) {
				require.ErrorIs(t, err, left)
			}
			done := (pass - 1) * c.piece
			assert.Equal(t, done, s.KVTokens(), "%s, in pass %d", name, pass)
			got := read(t, s, prompt, r)
			assert.Equal(t, done, s.Summary().ReusedTokens, "%s, in pass %d", name, pass)
			assert.Equal(t, read(t, session(t, e), prompt, r).ids, got.ids)
		}
	}
}
