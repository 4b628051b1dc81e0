package netproto

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// model is the reference of Known: the prefixes of all added paths that were not dropped, each as a string.
type model struct {
	limit  int
	begins map[string]bool // empty for the root
	trunk  []int32
}

// written returns a path of small tokens as a string.
func written(path []int32) string {
	b := make([]byte, len(path))
	for i, id := range path {
		b[i] = byte(id)
	}
	return string(b)
}

func newModel(limit int) *model { return &model{limit: limit, begins: map[string]bool{}} }

func (m *model) longest(path []int32) int {
	n := 0
	for n < len(path) && m.begins[written(path[:n+1])] {
		n++
	}
	return n
}

func (m *model) add(path []int32) {
	n := m.longest(path)
	if len(m.begins)+len(path)-n > m.limit && n < len(m.begins) {
		clear(m.begins)
		if terms.CommonPrefix(m.trunk, path) < len(m.trunk) {
			m.trunk = nil
		}
	}
	for i := range path {
		m.begins[written(path[:i+1])] = true
	}
}

func (m *model) settle(path []int32) { m.trunk = slices.Clone(path[:m.longest(path)]) }

// draw returns a path that usually shares a prefix with an earlier one.
func draw(r *rand.Rand, before [][]int32) []int32 {
	var p []int32
	if len(before) > 0 && r.IntN(4) > 0 {
		from := before[r.IntN(len(before))]
		p = slices.Clone(from[:r.IntN(len(from)+1)])
	}
	for range r.IntN(6) {
		p = append(p, int32(r.IntN(3))) // few different tokens, so that paths share prefixes
	}
	return p
}

// TestKnownAgainstModel: over random histories, with much and little room, all methods of Known agree with a plain set
// of prefixes.
func TestKnownAgainstModel(t *testing.T) {
	for _, seed := range seeds(t, 70) {
		r := rand.New(rand.NewPCG(seed, 7))
		limit := []int{0, 1, 5, 12, 20, 40, 1 << 20}[seed%7]
		m, k := newModel(limit), NewKnown(limit)
		var drawn [][]int32
		for range 40 {
			p := draw(r, drawn)
			drawn = append(drawn, slices.Clone(p))
			switch r.IntN(8) {
			case 0:
				k.Settle(p)
				m.settle(p)
			case 1:
				if r.IntN(4) == 0 {
					k.Clear()
					*m = *newModel(limit)
				}
			default:
				require.Equal(t, RootHash.Over(p), k.Add(p), "seed %d", seed)
				m.add(p)
				for i := range p {
					p[i] = 99 // the caller may change it
				}
			}
			agree(t, m, k, drawn)
		}
	}
}

// agree compares all answers of k with those of a model for some paths.
func agree(t *testing.T, m *model, k *Known, paths [][]int32) {
	t.Helper()
	require.Equal(t, len(m.begins), k.Tokens())
	n, h := k.Trunk()
	require.Equal(t, len(m.trunk), n)
	require.Equal(t, RootHash.Over(m.trunk), h)
	for _, p := range paths[max(0, len(paths)-8):] {
		want := m.longest(p)
		n, h := k.Longest(p)
		require.Equal(t, want, n)
		require.Equal(t, RootHash.Over(p[:n]), h)
		for n := range len(p) + 1 {
			h := RootHash.Over(p[:n])
			found, ok := k.Find(n, h)
			if ok != (n <= want) || ok && !slices.Equal(p[:n], found) {
				t.Fatalf("first %[2]d of %[1]v, of which %[3]d are known: found %[4]v, %[5]t", p, n, want, found, ok)
			}
			for i := range found {
				found[i] = 99 // the result belongs to the caller
			}
			for _, wrong := range []int{-1, n - 1, n + 1} {
				if _, ok := k.Find(wrong, h); ok {
					t.Fatalf("found with a length of %d: a path of %d", wrong, n)
				}
			}
			if _, ok := k.Find(n, h+1); ok {
				t.Fatalf("found with another hash: %v", p[:n])
			}
		}
	}
}

