package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// maxPending is how many answers are kept in memory before they are written: writing uses a processor, which would
// disturb a measurement.
const maxPending = 4096

// Recorder writes a recording. It is safe for concurrent use.
type Recorder struct {
	clock draft.Clock // nil: the computer's

	mu      sync.Mutex
	zip     *zstd.Encoder
	pending []*Answer
	heads   map[uint64]wrote // which heads have been written, by text
	written int
	err     error
}

// wrote describes which parts of the head after a text have been written.
type wrote struct {
	candidates int
	sure       bool // with the router's confidence
}

// NewRecorder begins a recording; it sets the version. clock is that of the decoders: nil means the computer's.
func NewRecorder(w io.Writer, h Header, clock draft.Clock) (*Recorder, error) {
	zip, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return nil, err
	}
	r := &Recorder{clock: clock, zip: zip, heads: map[uint64]wrote{}}
	h.Version = version
	r.line(h)
	return r, r.err
}

// now returns the current time.
func (r *Recorder) now() time.Time {
	if r.clock != nil {
		return r.clock.Now()
	}
	return time.Now()
}

// line writes a line, unless an error has occurred.
func (r *Recorder) line(v any) {
	if r.err == nil {
		r.err = json.NewEncoder(r.zip).Encode(v)
	}
}

// Close writes the rest. Only then is the recording complete.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush()
	r.line(map[string]any{"end": map[string]int{"answers": r.written}})
	return errors.Join(r.err, r.zip.Close())
}

// add takes a complete answer.
func (r *Recorder) add(a *Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending = append(r.pending, a); len(r.pending) >= maxPending {
		r.flush()
	}
}

// flush writes the pending answers.
func (r *Recorder) flush() {
	for _, a := range r.pending {
		r.share(a)
		r.line(a)
		r.written++
	}
	r.pending = nil
}

// share leaves out the heads that have been written before.
func (r *Recorder) share(a *Answer) {
	a.hash()
	var fresh []Head
	for _, h := range a.Heads {
		text := a.texts[h.Node]
		if old := r.heads[text]; len(h.IDs) > old.candidates || h.Confidence != nil && !old.sure {
			r.heads[text] = wrote{max(len(h.IDs), old.candidates), h.Confidence != nil || old.sure}
			fresh = append(fresh, h)
		}
	}
	a.Heads = fresh
}

// hash computes the hashes of the nodes.
func (a *Answer) hash() {
	a.texts = append(a.texts[:0], hashOf(a.Prompt))
	for i, token := range a.Tokens {
		a.texts = append(a.texts, then(a.texts[a.Parents[i]], token))
	}
}

// HashOf returns the hash of a router's network: two have the same hash if they give the same outputs.
func HashOf(n *router.Net) (string, error) {
	if n == nil {
		return "", nil
	}
	b, err := json.Marshal(n)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
