package batch

import (
	"container/list"
	"slices"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// prefixCache holds the tokens of all sessions in one KV store: for each domain a tree of cells, which have slots, and
// for each session a tree of nodes, which refer to the cells that it uses.
type prefixCache struct {
	free     *slotSet
	slots    int // of the store
	share    bool
	domains  map[uint64]*domain
	shared   int // cells of more than one session
	nodes    int // of all sessions
	trees    map[uint64]*sessionTree
	owners   map[uint64]*owner // by device
	clients  map[uint64]*client
	holders  *evictionRanking[*client]
	past     evictionLog
	streams  list.List // of *stream, those with the latest questions first
	guessed  int       // guesses that no question includes
	clock    uint64    // number of the step that is planned or runs
	serial   uint64    // counts domains
	sessions int       // trees that have slots
	evicted  uint64    // slots, since the start
}

// sessionTree holds the tokens of one session.
type sessionTree struct {
	session   uint64
	domain    *domain
	owner     *owner
	root      node
	open      int              // asks that are not answered yet
	slots     int              // in use: its nodes
	alone     int              // of these, those that no other session uses
	past      int              // evicted tokens that are remembered
	forgotten bool             // it is removed when its last ask is answered
	leaves    fair.Heap[*node] // those that no ask retains, least recently used first
	place     int
	waiting   *ask    // its background question
	last      *reply  // the last answer; nil: there was none, or it does not matter any more
	stream    *stream // nil unless the session is a stream
}

// node is a cell as one session uses it.
type node struct {
	*cell
	tree          *sessionTree
	parent        *node // nil for the root, and when the session has dropped it
	below         children[node]
	before, after *node  // others with this cell
	used          uint64 // step in which the session used it last
	place         int    // in leaves
	asks          int    // that retain it
	guess         bool   // no question of the session includes it yet
}

// choice is the result of the head for a node.
type choice struct {
	top []backend.Candidate // nil if the head did not run
	k   int                 // the number requested: a small vocabulary has fewer
	lse float32
}

func newPrefixCache(slots int, share bool) *prefixCache {
	f := &prefixCache{free: newSlotSet(slots), slots: slots, share: share, domains: map[uint64]*domain{},
		trees: map[uint64]*sessionTree{}, owners: map[uint64]*owner{}, clients: map[uint64]*client{},
		holders: newEvictionRanking[*client]()}
	f.past = newEvictionLog(pastPerSlot * slots)
	return f
}

// openAsk returns the tree of the session of q, for one more ask. A new tree belongs to the device. If the domain of a
// session has changed, its tree starts empty.
func (f *prefixCache) openAsk(q *terms.Job) *sessionTree {
	session := q.Session
	if t := f.trees[session]; t != nil && t.domain.id != q.Domain {
		f.forgetSession(session)
	}
	t := f.trees[session]
	if t == nil {
		t = &sessionTree{session: session, domain: f.acquireDomain(q.Domain), owner: f.ownerFor(q.Client, q.Device)}
		t.owner.open++
		t.leaves = fair.Heap[*node]{
			Before: func(a, b *node) bool { return a.used < b.used },
			Place:  func(n *node) *int { return &n.place },
		}
		t.root = node{tree: t, cell: &t.domain.root}
		f.trees[session] = t
	}
	t.open++
	return t
}

func (f *prefixCache) closeAsk(t *sessionTree) {
	t.open--
	f.pruneTree(t)
}

// forgetSession drops a session. Tokens that its open asks use stay until these are answered; later asks start empty.
func (f *prefixCache) forgetSession(session uint64) {
	if t := f.trees[session]; t != nil {
		t.forgotten = true
		delete(f.trees, session)
		f.pruneTree(t)
	}
}

// pruneTree drops the parts of a tree without open asks that are no longer needed.
func (f *prefixCache) pruneTree(t *sessionTree) {
	if t.open > 0 {
		return
	}
	for t.forgotten && t.leaves.Len() > 0 {
		f.removeLeaf(t.leaves.First())
	}
	if t.slots > 0 || t.past > 0 && !t.forgotten || t.owner == nil {
		return
	}
	if !t.forgotten {
		delete(f.trees, t.session)
	}
	f.releaseOwner(t.owner)
	f.releaseDomain(t.domain)
	t.owner = nil
}

func (n *node) isLeaf() bool { return n.below.anyChild() == nil }

// There must be a free slot. addToken takes the slot after that of n if it is free, so that paths lie in few spans.
func (f *prefixCache) addToken(n *node, token int32) *node {
	c := &cell{token: token, pos: n.pos + 1, slot: f.free.takeSlot(n.slot + 1)}
	c.hash = mixHash(n.hash ^ uint64(uint32(token)))
	n.cell.below.addChild(token, c)
	return f.useCell(n, c)
}

func (f *prefixCache) useCell(n *node, c *cell) *node {
	child := &node{tree: n.tree, parent: n, used: f.clock}
	n.below.addChild(c.token, child)
	f.attachNode(child, c)
	if n.tree.slots == 0 {
		f.sessions++
	}
	f.adjustSlotCounts(n.tree, 1)
	f.updateEvictable(n)
	f.rankOwner(n.tree.owner)
	return child
}

func (f *prefixCache) removeLeaf(n *node) {
	t, p := n.tree, n.parent
	p.below.removeChild(n.token)
	f.detachNode(n)
	if n.parent = nil; n.guess {
		n.guess = false
		f.guessed--
	}
	f.updateEvictable(n)
	f.adjustSlotCounts(t, -1)
	f.updateEvictable(p)
	f.rankOwner(t.owner)
	if t.slots == 0 {
		f.sessions--
		t.last = nil
		f.endStream(t)
		f.pruneTree(t)
	}
}

// None of the nodes may be retained.
func (f *prefixCache) removeSubtree(n *node) {
	for at := n; n.parent != nil; {
		if child := at.below.anyChild(); child != nil {
			at = child
			continue
		}
		up := at.parent
		f.removeLeaf(at)
		at = up
	}
}

// The owner has to be ranked then.
func (f *prefixCache) adjustSlotCounts(t *sessionTree, n int) {
	f.nodes += n
	t.slots += n
	t.owner.slots += n
	t.owner.client.slots += n
}

func (f *prefixCache) retainNode(n *node) {
	n.asks++
	f.updateEvictable(n)
	f.rankOwner(n.tree.owner)
}

func (f *prefixCache) releaseNode(n *node) {
	n.asks--
	f.updateEvictable(n)
	f.rankOwner(n.tree.owner)
}

// updateEvictable adds n to the leaves that can be evicted, or removes it from them. The owner has to be ranked then.
func (f *prefixCache) updateEvictable(n *node) {
	in := n.parent != nil && n.asks == 0 && n.isLeaf()
	if t := n.tree; in != (n.place > 0) {
		t.leaves.Set(n, in)
		t.owner.trees.Set(t, t.leaves.Len() > 0)
	}
}

// visibleSpans returns the slots that the row of n attends to: those of its ancestors and its own. If before is the
// parent of n, seen is the result for before.
func (n *node) visibleSpans(before *node, seen []backend.Span) []backend.Span {
	if n.parent == before && before != nil {
		see := append(make([]backend.Span, 0, len(seen)+1), seen...)
		return backend.AppendSlot(see, n.slot)
	}
	slots := make([]int32, 0, n.pos+1)
	for a := n; a.parent != nil; a = a.parent {
		slots = append(slots, a.slot)
	}
	var see []backend.Span
	for _, s := range slices.Backward(slots) {
		see = backend.AppendSlot(see, s)
	}
	return see
}

// mixHash scatters the bits of x (the last steps of MurmurHash3, Appleby 2011).
func mixHash(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>33) * 0xFF51AFD7ED558CCD
	x = (x ^ x>>33) * 0xC4CEB9FE1A85EC53
	return x ^ x>>33
}
