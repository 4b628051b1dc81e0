package netproto

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkCodec measures encoding and decoding a delta in the coding that the sender chooses.
func BenchmarkCodec(b *testing.B) {
	_, prompts, answers := world(60)
	all := interleave(prompts, answers)
	dict, err := TrainDictionary(1, worldVocab, all[:80])
	require.NoError(b, err)
	codec := newCodec(b, worldVocab, dict)
	text := slices.Concat(all[80:]...)
	for _, n := range []int{10, 30, 100, 400} {
		base, ids := text[:100], text[100:100+n]
		d := encode(b, codec, base, ids)
		b.Run(fmt.Sprintf("encode/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err = codec.Encode(base, ids)
			}
		})
		b.Run(fmt.Sprintf("decode/%d/%s", n, d.Coding), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err = codec.Decode(base, d)
			}
		})
	}
	require.NoError(b, err)
}

// BenchmarkKnown measures how a gateway finds the base of an ask, and an edge the difference, in a long context.
func BenchmarkKnown(b *testing.B) {
	path := make([]int32, 32<<10)
	for i := range path {
		path[i] = int32(i % 768)
	}
	k := NewKnown(1 << 20)
	h := k.Add(path)
	for i := range 500 { // rejected drafts
		k.Add(append(slices.Clone(path[:20000+i*10]), 999))
	}
	b.Run("longest", func(b *testing.B) {
		for b.Loop() {
			k.Longest(path)
		}
	})
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			k.Find(len(path), h)
		}
	})
}
