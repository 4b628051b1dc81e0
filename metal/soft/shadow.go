package soft

import "encoding/binary"

// shadow is the state of a buffer's bytes in Check. It uses physical memory only for bytes that kernels touch.
type shadow struct {
	cells     pages // when and by which thread each byte was written and read; empty if kernels only read
	unwritten pages // a one for each byte that counts as not written; mapped when there is any
	seen      pages // a bit for each byte that the running dispatch reads; clear between dispatches
	ever      pages // a bit for each byte read since the counts began
	put       pages // the same two for writes
	everPut   pages
}

func newShadow(length int, readOnly bool) (*shadow, error) {
	s := &shadow{}
	bits := (length + 63) / 64 * 8
	var err error
	mapInto := func(p *pages, n int) {
		if err == nil {
			*p, err = mapPages(n)
		}
	}
	mapInto(&s.seen, bits)
	mapInto(&s.ever, bits)
	if !readOnly {
		mapInto(&s.cells, length*cellSize)
		mapInto(&s.put, bits)
		mapInto(&s.everPut, bits)
	}
	if err != nil {
		s.freePages()
		return nil, err
	}
	return s, nil
}

func (s *shadow) freePages() {
	if s == nil {
		return
	}
	for _, p := range [...]*pages{&s.cells, &s.unwritten, &s.seen, &s.ever, &s.put, &s.everPut} {
		p.unmapPages()
	}
}

// fillPoison fills the buffer with a pattern that counts as not written: NaN, different at each multiple of eight.
// translate/msl/check.cpp has the same pattern, and treats anything else as written by the CPU.
func (b *buffer) fillPoison() error {
	for i := 0; i < len(b.bytes); i += 8 {
		h := uint64(i>>3) * 0x9e3779b97f4a7c15
		var word [8]byte
		binary.NativeEndian.PutUint64(word[:], 0x7f817f817f817f81+(h>>33&0x003e003e003e003e))
		copy(b.bytes[i:], word[:])
	}
	if b.shadow == nil {
		return nil
	}
	if b.shadow.unwritten.all == nil {
		var err error
		if b.shadow.unwritten, err = mapPages(len(b.bytes)); err != nil {
			return err
		}
	}
	for i := range b.shadow.unwritten.used {
		b.shadow.unwritten.used[i] = 1
	}
	return nil
}
