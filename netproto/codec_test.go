package netproto

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestCodecRoundTrip: ids are decoded from every coding that the sender may choose, for any vocabulary and base.
func TestCodecRoundTrip(t *testing.T) {
	r := source()
	for _, vocab := range []int{1, 2, 3, 255, 256, 257, 768, 65536, 65537, 151936, MaxVocab} {
		codec := newCodec(t, vocab, Dictionary{})
		used := map[Coding]int{}
		for range 60 {
			ids := make([]int32, r.IntN(300))
			for i := range ids {
				if i > 20 && r.IntN(8) > 0 {
					ids[i] = ids[i-20] // so that compression helps
				} else {
					ids[i] = int32(r.IntN(vocab))
				}
			}
			at := r.IntN(len(ids) + 1)
			d := encode(t, codec, ids[:at], ids[at:])
			used[d.Coding]++
			back := decode(t, codec, ids[:at], d)
			require.True(t, slices.Equal(ids[at:], back))
			require.LessOrEqual(t, len(d.Bytes), packedSize(d.Count, idBits(vocab)))
		}
		t.Log(vocab, used)
	}
}

// TestCodecTrained: the trained coding needs exactly the right dictionary.
func TestCodecTrained(t *testing.T) {
	_, prompts, answers := world(40)
	dict, err := TrainDictionary(7, worldVocab, interleave(prompts[:30], answers[:30]))
	require.NoError(t, err)
	codec := newCodec(t, worldVocab, dict)
	d := encode(t, codec, nil, prompts[35])
	require.Equal(t, Trained, d.Coding)
	ids := decode(t, codec, nil, d)
	require.Equal(t, prompts[35], ids)
	without := newCodec(t, worldVocab, Dictionary{})
	_, err = without.Decode(nil, d)
	require.ErrorIs(t, err, ErrValue)
	_, err = TrainDictionary(1, worldVocab, nil)
	require.Error(t, err)
}

// TestCodecRefuses: data that do not fit the vocabulary or the count are refused in every coding.
func TestCodecRefuses(t *testing.T) {
	codec := newCodec(t, 768, Dictionary{})
	for _, id := range []int32{-1, 768} {
		_, err := codec.Encode(nil, []int32{id})
		assert.ErrorIs(t, err, ErrValue)
	}
	good := packIDs(nil, []int32{1, 2, 3}, 10)
	for _, d := range []Delta{
		{Count: 4, Bytes: good}, {Count: 2, Bytes: good}, {Count: -1, Bytes: nil},
		{Count: 3, Bytes: packIDs(nil, []int32{1, 800, 3}, 10)}, {Count: 3, Bytes: []byte{1, 2, 3, 0xff}},
		{Count: 3, Coding: Zstd, Bytes: good}, {Count: 0, Coding: Zstd}, {Count: 3, Coding: Trained, Bytes: good},
		{Count: 1, Coding: codings},
	} {
		_, err := codec.Decode(nil, d)
		assert.Error(t, err, "%+v", d)
	}
	for _, vocab := range []int{0, -1, MaxVocab + 1} {
		_, err := NewCodec(vocab, Dictionary{})
		assert.ErrorIs(t, err, ErrValue)
	}
	_, err := NewCodec(768, Dictionary{ID: 7, Bytes: []byte("no dictionary")})
	assert.ErrorContains(t, err, "codec: dictionary 7: ")
}

// allocated returns the number of bytes that a call allocates: the min of several, because other goroutines may
// allocate.
func allocated(call func()) uint64 {
	smallest := uint64(math.MaxUint64)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		call()
		runtime.ReadMemStats(&after)
		smallest = min(smallest, after.TotalAlloc-before.TotalAlloc)
	}
	return smallest
}

// zframe returns a hand-written zstd frame: the descriptor, its header, and runs of zeros with n bytes each.
func zframe(descriptor byte, head []byte, runs ...int) []byte {
	b := append([]byte{descriptor}, head...)
	for i, n := range runs {
		block := uint32(1<<1 | n<<3) // a run of one byte
		if i == len(runs)-1 {
			block |= 1 // the last block
		}
		b = append(b, byte(block), byte(block>>8), byte(block>>16), 0)
	}
	return b
}

const (
	singleSegment = 0x20 // the content is the window
	contentSize4  = 0x80 // the size of the content has four bytes
	kib           = 1 << 10
)

