package batch

// cell is a token in the KV store, with the tokens before it. All sessions of a domain that have this text use the
// cell. It exists as long as one of them uses it.
type cell struct {
	below children[cell]
	first *node  // one of the nodes that use it, which form a ring; nil for a root
	hash  uint64 // of the domain and the tokens up to here
	step  uint64 // step with a row for it
	row   int    // of that step
	token int32
	pos   int32 // -1 for a root
	slot  int32
	choice
}

// domain is what sessions share: a tree of the cells of all of them. Its root stands before the first token.
type domain struct {
	id    uint64
	root  cell
	trees int
}

// acquireDomain returns the domain of a new session: a separate one if sessions share nothing.
func (f *prefixCache) acquireDomain(id uint64) *domain {
	d := f.domains[id]
	if d == nil {
		f.serial++
		d = &domain{id: id, root: cell{pos: -1, slot: -1, hash: mixHash(f.serial)}}
		if f.share {
			f.domains[id] = d
		}
	}
	d.trees++
	return d
}

func (f *prefixCache) releaseDomain(d *domain) {
	if d.trees--; d.trees == 0 {
		delete(f.domains, d.id)
	}
}

func (f *prefixCache) attachNode(n *node, c *cell) {
	n.cell = c
	if c.first == nil {
		c.first, n.before, n.after = n, n, n
		n.tree.alone++
		return
	}
	if c.first.isUnshared() {
		c.first.tree.alone--
		f.shared++
	}
	n.before, n.after = c.first.before, c.first
	n.before.after, n.after.before = n, n
}

// The cell is freed with its last node.
func (f *prefixCache) detachNode(n *node) {
	c := n.cell
	if n.isUnshared() {
		c.first = nil
		n.tree.alone--
		n.parent.cell.below.removeChild(c.token)
		f.free.addSlot(c.slot)
		return
	}
	c.first = n.after
	n.before.after, n.after.before = n.after, n.before
	if c.first.isUnshared() {
		c.first.tree.alone++
		f.shared--
	}
}

func (n *node) isUnshared() bool { return n.after == n }

// children are the nodes or cells that follow a token, by their own tokens.
type children[T any] struct {
	only  *T // one of them
	token int32
	more  map[int32]*T // further ones
}

// lookupChild returns the child with a token, or nil.
func (c *children[T]) lookupChild(token int32) *T {
	if c.only != nil && c.token == token {
		return c.only
	}
	return c.more[token]
}

func (c *children[T]) addChild(token int32, x *T) {
	switch {
	case c.only == nil:
		c.only, c.token = x, token
	case c.more == nil:
		c.more = map[int32]*T{token: x}
	default:
		c.more[token] = x
	}
}

func (c *children[T]) removeChild(token int32) {
	if c.only != nil && c.token == token {
		c.only = nil
		return
	}
	delete(c.more, token)
}

// anyChild returns one of the children, or nil if there is none.
func (c *children[T]) anyChild() *T {
	if c.only != nil {
		return c.only
	}
	for _, x := range c.more {
		return x
	}
	return nil
}
