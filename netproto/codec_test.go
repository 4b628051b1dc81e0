package netproto

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ids come back from every coding that the sender may choose, for any vocabulary and base.
func TestCodecRoundTrip(t *testing.T) {
	r := source()
	for _, vocab := range []int{1, 2, 3, 255, 256, 257, 768, 65536, 65537, 151936, MaxVocab} {
		codec, err := NewCodec(vocab, Dictionary{})
		require.NoError(t, err)
		used := map[Coding]int{}
		for range 60 {
			ids := make([]int32, r.IntN(300))
			for i := range ids {
				if i > 20 && r.IntN(8) > 0 {
					ids[i] = ids[i-20] // something to compress
				} else {
					ids[i] = int32(r.IntN(vocab))
				}
			}
			at := r.IntN(len(ids) + 1)
			d, err := codec.Encode(ids[:at], ids[at:])
			require.NoError(t, err)
			used[d.Coding]++
			back, err := codec.Decode(ids[:at], d)
			require.NoError(t, err)
			require.True(t, slices.Equal(ids[at:], back))
			require.LessOrEqual(t, len(d.Bytes), packedSize(d.Count, idBits(vocab)))
		}
		t.Log(vocab, used)
	}
}

// With a trained dictionary, and nothing else than the right one.
func TestCodecTrained(t *testing.T) {
	_, prompts, answers := world(40)
	dict, err := TrainDictionary(7, worldVocab, interleave(prompts[:30], answers[:30]))
	require.NoError(t, err)
	codec, err := NewCodec(worldVocab, dict)
	require.NoError(t, err)
	defer codec.Close()
	d, err := codec.Encode(nil, prompts[35])
	require.NoError(t, err)
	require.Equal(t, Trained, d.Coding)
	ids, err := codec.Decode(nil, d)
	require.NoError(t, err)
	require.Equal(t, prompts[35], ids)
	without, err := NewCodec(worldVocab, Dictionary{})
	require.NoError(t, err)
	_, err = without.Decode(nil, d)
	require.ErrorIs(t, err, ErrValue)
	_, err = NewCodec(worldVocab, Dictionary{ID: 1, Bytes: []byte("no dictionary")})
	require.Error(t, err)
	_, err = TrainDictionary(0, worldVocab, prompts)
	require.ErrorIs(t, err, ErrValue)
	_, err = TrainDictionary(1, worldVocab, nil)
	require.Error(t, err)
}

// What does not fit vocabulary or count is refused, whatever the coding.
func TestCodecRefuses(t *testing.T) {
	codec, err := NewCodec(768, Dictionary{})
	require.NoError(t, err)
	for _, id := range []int32{-1, 768} {
		_, err := codec.Encode(nil, []int32{id})
		assert.ErrorIs(t, err, ErrValue)
	}
	good := pack(nil, []int32{1, 2, 3}, 10)
	for _, d := range []Delta{
		{Count: 4, Bytes: good}, {Count: 2, Bytes: good}, {Count: -1, Bytes: nil},
		{Count: 3, Bytes: pack(nil, []int32{1, 800, 3}, 10)}, {Count: 3, Bytes: []byte{1, 2, 3, 0xff}},
		{Count: 3, Coding: Zstd, Bytes: good}, {Count: 0, Coding: Zstd}, {Count: 3, Coding: Trained, Bytes: good}, {Count: 1, Coding: codings},
	} {
		_, err := codec.Decode(nil, d)
		assert.Error(t, err, "%+v", d)
	}
	for _, vocab := range []int{0, -1, MaxVocab + 1} {
		_, err := NewCodec(vocab, Dictionary{})
		assert.ErrorIs(t, err, ErrValue)
	}
}

// Bytes that decompress to more than the ids they claim cost no more memory than those.
func TestCodecCap(t *testing.T) {
	codec, err := NewCodec(768, Dictionary{})
	require.NoError(t, err)
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bomb := enc.EncodeAll(make([]byte, 64<<20), nil)
	require.Less(t, len(bomb), 8<<10)
	start := time.Now()
	grown := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err = codec.Decode(nil, Delta{Count: 10, Coding: Zstd, Bytes: bomb[4:]})
		}
	})
	require.Error(t, err)
	require.Less(t, grown.AllocedBytesPerOp(), int64(1<<20))
	t.Logf("%d bytes that claim 10 ids and hold 64 MiB: %d bytes allocated, %v", len(bomb), grown.AllocedBytesPerOp(), time.Since(start)/time.Duration(grown.N))
}

func FuzzCodec(f *testing.F) {
	_, prompts, answers := world(40)
	dict, err := TrainDictionary(7, worldVocab, interleave(prompts[:30], answers[:30]))
	require.NoError(f, err)
	var codecs []*Codec
	for _, d := range []Dictionary{{}, dict} {
		codec, err := NewCodec(worldVocab, d)
		require.NoError(f, err)
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
		d, err := c.codec.Encode(c.base, c.ids)
		require.NoError(f, err)
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
			d, err := codec.Encode(path, ids)
			require.NoError(t, err)
			back, err := codec.Decode(path, d)
			require.NoError(t, err)
			require.Equal(t, ids, back)
		}
	})
}