// window2 returns the byte for a window of 2ⁿ KiB.
func window2(n int) byte { return byte(n << 3) }

// newCodec returns a codec until the test ends.
func newCodec(t testing.TB, vocab int, d Dictionary) *Codec {
	t.Helper()
	codec, err := NewCodec(vocab, d)
	require.NoError(t, err)
	t.Cleanup(codec.Close)
	return codec
}

// trainedCodec returns a codec for the golden dictionary.
func trainedCodec(t *testing.T) *Codec { return newCodec(t, 768, goldenDict(t)) }

func encode(t testing.TB, codec *Codec, base, ids []int32) Delta {
	t.Helper()
	d, err := codec.Encode(base, ids)
	require.NoError(t, err)
	return d
}

func decode(t testing.TB, codec *Codec, base []int32, d Delta) []int32 {
	t.Helper()
	ids, err := codec.Decode(base, d)
	require.NoError(t, err)
	return ids
}

// TestCodecCap: bytes that decompress to more than the stated number of ids do not use more memory than these, with and
// without a dictionary or a size in the frame.
func TestCodecCap(t *testing.T) {
	codec := trainedCodec(t)
	runs := slices.Repeat([]int{128 * kib}, 500) // 64 MiB
	for name, bomb := range map[string][]byte{
		"size not said":   zframe(0, []byte{window2(10)}, runs[:8]...),
		"small window":    zframe(0, []byte{window2(0)}, slices.Repeat([]int{kib}, 4000)...),
		"window of 4 MiB": zframe(0, []byte{window2(12)}, runs...),
		"size said":       zframe(singleSegment|contentSize4, binary.LittleEndian.AppendUint32(nil, 64<<20), runs...),
		"size is a lie":   zframe(singleSegment, []byte{20}, runs...),
	} {
		t.Run(name, func(t *testing.T) {
			for _, coding := range []Coding{Zstd, Trained} {
				d := Delta{Count: 10, Coding: coding, Bytes: bomb}
				var err error
				grown := allocated(func() { _, err = codec.Decode(nil, d) })
				require.ErrorContains(t, err, "decode: "+coding.String(), "%s", coding)
				assert.Less(t, grown, uint64(200*kib), "%s", coding)
			}
		})
	}
}

// TestCodecWindow: the window of a frame may be as large as its max content, and no larger, because it is allocated.
func TestCodecWindow(t *testing.T) {
	codec := trainedCodec(t)
	for _, c := range []struct {
		coding Coding
		ids    int
		n      int // a window of 2ⁿ KiB
		good   bool
	}{
		{Zstd, 10, 0, true}, {Zstd, 10, 1, false}, {Zstd, 512, 0, true}, {Zstd, 512, 1, false},
		{Zstd, 1024, 1, true}, {Zstd, 1024, 2, false}, {Zstd, 1023, 1, false},
		{Trained, 10, 12, true}, {Trained, 10, 13, false},
	} {
		t.Run(fmt.Sprintf("%s of %d ids, window of %d KiB", c.coding, c.ids, 1<<c.n), func(t *testing.T) {
			frame := zframe(0, []byte{window2(c.n)}, slices.Repeat([]int{2}, c.ids)...)
			d := Delta{Count: c.ids, Coding: c.coding, Bytes: frame}
			ids, err := codec.Decode(nil, d)
			if c.good {
				require.NoError(t, err)
				assert.Equal(t, same(c.ids, 0), ids)
			} else {
				assert.ErrorIs(t, err, zstd.ErrWindowSizeExceeded)
			}
		})
	}
}

