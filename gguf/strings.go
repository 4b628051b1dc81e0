package gguf

import (
	"encoding/binary"
	"iter"
)

// StringArray is a metadata array of strings as it lies in the file: a vocabulary of 300,000 strings costs nothing
// until it is walked, and then no Go string of each. The zero value is empty. Valid until [File.Close].
type StringArray struct {
	n int
	b []byte // n × (length u64, bytes), checked
}

// Len returns the number of strings.
func (a StringArray) Len() int { return a.n }

// All iterates over index and bytes of the strings in order. The bytes alias the file: they must not be modified, and
// nothing has checked that they are UTF-8.
func (a StringArray) All() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		b := a.b
		for i := range a.n {
			end := 8 + int(binary.LittleEndian.Uint64(b))
			if !yield(i, b[8:end:end]) {
				return
			}
			b = b[end:]
		}
	}
}
