package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dustin/go-humanize"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/internal/freemem"
	"github.com/pilotfish-ai/pilotfish/internal/hugemem"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
)

// HugePages says whether weights move from the pages of the file into memory in huge pages, which is read faster.
type HugePages string

// The values of [Options.HugePages].
const (
	HugeAuto HugePages = ""    // if the system has them, the CPU runs the model, and enough memory is free
	HugeOff  HugePages = "off" // never: other processes share the file's pages, and the system can take them back
	HugeOn   HugePages = "on"  // even if little memory is free; [Open] fails if it is impossible
)

// spareMemory is the number of bytes that must be free in addition to the weights for HugeAuto to move them: the system
// cannot reclaim this memory as it can reclaim the pages of a file.
const spareMemory = 256 << 20

// callsBeforeMove is the number of forward calls before weights begin to move. A move keeps a processor busy for ten
// calls and more, and makes later calls 7 to 20% shorter (bench/RESULTS.md): it does not pay for one short answer.
const callsBeforeMove = 32

// weightMove moves the weights of an engine while forward calls run, see [gguf.File.MoveToHugePages].
type weightMove struct {
	wanted bool
	free   func() (uint64, error) // [freemem.Bytes]
	calls  atomic.Int32           // of the model so far
	begin  sync.Once
	done   chan struct{}
	// why the weights, or some of them, do not move; set at the beginning if they are not to move, otherwise when done
	// is closed
	stay error
}

func (e *Engine) planMove() error {
	e.move.done, e.move.free = make(chan struct{}), freemem.Bytes
	switch e.o.HugePages {
	case HugeAuto, HugeOn:
		e.move.stay = e.cannotMove()
	case HugeOff:
		e.move.stay = errors.New("huge pages are off")
	default:
		return fmt.Errorf("huge pages cannot be %q: choose on, off, or nothing for where they are of use",
			e.o.HugePages)
	}
	if e.move.wanted = e.move.stay == nil; !e.move.wanted && e.o.HugePages == HugeOn {
		return fmt.Errorf("weights cannot move into huge pages: %w", e.move.stay)
	}
	return nil
}

func (e *Engine) cannotMove() error {
	if _, cpu := e.device.(*host.Device); !cpu {
		return fmt.Errorf("the backend %s maps the file's pages", cmp.Or(e.o.Backend, CPU))
	}
	if !e.file.Mapped() {
		return errors.New("the model is not mapped from a file")
	}
	if hugemem.Size() == 0 {
		return hugemem.ErrNone
	}
	return nil
}

func (e *Engine) countForward() {
	if e.move.wanted && e.move.calls.Add(1) == callsBeforeMove {
		e.moveWeights()
	}
}

func (e *Engine) moveWeights() {
	e.move.begin.Do(func() {
		done, err := e.keepOpen()
		if err != nil {
			return // closed
		}
		go func() {
			defer done()
			defer close(e.move.done)
			if e.move.stay = e.lacksMemory(); e.move.stay == nil {
				e.move.stay = e.file.MoveToHugePages(e.closing)
			}
		}()
	})
}

func (e *Engine) lacksMemory() error {
	if e.o.HugePages == HugeOn {
		return nil
	}
	free, err := e.move.free()
	if err != nil {
		return err
	}
	return checkSpareMemory(free, e.file.Size())
}

// checkSpareMemory returns an error if free bytes of memory are too few for weights of this size.
func checkSpareMemory(free uint64, weights int64) error {
	need := uint64(weights) + spareMemory
	if free >= need {
		return nil
	}
	return fmt.Errorf("%s of memory are free, the weights and %s to spare would be %s",
		humanize.Bytes(free), humanize.Bytes(spareMemory), humanize.Bytes(need))
}

// Weights describes where in memory the weights are.
type Weights struct {
	gguf.Placement
	Stay error // why they, or some of them, are still pages of the file; nil if they moved
}

// Weights waits until the weights have moved, if they are to move, and returns where they are. They begin to move after
// 32 forward calls, or when Weights is called.
func (e *Engine) Weights(ctx context.Context) (w Weights, err error) {
	done, err := e.keepOpen()
	if err != nil {
		return w, e.withFileName(ctx, err)
	}
	defer done()
	if e.move.wanted {
		e.moveWeights()
		select {
		case <-e.move.done:
		case <-e.closing.Done():
			return w, e.withFileName(ctx, ErrClosed)
		case <-ctx.Done():
			return w, errs.EndedBy(ctx, context.Cause(ctx))
		}
	}
	w.Stay = e.move.stay
	w.Placement, err = e.file.Placement()
	return w, e.withFileName(ctx, err)
}