// TestCodecCounts: a frame must contain exactly the stated number of ids, all in the vocabulary.
func TestCodecCounts(t *testing.T) {
	codec := trainedCodec(t)
	zeros := func(bytes int) []byte { return zframe(singleSegment, []byte{byte(bytes)}, bytes) }
	for _, coding := range []Coding{Zstd, Trained} {
		for count := range 8 {
			for bytes := 1; bytes < 16; bytes++ {
				ids, err := codec.Decode(nil, Delta{Count: count, Coding: coding, Bytes: zeros(bytes)})
				if bytes == 2*count {
					require.NoError(t, err)
					require.Equal(t, same(count, 0), ids)
				} else {
					require.Error(t, err, "%d bytes for %d ids", bytes, count)
				}
			}
		}
	}
	raw := func(b ...byte) []byte { // a frame with one uncompressed block
		return append([]byte{singleSegment, byte(len(b)), byte(1 | len(b)<<3), 0, 0}, b...)
	}
	for vocab, ids := range map[int]map[int32]bool{
		256: {0: true, 255: true}, 255: {254: true, 255: false}, 768: {767: true, 768: false, 65535: false},
		MaxVocab: {MaxVocab - 1: true}, 1<<23 - 1: {1<<23 - 2: true, 1<<23 - 1: false}, 1: {0: true, 1: false},
	} {
		codec := newCodec(t, vocab, Dictionary{})
		for id, good := range ids {
			have, err := codec.Decode(nil,
				Delta{Count: 1, Coding: Zstd, Bytes: raw(appendFixedIDs(nil, []int32{id}, idBytes(vocab))...)})
			if good {
				require.NoError(t, err)
				assert.Equal(t, []int32{id}, have)
			} else {
				assert.ErrorIs(t, err, ErrValue, "%d of %d", id, vocab)
			}
		}
	}
	_, err := codec.Decode(nil, Delta{Count: MaxPosition + 1, Bytes: make([]byte, packedSize(MaxPosition+1, 10))})
	assert.ErrorContains(t, err, "16777217 ids")
	_, err = codec.Decode(nil, Delta{Count: MaxPosition, Bytes: nil})
	assert.ErrorContains(t, err, "0 bytes for 16777216 ids of 10 bits")
	_, err = codec.Decode(nil, Delta{Count: -1, Bytes: nil})
	assert.ErrorContains(t, err, "-1 ids")
}

// TestPacking: packed ids have one form: no bit after the last id is set, and the number of bytes is minimal.
func TestPacking(t *testing.T) {
	for _, c := range []struct{ vocab, bits, bytes int }{
		{1, 1, 1}, {2, 1, 1}, {3, 2, 1}, {4, 2, 1}, {5, 3, 1}, {255, 8, 1}, {256, 8, 1}, {257, 9, 2}, {65536, 16, 2},
		{65537, 17, 3}, {151936, 18, 3}, {MaxVocab, 24, 3},
	} {
		t.Run(fmt.Sprint("vocabulary of ", c.vocab), func(t *testing.T) {
			assert.Equal(t, c.bits, idBits(c.vocab))
			assert.Equal(t, c.bytes, idBytes(c.vocab))
			for n := range 20 {
				ids := words(n, c.vocab, n)
				b := packIDs([]byte("x"), ids, c.bits)[1:]
				require.Len(t, b, packedSize(n, c.bits))
				require.Equal(t, (n*c.bits+7)/8, len(b))
				back, err := unpackIDs(b, n, c.bits, c.vocab)
				require.NoError(t, err)
				require.Equal(t, ids, back)
				for stray := n * c.bits; stray < 8*len(b); stray++ {
					bad := slices.Clone(b)
					bad[stray/8] |= 1 << (stray % 8)
					_, err := unpackIDs(bad, n, c.bits, c.vocab)
					require.ErrorIs(t, err, ErrValue, "bit %d after %d ids of %d bits", stray, n, c.bits)
				}
				for _, other := range [][]byte{append(slices.Clone(b), 0), b[:max(len(b)-1, 0)]} {
					if len(other) != len(b) {
						_, err := unpackIDs(other, n, c.bits, c.vocab)
						require.ErrorIs(t, err, ErrValue)
					}
				}
			}
		})
	}
	assert.Equal(t, []byte{0b01_10_11_00}, packIDs(nil, []int32{0, 3, 2, 1}, 2), "the first id is in the lowest bits")
	for id, good := range map[int32]bool{2: true, 3: false} {
		_, err := unpackIDs(packIDs(nil, []int32{0, id, 0}, 2), 3, 2, 3)
		assert.Equal(t, good, err == nil, "%d of 3", id)
	}
	assert.Equal(t, []byte{9, 3, 2, 1, 6, 5, 4}, appendFixedIDs([]byte{9}, []int32{0x010203, 0x040506}, 3))
	for id, ok := range map[byte]bool{0: true, 1: true, 2: false, 0xff: false} { // the highest byte
		_, err := parseFixedIDs([]byte{0, 0, id}, 1, 3, 1<<16+1)
		assert.Equal(t, ok, err == nil, "%v: %d", err, id)
	}
}

