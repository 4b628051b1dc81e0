package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// Errors of saved sessions. Other errors are those of the reader.
var (
	// ErrNotSaved is [transformer.ErrNotSaved].
	ErrNotSaved = transformer.ErrNotSaved
	// ErrOtherSaved is [transformer.ErrOtherSaved].
	ErrOtherSaved = transformer.ErrOtherSaved
)

// Save writes a text with the keys and values of its beginning that the session holds; nil means the text of the
// session. It returns the text. [Session.Load] reads it.
func (s *Session) Save(ctx context.Context, w io.Writer, text []int32) ([]int32, error) {
	ctx, done, err := s.beginText(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if text == nil {
		text = slices.Clone(s.ids)
	}
	kv := s.cache.KV()
	n := resumable(kv, terms.CommonPrefix(s.ids, text))
	if n == 0 {
		return nil, errors.New("the session holds nothing of the text: there are no keys and values to save")
	}
	as, err := s.e.saved()
	if err != nil {
		return nil, err
	}
	head, err := as.Head(text, n)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	if _, err := out.Write(head); err != nil {
		return nil, err
	}
	for part := range kvParts(kv, n) {
		if err := s.e.betweenPasses(ctx, func() error { return part.read(kv) }); err != nil {
			return nil, err
		}
		if _, err := out.Write(part.b); err != nil {
			return nil, err
		}
	}
	_, err = w.Write(sum.Sum(nil))
	return text, err
}

// kvPart is a part of what a KV store holds of the first n slots: a layer of keys and values, or the states after them.
type kvPart struct {
	layer int // of keys and values; -1 for the states
	n     int
	b     []byte
}

// kvParts returns the parts for n slots, one after the other, in the same memory.
func kvParts(kv backend.KV, n int) iter.Seq[kvPart] {
	return func(yield func(kvPart) bool) {
		c := kv.Config()
		b := make([]byte, c.LayerBytes(n))
		for layer := range c.Layers {
			if !yield(kvPart{layer, n, b}) {
				return
			}
		}
		if c.Delta.Layers > 0 {
			yield(kvPart{-1, n, make([]byte, c.Delta.SavedBytes(n, c.Type))})
		}
	}
}

func (p kvPart) read(kv backend.KV) error {
	if p.layer < 0 {
		return kv.(backend.DeltaKV).ReadState(p.n, p.b)
	}
	kv.Read(p.layer, p.n, p.b)
	return nil
}

// write writes the part to a store, for the first tokens of a text.
func (p kvPart) write(kv backend.KV, text []int32) error {
	if p.layer < 0 {
		return kv.(backend.DeltaKV).WriteState(text[:p.n], p.b)
	}
	kv.Write(p.layer, p.n, p.b)
	return nil
}

// resumable returns the number of the first n tokens of a store after which a text can go on without evaluating any of
// them again.
func resumable(kv backend.KV, n int) int {
	if kv.Config().Delta.Layers == 0 || n == 0 {
		return n
	}
	return kv.(backend.DeltaKV).Resume([]backend.Span{{From: 0, To: int32(n)}}, nil)
}

// Load replaces the session's text by a saved one, and returns it. Later tokens have the same bits as if the session
// had computed the text. After an error the session is empty. The error is [ErrNotSaved], [ErrOtherSaved],
// [ErrContext], or that of r.
func (s *Session) Load(ctx context.Context, r io.Reader) (text []int32, err error) {
	ctx, done, err := s.beginText(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	n := 0
	defer func() { s.restoreText(text[:n], err) }()
	s.clearText()
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	h, text, err := s.e.readSaved(in)
	if err != nil {
		return nil, err
	}
	if err := s.cache.Restore(h.Cached); err != nil {
		return nil, err
	}
	kv := s.cache.KV()
	for part := range kvParts(kv, h.Cached) {
		if err := transformer.ReadFull(in, part.b); err != nil {
			return nil, err
		}
		if err := s.e.betweenPasses(ctx, func() error { return part.write(kv, text) }); err != nil {
			return nil, err
		}
	}
	want, got := sum.Sum(nil), make([]byte, sha256.Size)
	switch err := transformer.ReadFull(r, got); {
	case err != nil:
		return nil, err
	case !bytes.Equal(got, want):
		return nil, transformer.NotSaved("the checksum is wrong")
	}
	if n, _ := r.Read(got); n > 0 {
		return nil, transformer.NotSaved("more bytes follow")
	}
	n = h.Cached
	return text, nil
}

// CopyFrom replaces the session's text by the first tokens of another session's text, up to most, with their keys and
// values. Both are of the same engine. After an error the session is empty.
func (s *Session) CopyFrom(ctx context.Context, from *Session, most int) (err error) {
	if s.e != from.e {
		return errors.New("keys and values cannot be copied: the sessions are of two models")
	}
	_, left, err := from.beginText(ctx)
	if err != nil {
		return err
	}
	defer left()
	ctx, done, err := s.beginText(ctx)
	if err != nil {
		return err
	}
	defer done()
	source, kv := from.cache.KV(), s.cache.KV()
	text := from.ids[:resumable(source, min(max(most, 0), len(from.ids)))]
	defer func() { s.restoreText(text, err) }()
	s.clearText()
	if err := s.cache.Restore(len(text)); err != nil {
		return err
	}
	for part := range kvParts(source, len(text)) {
		err := s.e.betweenPasses(ctx, func() error {
			if err := part.read(source); err != nil {
				return err
			}
			return part.write(kv, text)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) clearText() {
	s.cache.Truncate(0)
	s.ids = nil
}

// restoreText sets the session's text to the content of the cache, or to nothing after an error.
func (s *Session) restoreText(text []int32, err error) {
	if err != nil {
		s.clearText()
	} else {
		s.ids = slices.Clone(text)
	}
	s.publishSummary()
}

func (e *Engine) betweenPasses(ctx context.Context, f func() error) error {
	if ctx.Err() != nil { // the select below may take a free turn even if ctx has ended
		return context.Cause(ctx)
	}
	done, err := e.acquireModel(ctx)
	if err != nil {
		return err
	}
	defer done()
	return f()
}

func (e *Engine) savedHeader() (h transformer.Saved, err error) {
	h.Model, err = e.file.Fingerprint()
	h.Device, _, _ = strings.Cut(e.name, ", threads") // their number changes no bits
	h.Type, h.Program = e.kvType.String(), transformer.ProgramVersion()
	return h, err
}

// SavedText returns the text of a saved session, if [Session.Load] can read it here. It reads only the head and does
// not detect damage after it.
func (e *Engine) SavedText(r io.Reader) ([]int32, error) {
	done, err := e.keepOpen()
	if err != nil {
		return nil, err
	}
	defer done()
	_, text, err := e.readSaved(r)
	return text, err
}

func (e *Engine) readSaved(r io.Reader) (h transformer.Saved, text []int32, err error) {
	own, err := e.saved()
	if err != nil {
		return h, nil, err
	}
	return transformer.ReadSaved(r, own, e.o.Context, e.model.Config().Vocab)
}
