package netproto

import (
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Known is the set of paths of one session, as a tree. An edge stores what the gateway acknowledged, a gateway what it
// received. It is not safe for concurrent use.
//
// A segment is a run of tokens without a fork; its parent is another segment or the root, at the position where it
// begins. A path that continues at the end of a segment extends it, any other path begins a new segment.
type Known struct {
	segments []segment
	tokens   int
	limit    int
	trunk    treePosition // end of the settled path
}

type segment struct {
	parent int // index of a segment; -1 is the root
	start  int // position of its first token
	ids    []int32
	hashes []Hash // hashes[i] is the hash of the path up to and including ids[i]
}

func (s *segment) endPosition() int { return s.start + len(s.ids) }

// NewKnown returns an empty set that holds up to limit tokens. Adding a path that does not fit removes all others.
func NewKnown(limit int) *Known { return &Known{limit: limit, trunk: treePosition{-1, 0}} }

// Settle declares that all later paths begin with this one, which is in the set.
func (k *Known) Settle(path []int32) { k.trunk = k.findPrefix(path) }

// Trunk returns length and hash of the last settled path, as far as it is still in the set.
func (k *Known) Trunk() (int, Hash) { return k.trunk.position, k.hashAt(k.trunk) }

// treePosition is a position on a segment; the root is {-1, 0}.
type treePosition struct{ segment, position int }

func (k *Known) rootPosition() treePosition { return treePosition{-1, 0} }

// Longest returns length and hash of the longest prefix of path in the set.
func (k *Known) Longest(path []int32) (int, Hash) {
	p := k.findPrefix(path)
	return p.position, k.hashAt(p)
}

func (k *Known) findPrefix(path []int32) treePosition {
	p := k.rootPosition()
	for len(path) > p.position {
		next := k.enterChild(p, path[p.position:])
		if next == p {
			break
		}
		p = next
	}
	return p
}

// enterChild follows ids from a position, at the end of a segment or at a fork, into the segment that begins with them.
func (k *Known) enterChild(p treePosition, ids []int32) treePosition {
	for i := p.segment + 1; i < len(k.segments); i++ { // a child comes after its parent
		s := &k.segments[i]
		if s.parent == p.segment && s.start == p.position && s.ids[0] == ids[0] {
			return treePosition{i, p.position + terms.CommonPrefix(s.ids, ids)}
		}
	}
	return p
}

func (k *Known) hashAt(p treePosition) Hash {
	if p.position == 0 {
		return RootHash
	}
	s := &k.segments[p.segment]
	return s.hashes[p.position-s.start-1]
}

// Find returns the path with the given length and hash, or false.
func (k *Known) Find(length int, hash Hash) ([]int32, bool) {
	if length == 0 {
		return nil, hash == RootHash
	}
	for i := range k.segments {
		s := &k.segments[i]
		if s.start < length && length <= s.endPosition() && s.hashes[length-s.start-1] == hash {
			return k.pathTo(treePosition{i, length}), true
		}
	}
	return nil, false
}

func (k *Known) pathTo(p treePosition) []int32 {
	out := make([]int32, p.position)
	for end := p.position; end > 0; {
		s := &k.segments[p.segment]
		copy(out[s.start:end], s.ids)
		end, p.segment = s.start, s.parent
	}
	return out
}

// Add adds a path and returns its hash.
func (k *Known) Add(path []int32) Hash {
	p := k.findPrefix(path)
	rest := path[p.position:]
	if k.tokens+len(rest) > k.limit && p.position < k.tokens {
		trunk := k.pathTo(k.trunk)
		k.Clear()
		h := k.Add(path)
		if terms.CommonPrefix(trunk, path) == len(trunk) {
			k.Settle(trunk)
		}
		return h
	}
	if len(rest) == 0 {
		return k.hashAt(p)
	}
	hashes := make([]Hash, len(rest))
	h := k.hashAt(p)
	for i, id := range rest {
		h = h.Next(id)
		hashes[i] = h
	}
	k.tokens += len(rest)
	if p.segment >= 0 && k.segments[p.segment].endPosition() == p.position {
		s := &k.segments[p.segment]
		s.ids, s.hashes = append(s.ids, rest...), append(s.hashes, hashes...)
		return h
	}
	k.segments = append(k.segments, segment{p.segment, p.position, slices.Clone(rest), hashes})
	return h
}

// Clear removes all paths.
func (k *Known) Clear() { k.segments, k.tokens, k.trunk = nil, 0, k.rootPosition() }

// Tokens returns the number of stored tokens.
func (k *Known) Tokens() int { return k.tokens }
