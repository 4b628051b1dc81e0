package batch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// errFull says that the contexts of one batch do not fit into the KV store together.
var errFull = errors.New("the KV store is full")

// forest keeps the tokens of all sessions in one KV store: a tree for each, whose nodes are tokens with a slot.
type forest struct {
	kv    backend.KV
	used  []bool
	free  int
	trees map[uint64]*tree
	clock uint64 // counts batches
}

// tree is what is kept of one session.
type tree struct {
	root  node
	stamp uint64 // batch that used it last
}

// node is a token at a position of a session. The root stands before the first.
type node struct {
	token    int32
	pos      int32 // -1 for the root
	slot     int32
	parent   *node
	children []*node
	stamp    uint64              // batch that used it last
	top      []backend.Candidate // what the head gave for it; nil if it was not asked
	lse      float32
}

func newForest(kv backend.KV) *forest {
	n := kv.Config().Slots
	return &forest{kv: kv, used: make([]bool, n), free: n, trees: map[uint64]*tree{}}
}

// grow returns the nodes of a context, making those that are missing, and how many were there. Everything that the current
// batch has touched stays; what was used least recently makes room. errFull if that is not enough: then nothing is new.
func (f *forest) grow(session uint64, context []int32) (path []*node, reused int, err error) {
	t := f.trees[session]
	if t == nil {
		t = &tree{root: node{pos: -1, slot: -1}}
		f.trees[session] = t
	}
	t.stamp = f.clock
	at := &t.root
	for _, id := range context {
		i := slices.IndexFunc(at.children, func(n *node) bool { return n.token == id })
		if i < 0 {
			break
		}
		at = at.children[i]
		at.stamp = f.clock
		path = append(path, at)
	}
	reused = len(path)
	if !f.makeRoom(len(context) - reused) {
		return nil, 0, fmt.Errorf("%d more tokens, %d of %d slots free: %w", len(context)-reused, f.free, len(f.used), errFull)
	}
	hint := at.slot + 1
	for _, id := range context[reused:] {
		n := &node{token: id, pos: at.pos + 1, slot: f.take(hint), parent: at, stamp: f.clock}
		at.children = append(at.children, n)
		at, hint = n, n.slot+1
		path = append(path, n)
	}
	return path, reused, nil
}

// take takes a free slot, hint if it is free, so that paths lie in few spans. There must be one.
func (f *forest) take(hint int32) int32 {
	for i := range f.used {
		if s := (int(hint) + i) % len(f.used); !f.used[s] {
			f.used[s] = true
			f.free--
			return int32(s)
		}
	}
	panic("batch: no free slot after room was made")
}

// makeRoom frees n slots, sessions before branches, least recently used first, and reports whether it could.
func (f *forest) makeRoom(n int) bool {
	for f.free < n {
		var oldest uint64
		var stale *tree
		for session, t := range f.trees {
			if t.stamp < f.clock && (stale == nil || t.stamp < stale.stamp) {
				oldest, stale = session, t
			}
		}
		if stale == nil {
			break
		}
		f.forget(oldest)
	}
	for f.free < n {
		leaf := f.stalestLeaf()
		if leaf == nil {
			return false
		}
		f.remove(leaf)
	}
	return true
}

// stalestLeaf returns the leaf that was used least recently, nil if the current batch uses all.
func (f *forest) stalestLeaf() (stalest *node) {
	for _, t := range f.trees {
		t.root.each(func(n *node) {
			if len(n.children) == 0 && n.parent != nil && n.stamp < f.clock && (stalest == nil || n.stamp < stalest.stamp) {
				stalest = n
			}
		})
	}
	return stalest
}

// each calls f for n and all below it, children first.
func (n *node) each(f func(*node)) {
	for _, c := range slices.Clone(n.children) {
		c.each(f)
	}
	f(n)
}

// remove drops n and all below it.
func (f *forest) remove(n *node) {
	n.each(func(d *node) {
		f.used[d.slot] = false
		f.free++
	})
	n.parent.children = slices.DeleteFunc(n.parent.children, func(c *node) bool { return c == n })
}

// forget drops a session.
func (f *forest) forget(session uint64) {
	if t := f.trees[session]; t != nil {
		for _, c := range slices.Clone(t.root.children) {
			f.remove(c)
		}
		delete(f.trees, session)
	}
}

// row is the row that computes n, which sees its ancestors and itself.
func (n *node) row() backend.Row {
	var slots []int32
	for a := n; a.parent != nil; a = a.parent {
		slots = append(slots, a.slot)
	}
	slices.Reverse(slots)
	var see []backend.Span
	for _, s := range slots {
		if k := len(see); k > 0 && see[k-1].To == s {
			see[k-1].To++
		} else {
			see = append(see, backend.Span{From: s, To: s + 1})
		}
	}
	return backend.Row{Token: n.token, Pos: n.pos, Slot: n.slot, See: see}
}
