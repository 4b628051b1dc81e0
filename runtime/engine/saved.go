package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/prefix"
	"github.com/pilotfish-ai/pilotfish/internal/quote"
)

// A saved session is
//
//	magic   8 bytes: savedMagic
//	length  u32 of the header, at most longestHeader
//	header  JSON: savedHeader
//	text    u32 for each token
//	layers  [Layers][Cached][2, KVHeads·HeadSize] elements: see [backend.KV].Read
//	sum     SHA-256 of all that is before
//
// with numbers in little endian.
const (
	savedMagic    = "PFISHKV\x01" // its last byte is the version of the format
	longestHeader = 4096
)

// savedHeader holds all that keys and values depend on, and their number.
type savedHeader struct {
	Model   string `json:"model"`   // fingerprint of its file
	Program string `json:"program"` // version
	Device  string `json:"device"`  // with all that changes bits
	Type    string `json:"kv"`      // of elements
	Tokens  int    `json:"tokens"`  // of the text
	Cached  int    `json:"cached"`  // the first of these tokens, with keys and values in layers
}

// Errors of saved sessions. Other errors are those of the reader.
var (
	// ErrNotSaved means that the bytes are not a saved session, or a damaged one.
	ErrNotSaved = errors.New("these are no saved keys and values, or they are damaged")
	// ErrOtherSaved means that a saved session is of another model, of other settings or of another program.
	ErrOtherSaved = errors.New("these keys and values are of another model, settings or program")
)

// notSaved is an ErrNotSaved with its reason.
func notSaved(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotSaved, fmt.Sprintf(format, args...))
}

// Save writes a text with the keys and values of its beginning that the session holds; nil means the text of the
// session. It returns the text. [Session.Load] reads it.
func (s *Session) Save(ctx context.Context, w io.Writer, text []int32) ([]int32, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if text == nil {
		text = slices.Clone(s.ids)
	}
	n := prefix.Len(s.ids, text)
	if n == 0 {
		return nil, errors.New("the session holds nothing of the text: there are no keys and values to save")
	}
	head, err := s.e.savedHead(text, n)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	if _, err := out.Write(head); err != nil {
		return nil, err
	}
	kv := s.cache.KV()
	b := make([]byte, kv.Config().LayerBytes(n))
	for layer := range kv.Config().Layers {
		if err := s.e.between(ctx, func() { kv.Read(layer, n, b) }); err != nil {
			return nil, err
		}
		if _, err := out.Write(b); err != nil {
			return nil, err
		}
	}
	_, err = w.Write(sum.Sum(nil))
	return text, err
}