// TestCodingFrom: only packing is tried for a few bytes; for more, the shorter coding is used, and packing if they are
// equal.
func TestCodingFrom(t *testing.T) {
	choose := func(c *Codec, ids []int32) Coding {
		t.Helper()
		return encode(t, c, nil, ids).Coding
	}
	plain := newCodec(t, 256, Dictionary{})
	assert.Equal(t, Packed, choose(plain, same(63, 0)))
	assert.Equal(t, Zstd, choose(plain, same(64, 0)))
	trained := newCodec(t, 256, goldenDict(t))
	assert.Equal(t, Packed, choose(trained, same(15, 0)))
	assert.Equal(t, Trained, choose(trained, same(16, 0)))
	phrase := bytesOf(string(appendFixedIDs(nil, goldenPaths()[9], 2)))
	b, err := trained.compressIDs(Trained, nil, phrase[:16])
	require.NoError(t, err)
	require.Len(t, b, 16)
	assert.Equal(t, Packed, choose(trained, phrase[:16]), "if both have the same length")
	for n := range 40 {
		ids := append(words(64, 256, 17), words(n, 256, 17)...)
		b, err := plain.compressIDs(Zstd, nil, ids)
		require.NoError(t, err)
		want := Packed
		if len(b) < len(ids) {
			want = Zstd
		}
		assert.Equal(t, want, choose(plain, ids), "%d bytes instead of %d", len(b), len(ids))
	}
}

// TestShortestCoding: with a trained dictionary, the shortest coding is also chosen: the base if the text repeats it,
// the dictionary if that fits better.
func TestShortestCoding(t *testing.T) {
	racing.Spare(t)
	codec := trainedCodec(t)
	phrase := goldenPaths()[9]
	base := append(words(300, 768, 5), phrase...)
	taken := map[Coding]int{}
	for seed := range 40 {
		news := words(seed, 768, seed)
		for _, ids := range [][]int32{
			slices.Concat(base[:200], news), slices.Concat(phrase, news), slices.Concat(news, news),
		} {
			for _, base := range [][]int32{nil, base, news} {
				d := encode(t, codec, base, ids)
				taken[d.Coding]++
				for _, coding := range []Coding{Zstd, Trained} {
					b, err := codec.compressIDs(coding, base, ids)
					require.NoError(t, err)
					if packedSize(len(ids), idBits(768)) >= zstdFrom {
						assert.LessOrEqual(t, len(d.Bytes), len(b), "%v would be shorter than %v", coding, d.Coding)
					}
				}
			}
		}
	}
	assert.Len(t, taken, 3, "each coding is sometimes the shortest: %v", taken)
}

// TestCodecHistory: on both sides a base is used from its end up to the max history; older tokens are neither encoded
// nor decoded.
func TestCodecHistory(t *testing.T) {
	codec := newCodec(t, 768, Dictionary{})
	phrase := words(60, 768, 5)
	for _, fill := range []int{0, 1, 1000, window - 61, window - 60, window - 59, window, 2 * window} {
		base := slices.Concat(phrase, words(fill, 768, 12))
		d := encode(t, codec, base, phrase)
		assert.Equal(t, fill+60 <= window+1, len(d.Bytes) < 20, "%d tokens in between: %d bytes", fill, len(d.Bytes))
		assert.Equal(t, 2*min(fill+60, window), len(codec.rawDictionary(base)))
		assert.True(t, bytes.HasSuffix(appendFixedIDs(nil, base, 2), codec.rawDictionary(base)))
	}
	base := slices.Concat(phrase, words(window-60, 768, 12))
	d := encode(t, codec, base, phrase)
	longer := append(slices.Clone(base), 1)
	_, err := codec.Decode(longer[1:], d)
	require.NoError(t, err, "it exists, but with other tokens")
	_, err = codec.Decode(base[1:], d)
	require.Error(t, err, "one token too few")
}

