package replay

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Recorder writes a recording. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	zip     *zstd.Encoder
	answers []*Answer // written at the end: writing uses a processor, which would disturb a measurement
	err     error
}

// NewRecorder begins a recording; it sets the version.
func NewRecorder(w io.Writer, h Header) (*Recorder, error) {
	zip, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return nil, err
	}
	r := &Recorder{zip: zip}
	h.Version = version
	r.writeLine(h)
	return r, r.err
}

// writeLine writes a line, unless an error has occurred.
func (r *Recorder) writeLine(v any) {
	if r.err == nil {
		r.err = json.NewEncoder(r.zip).Encode(v)
	}
}

// Close writes the answers. Only then is the recording complete.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	wrote := map[uint64]*Head{}
	for _, a := range r.answers {
		a.dropSharedHeads(wrote)
		r.writeLine(a)
	}
	r.writeLine(map[string]any{"end": map[string]int{"answers": len(r.answers)}})
	return errors.Join(r.err, r.zip.Close())
}

func (r *Recorder) addAnswer(a *Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, a)
}

// dropSharedHeads leaves out the heads of which all has been written before.
func (a *Answer) dropSharedHeads(wrote map[uint64]*Head) {
	a.hashNodes()
	a.Heads = slices.DeleteFunc(a.Heads, func(h Head) bool {
		old := wrote[a.texts[h.Node]]
		wrote[a.texts[h.Node]] = mergeHeads(old, &h)
		return old != nil && len(h.IDs) <= len(old.IDs) && (h.Confidence == nil || old.Confidence != nil)
	})
}

func (a *Answer) hashNodes() {
	a.texts = append(a.texts[:0], hashTokens(a.Prompt))
	for i, token := range a.Tokens {
		a.texts = append(a.texts, extendHash(a.texts[a.Parents[i]], token))
	}
}
