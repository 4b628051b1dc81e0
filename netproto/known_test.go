package netproto

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// model is what Known should be: all paths, as they are.
type model [][]int32

func (m model) longest(path []int32) int {
	best := 0
	for _, p := range m {
		best = max(best, common(p, path))
	}
	return best
}

// draw returns a path that has a beginning in common with one that was drawn before, more often than not.
func (m model) draw(r *rand.Rand) []int32 {
	var p []int32
	if len(m) > 0 && r.IntN(4) > 0 {
		from := m[r.IntN(len(m))]
		p = slices.Clone(from[:r.IntN(len(from)+1)])
	}
	for range r.IntN(6) {
		p = append(p, int32(r.IntN(3))) // few different tokens, so that paths meet
	}
	return p
}

// Known agrees with a list of whole paths, over random histories.
func TestKnownAgainstModel(t *testing.T) {
	r := source()
	for range 300 {
		var m model
		k := NewKnown(1 << 20)
		for range 40 {
			p := m.draw(r)
			n, h := k.Longest(p)
			require.Equal(t, m.longest(p), n)
			require.Equal(t, RootHash.Over(p[:n]), h)
			found, ok := k.Find(n, h)
			require.True(t, ok)
			require.True(t, slices.Equal(p[:n], found))
			_, ok = k.Find(n+1, RootHash.Over(append(slices.Clone(p[:n]), 99)))
			require.False(t, ok)
			require.Equal(t, RootHash.Over(p), k.Add(p))
			m = append(m, p)
		}
	}
}

// Any history of what a peer can cause agrees with a list of whole paths, as long as there is room; with little room
// what is found is still what was told.
func FuzzKnown(f *testing.F) {
	f.Add([]byte{0, 3, 1, 2, 0, 0, 2, 1, 2, 1, 2, 1, 2, 2, 0, 3, 0, 1, 1})
	f.Add([]byte{0, 1, 1, 1, 1, 1, 3, 0, 1, 1, 0, 2, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		wide, narrow := NewKnown(1<<20), NewKnown(8)
		var told model
		for len(b) >= 2 {
			op, n := b[0]%4, min(int(b[1])%32, len(b)-2)
			path := make([]int32, n)
			for i, x := range b[2 : 2+n] {
				path[i] = int32(x % 3)
			}
			b = b[2+n:]
			h := RootHash.Over(path)
			switch op {
			case 0:
				require.Equal(t, h, wide.Add(path))
				require.Equal(t, h, narrow.Add(path))
				told = append(told, path)
			case 1:
				wide.Add(path)
				wide.Settle(path)
				narrow.Add(path)
				narrow.Settle(path)
				told = append(told, path)
			case 2:
				longest, hash := wide.Longest(path)
				require.Equal(t, told.longest(path), longest)
				require.Equal(t, RootHash.Over(path[:longest]), hash)
				longest, _ = narrow.Longest(path)
				require.LessOrEqual(t, longest, told.longest(path))
			case 3:
				found, ok := wide.Find(n, h)
				require.Equal(t, told.longest(path) == n, ok)
				require.True(t, !ok || slices.Equal(path, found))
				_, ok = wide.Find(n, h+1)
				require.False(t, ok)
				found, ok = narrow.Find(n, h)
				require.True(t, !ok || slices.Equal(path, found))
			}
			length, hash := narrow.Trunk()
			trunk, ok := narrow.Find(length, hash)
			require.True(t, ok)
			require.Equal(t, hash, RootHash.Over(trunk))
		}
	})
}

// What follows the longest known beginning, put behind it again, is the path: apply(diff(a,b), a) = b, through both
// sides' trees and every coding.
func TestDifference(t *testing.T) {
	r := source()
	codec, err := NewCodec(3, Dictionary{})
	require.NoError(t, err)
	for range 200 {
		var m model
		edge, cloud := NewKnown(200), NewKnown(150)
		for range 60 {
			p := m.draw(r)
			m = append(m, p)
			n, h := edge.Longest(p)
			base, ok := cloud.Find(n, h)
			if !ok { // forgotten there: from the beginning
				edge.Clear()
				n, base = 0, nil
			}
			d, err := codec.Encode(p[:n], p[n:])
			require.NoError(t, err)
			rest, err := codec.Decode(base, d)
			require.NoError(t, err)
			require.True(t, slices.Equal(p, append(base, rest...)))
			cloud.Add(p)
			edge.Add(p)
		}
	}
}

// It holds no more than its limit, apart from a path that alone is longer, and remembers what is settled while it can.
func TestKnownLimit(t *testing.T) {
	k := NewKnown(100)
	settled := []int32{1, 2, 3, 4}
	k.Add(settled)
	k.Settle(settled)
	r := source()
	for range 200 {
		p := slices.Clone(settled)
		for range 20 {
			p = append(p, int32(r.IntN(100)))
		}
		k.Add(p)
		require.LessOrEqual(t, k.Tokens(), 100)
		n, _ := k.Longest(p)
		require.Equal(t, len(p), n)
		n, h := k.Trunk()
		require.Equal(t, 4, n)
		require.Equal(t, RootHash.Over(settled), h)
	}
	k.Add(make([]int32, 500))
	assert.Equal(t, 500, k.Tokens())
	n, h := k.Trunk()
	assert.Zero(t, n)
	assert.Equal(t, RootHash, h)
}

// Each step of the hash can be undone, so paths that differ in one token differ in hash; and any two of a million do.
func TestHash(t *testing.T) {
	seen := map[Hash]bool{RootHash: true}
	for a := range int32(1000) {
		for b := range int32(1000) {
			h := RootHash.Next(a).Next(b)
			require.False(t, seen[h])
			seen[h] = true
		}
	}
	assert.Equal(t, RootHash.Next(1).Next(2), RootHash.Over([]int32{1, 2}))
	assert.Equal(t, Hash(0xa62c4619682fb123), RootHash.Over([]int32{1, 2, 3}), "the formula is part of the protocol")
}
