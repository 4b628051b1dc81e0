package batch

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

// Remembered counts the devices, sessions and domains that are kept in memory.
func Remembered(s *Service) int {
	f := s.trees
	return s.front.Owners() + s.back.Owners() + len(f.clients) + len(f.owners) + len(f.trees) + len(f.domains)
}

// CountComparisons counts, from now on, the comparisons of leaves, sessions and devices in eviction.
func CountComparisons(s *Service) *int {
	n := new(int)
	for i := range s.trees.holders.bySize {
		counted(&s.trees.holders.bySize[i], n)
	}
	for _, c := range s.trees.clients {
		for i := range c.devices.bySize {
			counted(&c.devices.bySize[i], n)
		}
		counted(&c.byAge, n)
	}
	for _, h := range s.trees.owners {
		counted(&h.trees, n)
	}
	for _, t := range s.trees.trees {
		counted(&t.leaves, n)
	}
	return n
}

func counted[T any](s *fair.Heap[T], n *int) {
	before := s.Before
	s.Before = func(a, b T) bool {
		*n++
		return before(a, b)
	}
}

// Streams counts the sessions with indexed texts, and the slots of guesses that no question has used.
func Streams(s *Service) (streams, guesses int) { return s.trees.streams.Len(), s.trees.guessed }

// Indexed returns the number of indexed tokens of a session.
func Indexed(s *Service, session uint64) int {
	if t := s.trees.trees[session]; t != nil && t.stream != nil {
		return t.stream.text.Len()
	}
	return 0
}

// Rate returns the estimated probability that a guess of a stream is accepted, after a match of a length.
func Rate(s *Service, session uint64, length int) float64 {
	return s.trees.trees[session].stream.text.Rate().Of(length)
}

// Waits returns, during a call of the model, how many of its rows are guesses, and how many devices other questions
// wait for.
func Waits(s *Service) (guesses, devices int) {
	for e := s.trees.streams.Front(); e != nil; e = e.Next() {
		for _, n := range e.Value.(*stream).guesses {
			if n.guess && n.used == s.trees.clock {
				guesses++
			}
		}
	}
	return guesses, s.front.Len()
}

// Tag returns the virtual time at which the next work of a client begins.
func Tag(s *Service, client uint64) uint64 { return s.front.Tag(client) }

