package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// builtIn is the built-in engine of a world's gateway: the real service of package batch, with little memory, and a
// model whose token after a text follows from what its last row sees there. So a row that was forgotten, taken from
// another text, or left from before gives another token.
type builtIn struct {
	s    *batch.Service
	of   *truth
	mu   sync.Mutex
	kept [worldSlots]int32 // tokens of the slots, from 1 on; 0: none
}

// worldSlots is the memory in tokens: some texts of the devices.
const worldSlots = 200

// newBuiltIn starts a service.
func newBuiltIn(of *truth) (*builtIn, error) {
	e := &builtIn{of: of}
	var err error
	e.s, err = batch.New(e, slots{}, batch.Options{Rows: 16})
	return e, err
}

// Forward implements [batch.Model].
func (e *builtIn) Forward(
	ctx context.Context, _ backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	model, err := e.of.pass(ctx, 2*time.Millisecond+time.Duration(len(rows))*500*time.Microsecond)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range rows {
		e.kept[r.Slot] = r.Token + 1
	}
	for i, at := range want.Rows {
		var text []int32
		for _, s := range rows[at].See {
			for _, token := range e.kept[s.From:s.To] {
				text = append(text, token-1)
			}
		}
		out[i] = backend.Output{Top: []backend.Candidate{{ID: after(model, text)}}}
	}
	return nil
}

func (e *builtIn) Info() gateway.Info { return e.of.Info() }

func (e *builtIn) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	a, err := e.s.Ask(ctx, q)
	return a.Reply, err
}

// Next implements [gateway.Decoder].
func (e *builtIn) Next(ctx context.Context, q terms.Job) (int32, error) {
	q.Priority = terms.Ahead
	a, err := e.s.Ask(ctx, q)
	return a.Token, asBusy(err)
}

// Warm implements [gateway.Warmer].
func (e *builtIn) Warm(ctx context.Context, q terms.Job) error {
	q.Priority = terms.Background
	_, err := e.s.Ask(ctx, q)
	return asBusy(err)
}

func asBusy(err error) error {
	if errors.Is(err, batch.ErrShed) {
		return fmt.Errorf("%w: %w", netproto.Busy, err)
	}
	return err
}

func (e *builtIn) Forget(session uint64) {
	_ = e.s.Forget(context.Background(), session) // fails only if the service is closed
}

// end ends the service of a gateway that has ended.
func (e *builtIn) end() error {
	defer e.s.Close()
	if s := e.s.Stats(); s.Waiting > 0 {
		return fmt.Errorf("the built-in engine ended with %+v", s)
	}
	return nil
}

// slots is the shape of the memory of a [builtIn].
type slots struct{ backend.KV }

func (slots) Config() backend.KVConfig { return backend.KVConfig{Slots: worldSlots} }
