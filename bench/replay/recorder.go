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

// maxPending is how many answers wait in memory until they are written: writing takes a processor, which a measurement
// beside it would feel.
const maxPending = 4096

// Recorder writes a recording. Its methods may be called by any goroutine.
type Recorder struct {
	clock draft.Clock // nil: the computer's

	mu      sync.Mutex
	zip     *zstd.Encoder
	pending []*Answer
	takes   map[take]int
	heads   map[uint64]wrote // of the heads, by text
	written int
	err     error
}

// wrote is how much of the head behind a text has been written.
type wrote struct {
	candidates int
	sure       bool // with the router's confidence
}

// take is a question in a mode.
type take struct {
	mode     string
	question int
}

// NewRecorder begins a recording; its version is filled in. clock is that of the decoders: nil means the computer's.
func NewRecorder(w io.Writer, h Header, clock draft.Clock) (*Recorder, error) {
	zip, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return nil, err
	}
	r := &Recorder{clock: clock, zip: zip, takes: map[take]int{}, heads: map[uint64]wrote{}}
	h.Version = version
	r.line(h)
	return r, r.err
}

// now is the moment.
func (r *Recorder) now() time.Time {
	if r.clock != nil {
		return r.clock.Now()
	}
	return time.Now()
}

// line writes a line, unless an error has come before.
func (r *Recorder) line(v any) {
	if r.err == nil {
		r.err = json.NewEncoder(r.zip).Encode(v)
	}
}

// Close writes what is left. The recording is whole only after that.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush()
	r.line(map[string]any{"end": map[string]int{"answers": r.written}})
	return errors.Join(r.err, r.zip.Close())
}

// add takes an answer that is complete.
func (r *Recorder) add(a *Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := (take{a.Mode, a.Question}); !a.WarmUp {
		a.Take = r.takes[of]
		r.takes[of]++
	}
	if r.pending = append(r.pending, a); len(r.pending) >= maxPending {
		r.flush()
	}
}

// flush writes what is pending.
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

// hash fills in the hashes of the nodes.
func (a *Answer) hash() {
	a.texts = append(a.texts[:0], hashOf(a.Prompt))
	for i, token := range a.Tokens {
		a.texts = append(a.texts, then(a.texts[a.Parents[i]], token))
	}
}

// HashOf names the network of a router: two have the same hash if they say the same of every head.
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