// Load replaces the session's text by a saved one, and returns it. Later tokens have the same bits as if the session
// had computed the text. After an error the session is empty. The error is [ErrNotSaved], [ErrOtherSaved],
// [ErrContext], or that of r.
func (s *Session) Load(ctx context.Context, r io.Reader) (text []int32, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	n := 0
	defer func() { s.refill(text[:n], err) }()
	s.empty()
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
	b := make([]byte, kv.Config().LayerBytes(h.Cached))
	for layer := range kv.Config().Layers {
		if err := readFull(in, b); err != nil {
			return nil, err
		}
		if err := s.e.between(ctx, func() { kv.Write(layer, h.Cached, b) }); err != nil {
			return nil, err
		}
	}
	want, got := sum.Sum(nil), make([]byte, sha256.Size)
	switch err := readFull(r, got); {
	case err != nil:
		return nil, err
	case !bytes.Equal(got, want):
		return nil, notSaved("the checksum is wrong")
	}
	if n, _ := r.Read(got); n > 0 {
		return nil, notSaved("more bytes follow")
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
	_, left, err := from.begin(ctx)
	if err != nil {
		return err
	}
	defer left()
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	text := from.ids[:min(max(most, 0), len(from.ids))]
	defer func() { s.refill(text, err) }()
	s.empty()
	if err := s.cache.Restore(len(text)); err != nil {
		return err
	}
	b := make([]byte, s.cache.KV().Config().LayerBytes(len(text)))
	for layer := range s.cache.KV().Config().Layers {
		err := s.e.between(ctx, func() {
			from.cache.KV().Read(layer, len(text), b)
			s.cache.KV().Write(layer, len(text), b)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// empty drops the text.
func (s *Session) empty() {
	s.cache.Truncate(0)
	s.ids = nil
}

// refill sets the session's text to the content of the cache, or to nothing after an error.
func (s *Session) refill(text []int32, err error) {
	if err != nil {
		s.empty()
	} else {
		s.ids = slices.Clone(text)
	}
	s.note()
}

// between calls f when no pass runs.
func (e *Engine) between(ctx context.Context, f func()) error {
	if ctx.Err() != nil { // the select below may take a free turn even if ctx has ended
		return context.Cause(ctx)
	}
	done, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	defer done()
	f()
	return nil
}

// savedHead returns the bytes before the layers, for a text with the keys and values of its first n tokens.
func (e *Engine) savedHead(text []int32, n int) ([]byte, error) {
	h, err := e.saved()
	if err != nil {
		return nil, err
	}
	h.Tokens, h.Cached = len(text), n
	header, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	head := binary.LittleEndian.AppendUint32([]byte(savedMagic), uint32(len(header)))
	return binary.Append(append(head, header...), binary.LittleEndian, text)
}

// savedAs returns the header of sessions that this engine saves, without the text.
func (e *Engine) savedAs() (h savedHeader, err error) {
	h.Model, err = e.file.Fingerprint()
	h.Device, _, _ = strings.Cut(e.name, ", threads") // their number changes no bits
	h.Type, h.Program = e.kvType.String(), programVersion()
	return h, err
}

// programVersion identifies programs that compute the same bits: the version of this module, and of a checkout its
// revision.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	const path = "github.com/pilotfish-ai/pilotfish"
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs.") {
			version += " " + s.Value
		}
	}
	return version
}

// SavedText returns the text of a saved session, if [Session.Load] can read it here. It reads only the head and does
// not detect damage after it.
func (e *Engine) SavedText(r io.Reader) ([]int32, error) {
	done, err := e.use()
	if err != nil {
		return nil, err
	}
	defer done()
	_, text, err := e.readSaved(r)
	return text, err
}

// readSaved reads the bytes before the layers.
func (e *Engine) readSaved(r io.Reader) (h savedHeader, text []int32, err error) {
	head := make([]byte, len(savedMagic)+4)
	if err := readFull(r, head); err != nil {
		return h, nil, err
	}
	size := binary.LittleEndian.Uint32(head[len(savedMagic):])
	switch magic := string(head[:len(savedMagic)]); {
	case magic[:len(magic)-1] == savedMagic[:len(magic)-1] && magic != savedMagic:
		return h, nil, fmt.Errorf("%w: version %d of the format, this program has version %d", ErrOtherSaved,
			magic[len(magic)-1], savedMagic[len(magic)-1])
	case magic != savedMagic:
		return h, nil, notSaved("they do not begin as such a file does")
	case size > longestHeader:
		return h, nil, notSaved("a header of %d bytes; at most %d are possible", size, longestHeader)
	}
	header := make([]byte, size)
	if err := readFull(r, header); err != nil {
		return h, nil, err
	}
	if err := json.Unmarshal(header, &h); err != nil {
		return h, nil, notSaved("the header: %v", err)
	}
	if err := e.checkSaved(h); err != nil {
		return h, nil, err
	}
	ids := make([]byte, 4*h.Tokens)
	if err := readFull(r, ids); err != nil {
		return h, nil, err
	}
	vocab := e.model.Config().Vocab
	for i := range h.Tokens {
		id := binary.LittleEndian.Uint32(ids[4*i:])
		if id >= uint32(vocab) {
			return h, nil, notSaved("token %d of the text is %d: ids of this model are 0 to %d", i, id, vocab-1)
		}
		text = append(text, int32(id))
	}
	return h, text, nil
}

// checkSaved refuses headers of other engines, and texts that do not fit.
func (e *Engine) checkSaved(h savedHeader) error {
	own, err := e.saved()
	if err != nil {
		return err
	}
	for _, f := range []struct{ what, got, want string }{
		{"file of the model", h.Model, own.Model}, {"version of the program", h.Program, own.Program},
		{"device", h.Device, own.Device}, {"type of keys and values", h.Type, own.Type},
	} {
		if f.got != f.want {
			return fmt.Errorf("%w: the %s was %s, and is %s here", ErrOtherSaved, f.what, quote.Text(f.got),
				quote.Text(f.want))
		}
	}
	switch most := e.o.Context; {
	case h.Cached < 1 || h.Tokens < h.Cached:
		return notSaved("%d tokens, %d of them with keys and values", h.Tokens, h.Cached)
	case h.Tokens > most:
		return fmt.Errorf("%w: the saved text has %d tokens, and the context has room for %d: give a longer one",
			ErrContext, h.Tokens, most)
	}
	return nil
}

// readFull fills b. An earlier end is damage.
func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return notSaved("they end too early")
	}
	return err
}