// Check recomputes all counts and indices of a service between two steps, and returns the first inconsistency.
func Check(s *Service) error {
	c := checker{s: s, asks: slices.AppendSeq(slices.Collect(s.front.All), s.back.All),
		trees: map[*sessionTree][]*node{}, used: map[int32]bool{}, users: map[*cell]int{}}
	for _, t := range s.trees.trees {
		c.tree(t)
	}
	for _, a := range c.asks {
		c.tree(a.tree) // a dropped tree is referenced only by its asks
	}
	c.domains()
	c.slots()
	c.owners()
	c.past()
	c.streams()
	c.queue(s.front, false)
	c.queue(s.back, true)
	c.background()
	reserved, byClient := 0, map[*client]int{}
	for _, a := range c.asks {
		c.ask(a)
		reserved += a.reserved
		byClient[a.tree.owner.client] += a.reserved
	}
	c.equal("reserved", reserved, s.reserved)
	for one, n := range byClient {
		c.equal("reserved by a client", n, one.reserved)
	}
	inHeap(&c, "partly", &s.partly, c.asks, func(a *ask) bool { return a.at != nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	arrived := slices.DeleteFunc(slices.Clone(s.arrived), func(a *ask) bool { return a.forget })
	c.equal("waiting", len(c.asks)+len(arrived), s.waiting)
	return errors.Join(c.wrong...)
}

// CheckAtRest is Check for an idle service: no arrival or departure is pending.
func CheckAtRest(s *Service) error {
	s.mu.Lock()
	come, gone := len(s.arrived), len(s.left)
	s.mu.Unlock()
	if come+gone > 0 {
		return fmt.Errorf("%d arrivals and %d departures are pending", come, gone)
	}
	return Check(s)
}

// checker collects inconsistencies.
type checker struct {
	s     *Service
	asks  []*ask
	trees map[*sessionTree][]*node // all nodes by tree, without the root
	users map[*cell]int            // number of nodes
	used  map[int32]bool           // slots in use
	wrong []error
}

func (c *checker) say(so bool, format string, args ...any) {
	if !so {
		c.wrong = append(c.wrong, fmt.Errorf(format, args...))
	}
}

func (c *checker) equal(what string, want, got int) {
	c.say(want == got, "%s: %d instead of %d", what, got, want)
}

// inHeap checks that the elements of h are those of all for which in is true, and that its first element is the min.
func inHeap[T any](c *checker, what string, h *fair.Heap[T], all []T, in func(T) bool) {
	n := 0
	for _, x := range all {
		c.say(in(x) == (*h.Place(x) > 0), "%s: place %d of %+v", what, *h.Place(x), x)
		if *h.Place(x) > 0 {
			n++
			c.say(!h.Before(x, h.First()), "%s: %+v is before the first", what, x)
		}
	}
	c.equal(what, n, h.Len())
}

// tree checks one session.
func (c *checker) tree(t *sessionTree) {
	if _, ok := c.trees[t]; ok {
		return
	}
	c.trees[t] = nil
	nodes := c.below(&t.root)
	c.trees[t] = nodes
	held, open := map[*node]int{}, 0
	for _, a := range c.asks {
		if a.tree == t {
			open++
			held[a.at]++
		}
	}
	for _, n := range append(nodes, &t.root) {
		c.equal("held", held[n], n.asks)
		c.say(n.used <= c.s.trees.clock && n.step <= c.s.trees.clock, "a node of the future: %+v", n)
	}
	c.equal("open", open, t.open)
	c.equal("slots of a tree", len(nodes), t.slots)
	inHeap(c, "leaves", &t.leaves, nodes, func(n *node) bool { return n.asks == 0 && n.isLeaf() })
	c.say(t.forgotten != (c.s.trees.trees[t.session] == t), "session %d, forgotten: %v", t.session, t.forgotten)
	c.say(t.open > 0 || t.slots > 0 || t.past > 0, "session %d is empty", t.session)
	c.say(c.s.trees.owners[t.owner.device] == t.owner, "device %d is lost", t.owner.device)
}

// below returns all nodes under n.
func (c *checker) below(n *node) (all []*node) {
	for token, child := range n.below.all {
		c.say(child.parent == n && child.tree == n.tree && child.token == token,
			"not a child of its parent: %+v", child)
		c.say(n.cell.below.lookupChild(token) == child.cell,
			"the cell of %+v is not a child of its parent's cell", child)
		c.users[child.cell]++
		all = append(append(all, child), c.below(child)...)
	}
	return all
}

// all calls f with every child.
func (c *children[T]) all(f func(token int32, x *T) bool) {
	if c.only != nil && !f(c.token, c.only) {
		return
	}
	for token, x := range c.more {
		if !f(token, x) {
			return
		}
	}
}

// domains checks the cells of all domains: they contain exactly the existing nodes, and the counts are right.
func (c *checker) domains() {
	f, trees, alone, shared, nodes := c.s.trees, map[*domain]int{}, map[*sessionTree]int{}, 0, 0
	for t := range c.trees {
		trees[t.domain]++
		c.say(t.root.cell == &t.domain.root, "session %d has the root of another domain", t.session)
	}
	for d, n := range trees {
		c.equal("sessions of a domain", n, d.trees)
		c.say(!f.share || f.domains[d.id] == d, "domain %d is lost", d.id)
		c.cells(&d.root)
	}
	for _, d := range f.domains {
		c.say(trees[d] > 0, "domain %d has no sessions", d.id)
	}
	for cell, users := range c.users {
		c.say(c.used[cell.slot], "%+v is in no domain", cell)
		if nodes += users; users > 1 {
			shared++
			c.say(f.share, "shared, although nothing is: %+v", cell)
		} else if cell.first != nil {
			alone[cell.first.tree]++
		}
	}
	for t := range c.trees {
		c.equal("cells of one session alone", alone[t], t.alone)
	}
	c.equal("cells in common", shared, f.shared)
	c.equal("nodes", nodes, f.nodes)
}

// cells checks all cells below above.
func (c *checker) cells(above *cell) {
	for token, child := range above.below.all {
		c.say(above.below.lookupChild(token) == child && child.token == token,
			"token %d is there twice: %+v", token, child)
		c.say(child.pos == above.pos+1, "not at the next position: %+v", child)
		c.say(child.hash == mixHash(above.hash^uint64(uint32(token))), "hash of %+v", child)
		c.say(!c.used[child.slot], "slot %d is used twice", child.slot)
		c.used[child.slot] = true
		c.ring(child)
		c.cells(child)
	}
}

// ring checks that the users of a cell are its nodes.
func (c *checker) ring(of *cell) {
	n := of.first
	if n == nil {
		c.say(false, "no user of %+v", of)
		return
	}
	for range c.users[of] { // a session has at most one node in a cell, below its parent
		c.say(n.cell == of && n.parent != nil && n.parent.below.lookupChild(of.token) == n && n.after.before == n,
			"users of %+v", of)
		n = n.after
	}
	c.say(n == of.first, "there are others of %+v", of)
}

// slots checks that each slot is free or belongs to one node.
func (c *checker) slots() {
	f, sessions := c.s.trees, 0
	for slot := range f.slots {
		free := f.free.levels[0][slot/64]>>(slot%64)&1 == 1
		c.say(free != c.used[int32(slot)], "slot %d is free: %v", slot, free)
	}
	c.equal("free slots", f.slots-len(c.used), f.free.n)
	for t := range c.trees {
		if t.slots > 0 {
			sessions++
		}
	}
	c.equal("sessions", sessions, f.sessions)
}

// owners checks the devices and clients that hold slots.
func (c *checker) owners() {
	all, clients := map[*client][]*owner{}, []*client{}
	for _, h := range c.s.trees.owners {
		all[h.client] = append(all[h.client], h)
		trees, slots := []*sessionTree{}, 0
		for t := range c.trees {
			if t.owner == h {
				trees, slots = append(trees, t), slots+t.slots
			}
		}
		c.equal("trees of a device", len(trees), h.open)
		c.equal("slots of a device", slots, h.slots)
		c.say(h.open > 0, "device %d holds nothing", h.device)
		inHeap(c, "trees", &h.trees, trees, func(t *sessionTree) bool { return t.leaves.Len() > 0 })
	}
	for _, one := range c.s.trees.clients {
		clients = append(clients, one)
		slots := 0
		for _, h := range all[one] {
			slots += h.slots
		}
		c.equal("devices of a client", len(all[one]), one.open)
		c.equal("slots of a client", slots, one.slots)
		c.say(one.open > 0, "client %d holds nothing", one.number)
		ranked(c, "devices", one.devices, all[one])
		inHeap(c, "devices by age", &one.byAge, all[one], func(h *owner) bool { return h.oldestLeaf() != nil })
	}
	c.equal("clients with devices", len(all), len(clients))
	ranked(c, "clients", c.s.trees.holders, clients)
}

// ranked checks the order of holders.
func ranked[H slotHolder](c *checker, what string, in *evictionRanking[H], all []H) {
	evictable := func(h H) bool { return h.oldestLeaf() != nil }
	for _, h := range all {
		leaf, has := h.oldestLeaf(), h.currentUsage()
		c.say((leaf != nil) == has.in && (leaf == nil || leaf.used == has.used), "%s: %+v of %+v", what, has, leaf)
	}
	for class := range in.bySize {
		same := slices.DeleteFunc(slices.Clone(all), func(h H) bool {
			return bits.Len(uint(h.currentUsage().slots)) != class
		})
		inHeap(c, what+" by size", &in.bySize[class], same, evictable)
	}
}

// past checks what is remembered of evicted tokens.
func (c *checker) past() {
	p, count := &c.s.trees.past, map[*sessionTree]int{}
	for _, m := range p.ring {
		count[m.tree]++
	}
	for t, n := range count {
		c.equal("evicted tokens of a session", n, t.past)
	}
	for hash, i := range p.at {
		c.say(p.ring[i].hash == hash, "an evicted token is at %d", i)
	}
	c.say(len(p.ring) <= pastPerSlot*c.s.trees.slots, "%d evicted tokens", len(p.ring))
}

// streams checks which sessions are streams, and the guesses: no text continues a guess, no question holds one, and
// each is on the list from which it is freed.
func (c *checker) streams() {
	f, all, streams := c.s.trees, 0, 0
	for t, nodes := range c.trees {
		listed := map[*node]bool{}
		if x := t.stream; x != nil {
			streams++
			c.say(x.tree == t && x.element.Value == any(x), "the stream of session %d is another's", t.session)
			c.say(t.slots > 0, "session %d is a stream of nothing", t.session)
			c.say(len(x.guesses) < lookup.MostRows, "%d guesses", len(x.guesses))
			for _, n := range x.guesses {
				listed[n] = true
			}
		}
		for _, n := range nodes {
			if n.guess {
				all++
				c.say(listed[n] && n.asks == 0, "a guess is lost, or held: %+v", n)
			} else {
				c.say(!n.parent.guess, "text hangs on a guess: %+v", n)
			}
		}
		c.say(t.slots > 0 || t.last == nil, "the last question of session %d, which is evicted, matters", t.session)
	}
	c.equal("guesses", all, f.guessed)
	c.equal("streams", streams, f.streams.Len())
	c.say(streams <= maxStreams, "%d streams", streams)
}

// queue checks the waiting asks.
func (c *checker) queue(q *fair.Queue[*ask], background bool) {
	for a := range q.All {
		c.say(a.Work() > 0 && a.Waits() && a.isBackground() == background, "queue of %+v", a)
	}
}

// background checks the order of background questions. Each session has at most one.
func (c *checker) background() {
	patience := uint64(0)
	for e := c.s.background.order.Front(); e != nil; e = e.Next() {
		a := e.Value.(*ask)
		c.say(a.order == e && a.isBackground() && a.tree != nil && (a.tree.waiting == a) == (a.Priority != terms.Ahead),
			"order of %+v", a)
		c.say(patience <= a.patience, "%+v is too late", a)
		patience = a.patience
	}
	c.equal("background questions", len(slices.Collect(c.s.back.All)), c.s.background.order.Len())
	for t := range c.trees {
		c.say(t.waiting == nil || t.waiting.tree == t, "session %d waits for %+v", t.session, t.waiting)
	}
}

// ask checks a waiting question.
func (c *checker) ask(a *ask) {
	c.say(!a.running && a.step < c.s.trees.clock, "it runs: %+v", a)
	c.say(a.at == nil || a.begun > 0, "tokens are held for a question that has not begun: %+v", a)
	at := a.at
	for i := a.done - 1; i >= 0 && at != nil; i-- {
		c.say(at.tree == a.tree && at.token == a.Context[i] && int(at.pos) == i, "held at %d: %+v", i, at)
		at = at.parent
	}
	c.say(at == nil || at == &a.tree.root, "held too late: %+v", a)
	most := c.s.trees.slots / 2 * 3 / 2
	fits := a.reserved == 0 || a.reserved == len(a.Context) && (c.s.reserved <= most || c.s.reserved == a.reserved)
	c.say(fits, "%d of %d tokens are reserved, %d of all", a.reserved, len(a.Context), c.s.reserved)
}

// Nodes returns the number of nodes of all sessions, and its max.
func Nodes(s *Service) (nodes, limit int) { return s.trees.nodes, s.trees.maxNodes() }

// Lent returns the number of rows of logits that callers use.
func Lent(s *Service) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lent
}

// Lend adds n to the number of rows of logits that callers use.
func Lend(s *Service, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lent += n
	s.looked.Signal()
}

// LeaveReady lets a caller leave that was about to receive a row of logits.
func LeaveReady(s *Service) {
	a := &ask{out: &backend.Output{Logits: make([]float32, 1)}}
	s.lendLogits(a)
	s.abandonAsk(a, errLeft)
}

// Hand returns how many rows of logits a caller uses that receives some for positions that it verifies, and some for
// the token that follows.
func Hand(s *Service, verified, follows int) int {
	a := &ask{out: &backend.Output{Logits: make([]float32, follows)}}
	for range verified {
		a.found = append(a.found, backend.Output{Logits: make([]float32, 9)})
	}
	a.found = append(a.found, backend.Output{})
	s.lendLogits(a)
	defer s.returnLogits(a)
	return Lent(s)
}