func FuzzDifference(f *testing.F) {
	f.Add([]byte("abc"), []byte("abd"))
	f.Add([]byte(""), []byte(strings.Repeat("x", 300)))
	codec, err := NewCodec(256, Dictionary{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		k := NewKnown(1 << 20)
		k.Add(bytesOf(string(a)))
		path := bytesOf(string(b))
		n, h := k.Longest(path)
		d, err := codec.Encode(path[:n], path[n:])
		require.NoError(t, err)
		base, ok := k.Find(n, h)
		require.True(t, ok)
		rest, err := codec.Decode(base, d)
		require.NoError(t, err)
		require.True(t, slices.Equal(path, append(base, rest...)))
	})
}

// Which coding is shortest for what, on chats of a world like the demo's. "zstd must earn its place": with the base as
// dictionary it does from about a hundred tokens on, with a trained dictionary from about a dozen; below that, where most
// escalations are, nothing beats packed ids.
func TestCodingSizes(t *testing.T) {
	_, prompts, answers := world(200)
	const held = 100 // from here on they are measured
	dict, err := TrainDictionary(7, worldVocab, interleave(prompts[:held], answers[:held]))
	require.NoError(t, err)
	codec, err := NewCodec(worldVocab, dict)
	require.NoError(t, err)
	defer codec.Close()
	t.Logf("%-34s %8s %8s %8s %8s %8s %8s", "mean bytes of", "tokens", "packed", "zstd", "base", "trained", "chosen")
	type sizes struct{ tokens, packed, zstd, base, trained, chosen float64 }
	measure := func(name string, cut func(prompt, answer []int32, i int) (base, delta []int32)) (s sizes) {
		const n = 100
		squeezed := func(c Coding, base, delta []int32) float64 {
			b, err := codec.squeeze(c, base, delta)
			require.NoError(t, err)
			return float64(len(b)) / n
		}
		for i := held; i < held+n; i++ {
			base, delta := cut(prompts[i], answers[i], i)
			d, err := codec.Encode(base, delta)
			require.NoError(t, err)
			s.tokens += float64(len(delta)) / n
			s.packed += float64(packedSize(len(delta), idBits(worldVocab))) / n
			s.zstd += float64(len(zstd.EncodeTo(nil, spread(nil, delta, idBytes(worldVocab))))) / n
			s.base += squeezed(Zstd, base, delta)
			s.trained += squeezed(Trained, base, delta)
			s.chosen += float64(len(d.Bytes)) / n
		}
		t.Logf("%-34s %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f", name, s.tokens, s.packed, s.zstd, s.base, s.trained, s.chosen)
		assert.LessOrEqual(t, s.chosen, s.packed, name)
		return s
	}
	s := measure("an escalation's delta, 5 to 15", func(p, a []int32, i int) ([]int32, []int32) { return p, a[:min(5+i%11, len(a))] })
	assert.Less(t, s.packed, min(s.zstd, s.base, s.trained), "where nothing is shorter than packed ids")
	s = measure("an answer, after its prompt", func(p, a []int32, _ int) ([]int32, []int32) { return p, a })
	assert.Less(t, s.chosen, s.packed)
	s = measure("a prompt, nothing before it", func(p, _ []int32, _ int) ([]int32, []int32) { return nil, p })
	assert.Less(t, s.trained, s.packed/2, "the trained dictionary earns its place")
	measure("a second prompt in the same chat", func(p, a []int32, i int) ([]int32, []int32) {
		return slices.Concat(prompts[i-1], answers[i-1]), p
	})
	s = measure("five chats, after another one", func(_, _ []int32, i int) (base, all []int32) {
		for j := range 5 {
			all = slices.Concat(all, prompts[i-j], answers[i-j])
		}
		return slices.Concat(prompts[i-5], answers[i-5]), all
	})
	assert.Less(t, s.base, 0.7*s.packed, "the base as dictionary earns its place")
}

// An escalation about a context of 500 tokens takes at least 20 times less than its text as JSON.
func TestAgainstJSON(t *testing.T) {
	b, _, _ := world(1)
	r := source()
	text := ""
	for len(b.encode(text)) < 500 {
		p, a := chat(r)
		text += p + " " + a + " "
	}
	asJSON, err := json.Marshal(map[string]any{"model": "large", "prompt": text, "max_tokens": 1, "temperature": 0, "logprobs": 4})
	require.NoError(t, err)
	path := b.encode(text)
	codec, err := NewCodec(worldVocab, Dictionary{})
	require.NoError(t, err)
	for _, n := range []int{5, 10, 15} {
		base := path[:len(path)-n]
		d, err := codec.Encode(base, path[len(base):])
		require.NoError(t, err)
		a := Ask{Session: 1 << 31, Path: Path{len(base), RootHash.Over(base), d}, K: 4, AuditFrom: 100, Deadline: 800 * time.Millisecond}
		up := len(a.Append(nil))
		a.Sampling = Sampling{Temperature: 0.7, TopP: 0.9, TopK: 40, Seed: 1 << 63}
		sampled := len(a.Append(nil))
		t.Logf("%d tokens of context, %2d after the base: %d bytes (%d when sampling), JSON %d: %.0f times", len(path), n, up, sampled, len(asJSON), float64(len(asJSON))/float64(up))
		assert.LessOrEqual(t, sampled, 80)
		assert.GreaterOrEqual(t, len(asJSON), 20*up)
		assert.GreaterOrEqual(t, len(asJSON), 20*sampled)
	}
}
