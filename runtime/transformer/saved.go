package transformer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// A saved session is
//
//	magic   8 bytes: savedMagic
//	length  u32 of the header, at most maxSavedHeader
//	header  JSON: Saved
//	text    u32 for each token
//	layers  [Layers][Cached][2, KVHeads·HeadSize] elements: see [backend.KV].Read
//	states  of recurrent layers, if there are any: see [backend.DeltaKV].ReadState
//	sum     SHA-256 of all that is before
//
// with numbers in little endian.
const (
	savedMagic     = "PFISHKV\x01" // its last byte is the version of the format
	maxSavedHeader = 4096
)

// Saved holds all that keys and values depend on, and their number.
type Saved struct {
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

// NotSaved is an ErrNotSaved with its reason.
func NotSaved(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotSaved, fmt.Sprintf(format, args...))
}

// Head returns the bytes before the layers, for a text with the keys and values of its first n tokens.
func (h Saved) Head(text []int32, n int) ([]byte, error) {
	h.Tokens, h.Cached = len(text), n
	header, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	head := binary.LittleEndian.AppendUint32([]byte(savedMagic), uint32(len(header)))
	return binary.Append(append(head, header...), binary.LittleEndian, text)
}

// ReadSaved reads the bytes before the layers, of a session that a program saved as own does, with at most context
// tokens, of a vocabulary of this size. The errors are [ErrNotSaved], [ErrOtherSaved], [ErrContext], and those of r.
func ReadSaved(r io.Reader, own Saved, context, vocab int) (h Saved, text []int32, err error) {
	head := make([]byte, len(savedMagic)+4)
	if err := ReadFull(r, head); err != nil {
		return h, nil, err
	}
	size := binary.LittleEndian.Uint32(head[len(savedMagic):])
	switch magic := string(head[:len(savedMagic)]); {
	case magic[:len(magic)-1] == savedMagic[:len(magic)-1] && magic != savedMagic:
		return h, nil, fmt.Errorf("%w: version %d of the format, this program has version %d", ErrOtherSaved,
			magic[len(magic)-1], savedMagic[len(magic)-1])
	case magic != savedMagic:
		return h, nil, NotSaved("they do not begin as such a file does")
	case size > maxSavedHeader:
		return h, nil, NotSaved("a header of %d bytes; at most %d are possible", size, maxSavedHeader)
	}
	header := make([]byte, size)
	if err := ReadFull(r, header); err != nil {
		return h, nil, err
	}
	if err := json.Unmarshal(header, &h); err != nil {
		return h, nil, NotSaved("the header: %v", err)
	}
	if err := h.checkHeader(own, context); err != nil {
		return h, nil, err
	}
	ids := make([]byte, 4*h.Tokens)
	if err := ReadFull(r, ids); err != nil {
		return h, nil, err
	}
	for i := range h.Tokens {
		id := binary.LittleEndian.Uint32(ids[4*i:])
		if id >= uint32(vocab) {
			return h, nil, NotSaved("token %d of the text is %d: ids of this model are 0 to %d", i, id, vocab-1)
		}
		text = append(text, int32(id))
	}
	return h, text, nil
}

// checkHeader refuses headers of other engines, and texts that do not fit.
func (h Saved) checkHeader(own Saved, context int) error {
	for _, f := range []struct{ what, got, want string }{
		{"file of the model", h.Model, own.Model}, {"version of the program", h.Program, own.Program},
		{"device", h.Device, own.Device}, {"type of keys and values", h.Type, own.Type},
	} {
		if f.got != f.want {
			return fmt.Errorf("%w: the %s was %s, and is %s here", ErrOtherSaved, f.what, errs.Quote(f.got),
				errs.Quote(f.want))
		}
	}
	switch {
	case h.Cached < 1 || h.Tokens < h.Cached:
		return NotSaved("%d tokens, %d of them with keys and values", h.Tokens, h.Cached)
	case h.Tokens > context:
		return fmt.Errorf("%w: the saved text has %d tokens, and the context has room for %d: give a longer one",
			ErrContext, h.Tokens, context)
	}
	return nil
}

// ReadFull fills b. An earlier end is damage: [ErrNotSaved].
func ReadFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return NotSaved("they end too early")
	}
	return err
}

// ProgramVersion identifies programs that compute the same bits: the version of this module, and of a checkout its
// revision.
func ProgramVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return buildVersion(info)
}

// buildVersion is ProgramVersion for a program that was built as info says.
func buildVersion(info *debug.BuildInfo) string {
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
