package gguf

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFingerprint: equal models have equal fingerprints, and any change, except in data that are documented as ignored,
// gives another one.
func TestFingerprint(t *testing.T) {
	of := func(key, value, name string, at int, shape ...int) string {
		f := parsed(t, func(w *Writer) {
			Put(w, "general.architecture", "qwen2")
			Put(w, key, value)
			w.Declare(name, F32, shape...)
			x := make([]float32, 2048)
			x[at] = 1
			require.NoError(t, w.WriteFloats(x))
		})
		sum, err := f.Fingerprint()
		require.NoError(t, err)
		require.Len(t, sum, 64)
		require.NoError(t, f.Close())
		_, err = f.Fingerprint()
		require.ErrorIs(t, err, ErrClosed)
		return sum
	}
	usual := of("general.name", "a", "w", 0, 32, 64)
	assert.Equal(t, usual, of("general.name", "a", "w", 0, 32, 64))
	assert.NotEqual(t, usual, of("general.name", "b", "w", 0, 32, 64), "metadata")
	assert.NotEqual(t, usual, of("general.nam", "ea", "w", 0, 32, 64), "keys and values are separated")
	assert.NotEqual(t, usual, of("general.name", "a", "v", 0, 32, 64), "names")
	assert.NotEqual(t, usual, of("general.name", "a", "w", 0, 64, 32), "shapes")
	assert.NotEqual(t, usual, of("general.name", "a", "w", 1023, 32, 64), "data")
	assert.Equal(t, of("general.name", "a", "w", 1024, 32, 64), of("general.name", "a", "w", 2047, 32, 64),
		"data after 4 KiB are not read")
}

// TestFingerprintKinds: the same bytes as values of different types, or of more keys, are different metadata.
func TestFingerprintKinds(t *testing.T) {
	seen := map[string]string{}
	for name, put := range map[string]func(w *Writer){
		"uint32":          func(w *Writer) { Put(w, "k", uint32(1)) },
		"int32":           func(w *Writer) { Put(w, "k", int32(1)) },
		"float32":         func(w *Writer) { Put(w, "k", math.Float32frombits(1)) },
		"text":            func(w *Writer) { Put(w, "k", "\x01\x00\x00\x00") },
		"array of uint32": func(w *Writer) { PutArray(w, "k", []uint32{1}) },
		"array of int32":  func(w *Writer) { PutArray(w, "k", []int32{1}) },
		"array of uint16": func(w *Writer) { PutArray(w, "k", []uint16{1, 0}) },
		"array of uint8":  func(w *Writer) { PutArray(w, "k", []uint8{1, 0, 0, 0}) },
		"two keys":        func(w *Writer) { Put(w, "k", "a"); Put(w, "l", "b") },
		"F16":             func(w *Writer) { w.Declare("k", F16, 2); _, _ = w.Write(make([]byte, 4)) },
		"BF16":            func(w *Writer) { w.Declare("k", BF16, 2); _, _ = w.Write(make([]byte, 4)) },
		"a key as text":   func(w *Writer) { Put(w, "k", "al"+string([]byte{byte(KindString), byte(KindUint8)})+"b") },
	} {
		t.Run(name, func(t *testing.T) {
			sum, err := parsed(t, put).Fingerprint()
			require.NoError(t, err)
			require.NotContains(t, seen, sum, "equals %s", seen[sum])
			seen[sum] = name
		})
	}
}

// TestFingerprintSplit: a model has the same fingerprint in one file and in two files with the metadata of a split.
func TestFingerprintSplit(t *testing.T) {
	of := func(split bool) string {
		sum, err := parsed(t, func(w *Writer) {
			Put(w, "general.architecture", "qwen2")
			if split {
				Put(w, splitNo, uint16(0))
				Put(w, splitCount, uint16(1))
				Put(w, splitTensors, int32(0))
			}
		}).Fingerprint()
		require.NoError(t, err)
		return sum
	}
	assert.Equal(t, of(false), of(true))
}