// FuzzKnown: any history that a peer can cause agrees with a list of whole paths while there is room; with little room,
// found paths were still added before.
func FuzzKnown(f *testing.F) {
	f.Add([]byte{0, 3, 1, 2, 0, 0, 2, 1, 2, 1, 2, 1, 2, 2, 0, 3, 0, 1, 1})
	f.Add([]byte{0, 1, 1, 1, 1, 1, 3, 0, 1, 1, 0, 2, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		wide, narrow := NewKnown(1<<20), NewKnown(8)
		added, held := newModel(1<<20), newModel(8)
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
				added.add(path)
				held.add(path)
			case 1:
				wide.Add(path)
				wide.Settle(path)
				narrow.Add(path)
				narrow.Settle(path)
				added.add(path)
				held.add(path)
				held.settle(path)
			case 2:
				longest, hash := wide.Longest(path)
				require.Equal(t, added.longest(path), longest)
				require.Equal(t, RootHash.Over(path[:longest]), hash)
				longest, _ = narrow.Longest(path)
				require.Equal(t, held.longest(path), longest)
			case 3:
				found, ok := wide.Find(n, h)
				require.Equal(t, added.longest(path) == n, ok)
				require.True(t, !ok || slices.Equal(path, found))
				_, ok = wide.Find(n, h+1)
				require.False(t, ok)
				found, ok = narrow.Find(n, h)
				require.Equal(t, held.longest(path) == n, ok)
				require.True(t, !ok || slices.Equal(path, found))
			}
			length, hash := narrow.Trunk()
			require.Equal(t, len(held.trunk), length)
			require.Equal(t, RootHash.Over(held.trunk), hash)
		}
	})
}

// TestDifference: the tokens after the longest known prefix, appended to it, give the path: apply(diff(a,b), a) = b,
// with the trees of both sides and every coding.
func TestDifference(t *testing.T) {
	r := source()
	codec := newCodec(t, 3, Dictionary{})
	for range 200 {
		var drawn [][]int32
		edge, cloud := NewKnown(200), NewKnown(150)
		for range 60 {
			p := draw(r, drawn)
			drawn = append(drawn, p)
			n, h := edge.Longest(p)
			base, ok := cloud.Find(n, h)
			if !ok { // dropped there: from the start
				edge.Clear()
				n, base = 0, nil
			}
			d := encode(t, codec, p[:n], p[n:])
			rest := decode(t, codec, base, d)
			require.True(t, slices.Equal(p, append(base, rest...)))
			cloud.Add(p)
			edge.Add(p)
		}
	}
}

// TestKnownLimit: a path that exactly fits drops nothing, one more token drops all others; a path longer than the limit
// is kept.
func TestKnownLimit(t *testing.T) {
	k := NewKnown(10)
	k.Add([]int32{1, 2, 3, 4})
	k.Settle([]int32{1, 2, 3, 4})
	k.Add([]int32{1, 2, 3, 4, 5, 6, 7, 8})
	k.Add([]int32{1, 2, 9, 9})
	assert.Equal(t, 10, k.Tokens())
	k.Add([]int32{1, 2, 3, 4, 5})
	assert.Equal(t, 10, k.Tokens(), "nothing new")
	k.Add([]int32{1, 2, 3, 4, 6})
	assert.Equal(t, 5, k.Tokens())
	n, h := k.Trunk()
	assert.Equal(t, 4, n, "settled tokens stay")
	assert.Equal(t, RootHash.Over([]int32{1, 2, 3, 4}), h)
	k.Add([]int32{1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13})
	assert.Equal(t, 12, k.Tokens(), "settled tokens continue")
	n, _ = k.Trunk()
	assert.Equal(t, 4, n)
	k.Add(make([]int32, 500))
	assert.Equal(t, 500, k.Tokens())
	n, h = k.Trunk()
	assert.Zero(t, n)
	assert.Equal(t, RootHash, h)
}

// TestHash: each step of the hash is invertible, so that paths that differ in one token have different hashes; so do
// any two of 160 000.
func TestHash(t *testing.T) {
	seen := make(map[Hash]bool, 1<<18)
	for a := range int32(400) {
		for b := range int32(400) {
			h := RootHash.Next(a).Next(b)
			if seen[h] {
				t.Fatalf("%d, %d collides", a, b)
			}
			seen[h] = true
		}
	}
	assert.Len(t, seen, 160_000)
	assert.Equal(t, RootHash.Next(1).Next(2), RootHash.Over([]int32{1, 2}))
}
