// Package gguf reads and writes GGUF, the file that holds a quantised language model: typed metadata, then tensors.
//
//	"GGUF", version u32, tensor count u64, metadata count u64        every number is little-endian
//	metadata ×n   key string, type u32, value                        string: length u64, bytes; no terminator
//	                                                                 array: element type u32, length u64, elements
//	tensor ×n     name string, dimensions u32, size u64 each, type u32, offset u64
//	zeros up to a multiple of general.alignment (32 unless the metadata say otherwise)
//	data          each tensor at its offset from here, a multiple of the alignment
//
// Versions 2 and 3 have this layout and are read; version 3 is written. A large model may be split over files named
// NAME-00001-of-0000N.gguf; [Open] joins them.
//
// The reader validates everything: it compares a count, length, offset or product with the available bytes before it
// allocates or slices, and refuses an invalid file with a [FormatError]. It also refuses metadata far larger than those
// of real models before it reads them: a string of more than 16 MiB, an array of more than 16,777,216 elements, more
// than 256 MiB of all metadata. Metadata values and tensor data are views of the mapped file, valid until [File.Close].
//
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and the block formats of ggml's quantised types.
package gguf

const (
	magic            = "GGUF"
	versionWritten   = 3
	defaultAlignment = 32
	alignmentKey     = "general.alignment"

	minAlignment = 8       // the specification requires a multiple of 8
	maxAlignment = 1 << 24 // bytes; beyond any page size

	maxMetadata = 256 << 20 // bytes from the start of a file to the end of its metadata; models have some 10 MB of it
	maxString   = 16 << 20  // bytes of a string of metadata; chat templates have some 100 kB
	maxElements = 16 << 20  // elements of an array; vocabularies and merges have some 100,000
	maxNameLen  = 64        // bytes of a tensor's name
	maxKeyLen   = 1<<16 - 1 // bytes of a metadata key
	maxDims     = 4         // dimensions of a tensor
	maxDepth    = 8         // arrays within arrays

	minPairBytes   = 8 + 1 + 4 + 1         // the shortest metadata pair: one letter and a byte
	minTensorBytes = 8 + 1 + 4 + 8 + 4 + 8 // the shortest tensor entry: one letter and one dimension
)

// alignUp returns n rounded up to a multiple of align, a power of two; ok is false if that overflows an int.
func alignUp(n, align int) (up int, ok bool) {
	up = (n + align - 1) &^ (align - 1)
	return up, up >= n
}