// TestTrainDictionary: a dictionary contains its number and the end of the last half of its training texts, which has
// the cheapest offsets.
func TestTrainDictionary(t *testing.T) {
	paths := goldenPaths()
	dict, err := TrainDictionary(42, 768, paths)
	require.NoError(t, err)
	assert.Equal(t, uint32(42), dict.ID)
	assert.Equal(t, uint32(42), binary.LittleEndian.Uint32(dict.Bytes[4:]))
	last := appendFixedIDs(nil, slices.Concat(paths[5:]...), 2)
	assert.True(t, bytes.HasSuffix(dict.Bytes, last))
	assert.False(t, bytes.Contains(dict.Bytes, appendFixedIDs(nil, paths[4][6:10], 2)),
		"the first half is used only for statistics")
	long := [][]int32{paths[0], words(100, 768, 1), words(100, 768, 2), words(10, 768, 3), words(20<<10, 768, 4),
		words(100, 768, 5)}
	dict, err = TrainDictionary(42, 768, long)
	require.NoError(t, err)
	all := appendFixedIDs(nil, slices.Concat(long[3:]...), 2)
	inside, err := zstd.InspectDictionary(dict.Bytes)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(all[len(all)-32*kib:], inside.Content()))
	for _, c := range []struct {
		id    uint32
		vocab int
	}{{0, 768}, {1, 0}, {1, -1}, {1, MaxVocab + 1}} {
		_, err := TrainDictionary(c.id, c.vocab, paths)
		assert.ErrorIs(t, err, ErrValue, "%+v", c)
	}
	for _, vocab := range []int{1, MaxVocab} {
		_, err = TrainDictionary(1, vocab, paths)
		assert.NotErrorIs(t, err, ErrValue, "%d", vocab)
	}
}

func FuzzCodec(f *testing.F) {
	_, prompts, answers := world(40)
	dict, err := TrainDictionary(7, worldVocab, interleave(prompts[:30], answers[:30]))
	require.NoError(f, err)
	var codecs []*Codec
	for _, d := range []Dictionary{{}, dict} {
		codec := newCodec(f, worldVocab, d)
		codecs = append(codecs, codec)
	}
	plain, trained := codecs[0], codecs[1]
	f.Add([]byte{1, 2, 3}, 0, uint8(0), uint16(2))
	for _, c := range []struct {
		codec     *Codec
		base, ids []int32
		want      Coding
	}{
		{plain, nil, slices.Repeat([]int32{1, 2, 3, 4}, 40), Zstd},
		{plain, slices.Repeat([]int32{9}, 50), slices.Repeat([]int32{9}, 100), Zstd},
		{trained, nil, prompts[35], Trained},
	} {
		d := encode(f, c.codec, c.base, c.ids)
		require.Equal(f, c.want, d.Coding)
		f.Add(d.Bytes, len(c.base), uint8(d.Coding), uint16(d.Count))
	}
	f.Fuzz(func(t *testing.T, b []byte, base int, coding uint8, count uint16) {
		path := slices.Repeat([]int32{9}, max(0, min(base, 1000)))
		for _, codec := range codecs {
			ids, err := codec.Decode(path, Delta{Count: int(count), Coding: Coding(coding), Bytes: b})
			if err != nil {
				continue
			}
			require.Len(t, ids, int(count))
			d := encode(t, codec, path, ids)
			back := decode(t, codec, path, d)
			require.Equal(t, ids, back)
		}
	})
}

func FuzzDifference(f *testing.F) {
	f.Add([]byte("abc"), []byte("abd"))
	f.Add([]byte(""), []byte(strings.Repeat("x", 300)))
	codec := newCodec(f, 256, Dictionary{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		k := NewKnown(1 << 20)
		k.Add(bytesOf(string(a)))
		path := bytesOf(string(b))
		n, h := k.Longest(path)
		d := encode(t, codec, path[:n], path[n:])
		base, ok := k.Find(n, h)
		require.True(t, ok)
		rest := decode(t, codec, base, d)
		require.True(t, slices.Equal(path, append(base, rest...)))
	})
}

