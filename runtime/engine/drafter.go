package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/pilotfish-ai/pilotfish/internal/freemem"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// drafter is a session of a small model as a [draft.Drafter].
type drafter struct {
	s     *Session
	known draft.Drafts // from all texts
	want  backend.Want // of every head
	out   []backend.Output
}

// openDrafter returns the drafter of a text, nil for none, and a function that ends its use.
func (s *Session) openDrafter(ctx context.Context, small *Engine) (d *drafter, done func(), err error) {
	if small == nil {
		return nil, func() {}, nil
	}
	if s.small == nil || s.small.s.e != small {
		if err := s.e.checkSameTokens(small); err != nil {
			return nil, nil, err
		}
		if s.small != nil {
			_ = s.small.s.Close() // never an error
		}
		s.small = &drafter{s: small.Session()}
	}
	if _, done, err = s.small.s.beginText(ctx); err != nil {
		return nil, nil, small.withFileName(ctx, err)
	}
	return s.small, done, nil
}

// Fit returns an error if a small model cannot draft for e: its tokens are others, or the memory is too small for the
// weights of both models and their keys and values in one full context.
func (e *Engine) Fit(small *Engine) error {
	if err := e.checkSameTokens(small); err != nil {
		return err
	}
	if free, err := freemem.Bytes(); err == nil {
		return e.fitsInto(free, small)
	}
	return nil // unknown
}

func (e *Engine) fitsInto(free uint64, small *Engine) error {
	need := uint64(e.file.Size()) + uint64(small.file.Size()) +
		uint64(e.kvBytes(e.o.Context)) + uint64(small.kvBytes(small.o.Context))
	if need > free {
		return fmt.Errorf("%s and %s need %s of memory together, and %s are free: use one of them alone, or a shorter "+
			"context", e.path, small.path, humanize.IBytes(need), humanize.IBytes(free))
	}
	return nil
}

// checkSameTokens returns an error if the tokens of a small model are not those of e.
func (e *Engine) checkSameTokens(small *Engine) error {
	ours, err := e.Identity()
	if err != nil {
		return err
	}
	theirs, err := small.Identity()
	if err != nil {
		return err
	}
	if _, err := ours.Compare(theirs); err != nil {
		return fmt.Errorf("%s: its tokens are not those of %s: give two models of one family", small.path, e.path)
	}
	return nil
}

func (d *drafter) Known(text []int32) int { return terms.CommonPrefix(d.s.ids, text[:len(text)-1]) }

func (d *drafter) Context() int { return d.s.e.o.Context }

func (d *drafter) Read(ctx context.Context, text []int32, heads int) ([]backend.Output, error) {
	if heads > len(text) {
		return nil, errors.New("more heads are wanted than the drafter's text has tokens")
	}
	d.s.truncateText(min(d.Known(text), len(text)-heads)) // heads are not kept: the last tokens are read again
	for len(d.out) < heads {
		d.out = append(d.out, backend.Output{})
	}
	rest := text[len(d.s.ids):]
	return d.out[:heads], d.s.e.withFileName(ctx, d.s.appendTokens(ctx, rest, d.out[:heads], d.want))
}
