package synth

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// Blank returns a file of the model without a vocabulary and with all weights zero. The memory of the weights is never
// written, so it is not allocated, however large the model is. It begins at the start of a page, and its capacity ends
// at the end of one.
func (s Spec) Blank() ([]byte, error) {
	if err := s.checkShape(); err != nil {
		return nil, err
	}
	var header bytes.Buffer
	w := gguf.NewWriter(&header)
	s.putShape(w)
	size := 0
	for _, t := range s.listTensors() {
		w.Declare(t.name, t.t, t.shape...)
		elems, bytes := t.t.Block()
		size += (int(t.elementCount())/elems*bytes + alignment - 1) / alignment * alignment
	}
	if _, err := w.Write(make([]byte, 1)); err != nil { // the header, and one byte
		return nil, fmt.Errorf("write the beginning of a file: %w", err)
	}
	file := alignedPages(header.Len() - 1 + size)
	copy(file, header.Bytes())
	return file, nil
}

// alignment of tensors in a file.
const alignment = 32

func alignedPages(n int) []byte {
	b := make([]byte, n+2*largestPage)
	from := int(-uintptr(unsafe.Pointer(&b[0])) % largestPage)
	return b[from : from+n : from+(n+largestPage-1)/largestPage*largestPage]
}

// largestPage is a multiple of the size of memory pages.
const largestPage = 16384
