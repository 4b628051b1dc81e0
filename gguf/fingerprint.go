package gguf

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
)

// fingerprintBytes is the number of bytes of each tensor's data that a fingerprint includes.
const fingerprintBytes = 4096

// Fingerprint identifies a model without reading all of it: it is the SHA-256, in hexadecimal digits, of all metadata
// except those of a split (which is the same model in other files), and of each tensor's name, type, shape and first 4
// KiB of data. Training changes every weight, so two trainings have different fingerprints. A change of a tensor only
// after its first 4 KiB does not change the fingerprint. The error is [ErrClosed].
func (f *File) Fingerprint() (string, error) {
	if !f.uses.Take() {
		return "", ErrClosed
	}
	defer f.uses.Give()
	f.hashed.Do(func() { f.fingerprint = f.computeFingerprint() })
	return f.fingerprint, nil
}

func (f *File) computeFingerprint() string {
	sum := sha256.New()
	for i, key := range f.meta.keys {
		if v := f.meta.values[i]; !slices.Contains([]string{splitCount, splitNo, splitTensors}, key) {
			hashWithLength(sum, []byte(key))
			hashWithLength(sum, []byte{byte(v.kind), byte(v.elem)})
			hashWithLength(sum, v.b)
		}
	}
	for _, t := range f.tensors {
		hashWithLength(sum, []byte(t.Name))
		hashWithLength(sum, []byte(t.Type.String()))
		var shape []byte
		for _, n := range t.Shape {
			shape = binary.LittleEndian.AppendUint64(shape, uint64(n))
		}
		hashWithLength(sum, shape)
		hashWithLength(sum, t.Data[:min(len(t.Data), fingerprintBytes)])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// hashWithLength hashes b after its length, so that different lists of values never hash the same bytes.
func hashWithLength(h hash.Hash, b []byte) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	h.Write(b)
}