// TestCodingSizes measures which coding is the shortest, on chats like those of the demo. zstd with the base as
// dictionary is shorter from about a hundred tokens on, and with a trained dictionary from about a dozen; below that,
// for most escalations, packed ids are the shortest.
func TestCodingSizes(t *testing.T) {
	racing.Spare(t)
	_, prompts, answers := world(200)
	const held = 100 // from here on they are measured
	dict, err := TrainDictionary(7, worldVocab, interleave(prompts[:held], answers[:held]))
	require.NoError(t, err)
	codec := newCodec(t, worldVocab, dict)
	t.Logf("%-34s %8s %8s %8s %8s %8s %8s", "mean bytes of", "tokens", "packed", "zstd", "base", "trained", "chosen")
	type sizes struct{ tokens, packed, zstd, base, trained, chosen float64 }
	measure := func(name string, cut func(prompt, answer []int32, i int) (base, delta []int32)) (s sizes) {
		const n = 100
		squeezed := func(c Coding, base, delta []int32) float64 {
			b, err := codec.compressIDs(c, base, delta)
			require.NoError(t, err)
			return float64(len(b)) / n
		}
		for i := held; i < held+n; i++ {
			base, delta := cut(prompts[i], answers[i], i)
			d := encode(t, codec, base, delta)
			s.tokens += float64(len(delta)) / n
			s.packed += float64(packedSize(len(delta), idBits(worldVocab))) / n
			s.zstd += float64(len(zstd.EncodeTo(nil, appendFixedIDs(nil, delta, idBytes(worldVocab))))) / n
			s.base += squeezed(Zstd, base, delta)
			s.trained += squeezed(Trained, base, delta)
			s.chosen += float64(len(d.Bytes)) / n
		}
		t.Logf("%-34s %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f",
			name, s.tokens, s.packed, s.zstd, s.base, s.trained, s.chosen)
		assert.LessOrEqual(t, s.chosen, s.packed, name)
		return s
	}
	s := measure("an escalation's delta, 5 to 15",
		func(p, a []int32, i int) ([]int32, []int32) { return p, a[:min(5+i%11, len(a))] })
	assert.Less(t, s.packed, min(s.zstd, s.base, s.trained), "packed ids are the shortest")
	s = measure("an answer, after its prompt", func(p, a []int32, _ int) ([]int32, []int32) { return p, a })
	assert.Less(t, s.chosen, s.packed)
	s = measure("a prompt, nothing before it", func(p, _ []int32, _ int) ([]int32, []int32) { return nil, p })
	assert.Less(t, s.trained, s.packed/2, "the trained dictionary is less than half")
	measure("a second prompt in the same chat", func(p, a []int32, i int) ([]int32, []int32) {
		return slices.Concat(prompts[i-1], answers[i-1]), p
	})
	s = measure("five chats, after another one", func(_, _ []int32, i int) (base, all []int32) {
		for j := range 5 {
			all = slices.Concat(all, prompts[i-j], answers[i-j])
		}
		return slices.Concat(prompts[i-5], answers[i-5]), all
	})
	assert.Less(t, s.base, 0.7*s.packed, "the base as dictionary saves 30%")
}

// TestAgainstJSON: an escalation with a context of 500 tokens is at least 20 times smaller than its text as JSON.
func TestAgainstJSON(t *testing.T) {
	b, _, _ := world(1)
	r := source()
	text := ""
	for len(b.encode(text)) < 500 {
		p, a := chat(r)
		text += p + " " + a + " "
	}
	asJSON, err := json.Marshal(map[string]any{"model": "large", "prompt": text, "max_tokens": 1,
		"temperature": 0, "logprobs": 4})
	require.NoError(t, err)
	path := b.encode(text)
	codec := newCodec(t, worldVocab, Dictionary{})
	for _, n := range []int{5, 10, 15} {
		base := path[:len(path)-n]
		d := encode(t, codec, base, path[len(base):])
		a := Ask{Session: 1 << 31, Path: Path{len(base), RootHash.Over(base), d},
			Question: terms.Question{K: 4, AuditFrom: 100,
				Within: 800 * time.Millisecond}}
		up := len(a.Append(nil))
		a.Sampling = terms.Sampling{Temperature: 0.7, TopP: 0.9, TopK: 40, Seed: 1 << 63}
		sampled := len(a.Append(nil))
		t.Logf("%d tokens of context, %2d after the base: %d bytes (%d when sampling), JSON %d: %.0f times",
			len(path), n, up, sampled, len(asJSON), float64(len(asJSON))/float64(up))
		assert.LessOrEqual(t, sampled, 80)
		assert.GreaterOrEqual(t, len(asJSON), 20*up)
		assert.GreaterOrEqual(t, len(asJSON), 20*sampled)
	}
}
