package lookup

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// naive is Find by its definition, with a full search.
func naive(text, tail []int32, n int) (length int, next []int32) {
	whole := slices.Concat(text, tail)
	end := len(whole) - 1
	best, looked := -1, 0
	for p := len(text) - 1; p >= 1 && n > 0; p-- {
		if p == end || whole[p] != whole[end] || whole[p-1] != whole[end-1] {
			continue
		}
		if looked++; looked > 64 {
			break
		}
		same := 0
		for same < 32 && same <= p && whole[p-same] == whole[end-same] {
			same++
		}
		if same > length {
			length, best = same, p
		}
	}
	if best < 0 {
		return 0, nil
	}
	for i := range n {
		whole = append(whole, whole[best+1+i])
	}
	return length, whole[end+1:]
}

// FuzzFind: Find equals a full search for any text, tail and number of guesses.
func FuzzFind(f *testing.F) {
	f.Add(uint64(1), uint16(200), uint8(2), uint8(3), uint8(7))
	f.Add(uint64(2), uint16(0), uint8(3), uint8(0), uint8(1))
	f.Add(uint64(3), uint16(1), uint8(1), uint8(1), uint8(8))
	f.Add(uint64(4), uint16(1), uint8(1), uint8(0), uint8(8))
	f.Add(uint64(5), uint16(90), uint8(1), uint8(40), uint8(0))
	f.Add(uint64(6), uint16(2), uint8(1), uint8(0), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, size uint16, vocab, after, n uint8) {
		text, tail := repetitive(seed, int(size%2000), int(after%64), int(vocab)+1)
		x := new(Index)
		for at := 0; ; {
			length, next := x.Find(tail, int(n%16))
			wantLength, want := naive(text[:at], tail, int(n%16))
			require.Equal(t, wantLength, length, "%v, %v", text[:at], tail)
			require.Equal(t, want, next, "%v, %v", text[:at], tail)
			require.Equal(t, at, x.Len())
			if at == len(text) {
				return
			}
			step := min(len(text)-at, 1+int(seed+uint64(at))%97)
			x.Append(text[at : at+step]...)
			at += step
		}
	})
}

// repetitive returns a text, and a tail after it, of new tokens and copies of earlier ones.
func repetitive(seed uint64, size, after, vocab int) (text, tail []int32) {
	r := rand.New(rand.NewPCG(seed, 7))
	all := make([]int32, 0, size+after)
	for len(all) < size+after {
		if len(all) == 0 || r.IntN(4) == 0 {
			all = append(all, int32(r.IntN(vocab))-int32(vocab)/2)
			continue
		}
		from := r.IntN(len(all))
		for i := from; i < len(all) && len(all) < size+after && r.IntN(20) > 0; i++ {
			all = append(all, all[i])
		}
	}
	return all[:size], all[size:]
}

// TestFindLooksAtSome: the 64 latest places are compared, and no more.
func TestFindLooksAtSome(t *testing.T) {
	for between, want := range map[int]int{62: 4, 63: 3, 64: 2} { // the end itself is not a place
		x := new(Index)
		x.Append(4, 3, 2, 1, 99)
		x.Append(0, 3, 2, 1, 98)
		for i := range between {
			x.Append(100+int32(i), 2, 1)
		}
		x.Append(4, 3)
		length, _ := x.Find([]int32{2, 1}, 1)
		assert.Equal(t, want, length, "%d places between", between)
	}
}

// TestKeysDiffer: tokens with different values are distinguished.
func TestKeysDiffer(t *testing.T) {
	x := new(Index)
	x.Append(-1, 0, 9, 0, -1)
	length, _ := x.Find(nil, 1)
	assert.Zero(t, length)
	length, next := x.Find([]int32{0}, 1)
	assert.Equal(t, 2, length)
	assert.Equal(t, []int32{9}, next)
}

// BenchmarkIndex: the time per token does not grow with the text: a long text without repeats, and one with a single
// token.
func BenchmarkIndex(b *testing.B) {
	for _, vocab := range []int{1, 100, 150_000} {
		b.Run(map[int]string{1: "one token", 100: "few tokens", 150_000: "many tokens"}[vocab], func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			x := new(Index)
			for b.Loop() {
				x.Append(int32(r.IntN(vocab)))
				x.Find(nil, 7)
			}
		})
	}
}
