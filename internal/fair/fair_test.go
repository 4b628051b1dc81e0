package fair

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type job struct {
	Entry[*job]
	owner, work uint64
}

// clientOf is the client of an owner in the tests.
func clientOf(owner uint64) uint64 { return owner % 3 }

// plain is a simple model of a queue: all jobs are in one list, and every rule searches it.
type plain struct {
	rules  Rules
	clock  virtualClock
	clocks map[uint64]*virtualClock // of each client's owners
	client map[uint64]uint64        // tags of clients; never dropped
	start  map[uint64]uint64        // by owner; never dropped
	jobs   []*job                   // in order of arrival
	aside  map[uint64]bool
	known  map[uint64]bool   // clients that are not forgotten
	late   map[uint64]uint64 // by owner
	lates  map[uint64]uint64 // by client
}

func newPlain(r Rules) *plain {
	p := &plain{rules: r, client: map[uint64]uint64{}, start: map[uint64]uint64{}, aside: map[uint64]bool{},
		clocks: map[uint64]*virtualClock{}, known: map[uint64]bool{}, late: map[uint64]uint64{},
		lates: map[uint64]uint64{}}
	for c := range uint64(3) {
		p.clocks[c] = new(virtualClock)
	}
	return p
}

func (p *plain) of(owner uint64) (all []*job) {
	for _, j := range p.jobs {
		if j.owner == owner {
			all = append(all, j)
		}
	}
	return all
}

func (p *plain) waits(client uint64) bool {
	return slices.ContainsFunc(p.jobs, func(j *job) bool { return clientOf(j.owner) == client })
}

func (p *plain) end(owner uint64) uint64 {
	return p.of(owner)[0].work * p.rules.Price
}

func (p *plain) short(owner uint64) bool {
	sum := uint64(0)
	for _, j := range p.of(owner) {
		sum += j.work
	}
	return sum <= p.rules.Whole && p.of(owner)[0].work <= p.rules.Short
}

// nextOf returns the next job of a client, of the owners for which so is true, or nil: of short ones the one that would
// begin first, of the others the one that would end first, and of both the one that would end first.
func (p *plain) nextOf(client uint64, so func(owner uint64) bool) (next *job) {
	ends := func(j *job) uint64 { return p.start[j.owner] + p.late[j.owner] + p.end(j.owner) }
	begins := func(j *job) uint64 { return p.start[j.owner] }
	first := func(short bool, by func(*job) uint64) (next *job) {
		for _, j := range p.jobs {
			if o := j.owner; clientOf(o) == client && !p.aside[o] && so(o) && p.short(o) == short &&
				(next == nil || by(j) < by(next)) {
				next = j
			}
		}
		return next
	}
	short, long := first(true, begins), first(false, ends)
	if short == nil || long != nil && (ends(long) < ends(short) ||
		ends(long) == ends(short) && p.rules.Price > 0 && p.place(long) < p.place(short)) {
		return long
	}
	return short
}

// place returns where the first job of the owner of a job is in the order of arrival.
func (p *plain) place(j *job) int { return slices.Index(p.jobs, p.of(j.owner)[0]) }

// next returns the next job of the clients that may be next, or nil.
func (p *plain) next(
	so func(owner uint64) bool, may func(first *job) bool, end func(owner uint64) uint64,
) (next *job) {
	order := func(j *job) uint64 {
		c, e := clientOf(j.owner), end(j.owner)
		if e > 0 {
			e = e*MaxWeight + p.lates[c]
		}
		return p.client[c] + e
	}
	for c := range p.clocks {
		j := p.nextOf(c, so)
		if j != nil && may(j) && (next == nil || order(j) < order(next) ||
			order(j) == order(next) && p.rules.Price > 0 && p.place(j) < p.place(next)) {
			next = j
		}
	}
	return next
}

// flow lets a client and an owner without jobs begin at the present time.
func (p *plain) flow(owner uint64) {
	c := clientOf(owner)
	if !p.known[c] {
		p.known[c], *p.clocks[c] = true, virtualClock{}
	}
	if !slices.ContainsFunc(p.jobs, func(j *job) bool { return !p.aside[j.owner] }) {
		p.clock.slow = p.clock.now
	}
	if !p.waits(c) {
		p.client[c], p.lates[c] = p.clock.startTag(p.client[c])
	}
	if len(p.of(owner)) == 0 {
		p.start[owner], p.late[owner] = p.clocks[c].startTag(p.start[owner])
	}
}

// forget forgets the clients without jobs that are not ahead, with their owners.
func (p *plain) forget() {
	for c := range p.clocks {
		if p.waits(c) || p.client[c] > p.clock.now {
			continue
		}
		p.known[c] = false
		maps.DeleteFunc(p.start, func(owner, _ uint64) bool { return clientOf(owner) == c })
	}
}

func (p *plain) charge(owner, work uint64) {
	p.flow(owner)
	c := clientOf(owner)
	p.client[c] += work * MaxWeight
	p.start[owner] += work
	p.clock.spent += work * MaxWeight
	p.clocks[c].spent += work
}

func (p *plain) advance() {
	all, waiting := func(uint64) bool { return true }, map[uint64]bool{}
	for number, c := range p.clocks {
		next, owners := c.now, map[uint64]bool{}
		for _, j := range p.jobs {
			if clientOf(j.owner) == number && !p.aside[j.owner] {
				owners[j.owner], waiting[number] = true, true
			}
		}
		if j := p.nextOf(number, all); j != nil {
			next = p.start[j.owner]
		}
		if c.spent > 0 {
			c.advanceTo(next, p.rules.sharerCount(len(owners)))
		}
	}
	next := p.clock.now
	if j := p.next(all, func(*job) bool { return true }, p.end); j != nil {
		next = p.client[clientOf(j.owner)]
	}
	p.clock.advanceTo(next, p.rules.sharerCount(len(waiting)))
}

// TestAgainstList: for any sequence of operations, a queue agrees with a list that is searched. Every waiting owner is
// next in some order, and an owner that is not ahead is dropped.
func TestAgainstList(t *testing.T) {
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 1))
		rules := Rules{Price: []uint64{0, 1, 4}[seed%3]}
		if seed%2 == 0 {
			rules.Short, rules.Whole = 1+r.Uint64N(20), r.Uint64N(60)
			rules.Lead, rules.ClientLead = r.Uint64N(100), r.Uint64N(50)
		}
		q := New[*job](rules)
		p := newPlain(rules)
		gone := &job{}
		q.Add(0, 1, 1, gone, &gone.Entry, 1)
		q.Remove(&gone.Entry)
		require.Zero(t, q.Owners(), "cancelled jobs leave nothing")
		for range 700 {
			act(r, q, p)
			p.forget()
			compare(t, seed, q, p)
		}
		for _, j := range p.jobs {
			q.Remove(&j.Entry)
		}
		q.Restore()
		for q.idle.Len() > 0 { // only clients and owners that are ahead are left
			q.clock.now = q.idle.First().start
			q.Advance()
		}
		require.Zero(t, q.Owners())
		require.Empty(t, q.clients)
	}
}

// act applies one random operation to both.
func act(r *rand.Rand, q *Queue[*job], p *plain) {
	if r.IntN(3) == 0 || len(p.jobs) == 0 {
		j := &job{owner: r.Uint64N(7), work: 1 + r.Uint64N(30)}
		p.flow(j.owner)
		p.jobs = append(p.jobs, j)
		delete(p.aside, j.owner)
		q.Add(clientOf(j.owner), j.owner, 1, j, &j.Entry, j.work)
		return
	}
	i := r.IntN(len(p.jobs))
	j := p.jobs[i]
	switch r.IntN(7) {
	case 0:
		delete(p.aside, j.owner)
		p.jobs = slices.Delete(p.jobs, i, i+1)
		q.Remove(&j.Entry)
	case 1:
		delete(p.aside, j.owner)
		j.work = 1 + r.Uint64N(30)
		q.Estimate(&j.Entry, j.work)
	case 2:
		owner := r.Uint64N(7)
		delete(p.aside, owner)
		p.charge(owner, 5)
		q.Charge(clientOf(owner), owner, 5, 1)
	case 3:
		q.Aside(q.Of(j.owner))
		p.aside[j.owner] = true
	case 4:
		q.Restore()
		clear(p.aside)
	default:
		q.Restore()
		clear(p.aside)
		if r.IntN(2) == 0 {
			p.advance()
			q.Advance()
		}
		j = q.Next().First()
		p.charge(j.owner, j.work)
		p.jobs = slices.DeleteFunc(p.jobs, func(x *job) bool { return x == j })
		take(q, j)
	}
}

// take charges the owner of a job with all of its work, and removes it.
func take(q *Queue[*job], j *job) {
	q.Charge(j.flow.client.number, j.flow.owner, j.Work(), 0)
	q.Remove(&j.Entry)
}

func compare(t *testing.T, seed uint64, q *Queue[*job], p *plain) {
	t.Helper()
	owners := 0
	for owner := range uint64(7) {
		own := p.of(owner)
		if f := q.Of(owner); len(own) > 0 {
			require.Equal(t, own, slices.Collect(f.All), "seed %d: order of arrival", seed)
			require.True(t, f.First() == own[0] && f.Last() == own[len(own)-1] && own[0].Work() == own[0].work)
			if !p.aside[owner] {
				owners++
			}
		} else {
			require.True(t, f == nil || f.Len() == 0 && f.in == &f.client.idle, "seed %d", seed)
		}
		if f := q.Of(owner); f != nil {
			require.Equal(t, p.start[owner], f.start, "seed %d, owner %d", seed, owner)
		} else if p.known[clientOf(owner)] {
			require.LessOrEqual(t, p.start[owner], p.clocks[clientOf(owner)].now, "nothing is forgotten too early")
		}
	}
	for number := range p.clocks {
		c := q.clients[number]
		require.Equal(t, p.known[number], c != nil, "seed %d, client %d", seed, number)
		if c != nil {
			require.Equal(t, []uint64{p.client[number], p.clocks[number].now}, []uint64{c.start, c.clock.now})
		}
	}
	require.Equal(t, owners, q.Len())
	require.ElementsMatch(t, p.jobs, slices.Collect(q.All))
	any := func(*job) bool { return true }
	lent := func(j *job) bool {
		c := clientOf(j.owner)
		return p.start[j.owner] <= p.clocks[c].now+p.rules.Lead &&
			p.client[c] <= p.clock.now+p.rules.ClientLead*MaxWeight
	}
	for name, c := range map[string]struct {
		have *Flow[*job]
		so   func(uint64) bool
		may  func(*job) bool
		end  func(uint64) uint64
	}{
		"all":   {q.Next(), func(uint64) bool { return true }, any, p.end},
		"short": {q.NextShort(), p.short, lent, func(uint64) uint64 { return 0 }},
		"long":  {q.NextLong(), func(owner uint64) bool { return !p.short(owner) }, any, p.end},
	} {
		j := p.next(c.so, c.may, c.end)
		require.Equal(t, j != nil, c.have != nil, "seed %d, %s", seed, name)
		if j == nil || c.have.First() == j {
			continue
		}
		owner := c.have.owner // of equal ones any may be next
		require.True(t, p.rules.Price == 0 && c.so(owner) && p.client[clientOf(owner)] == p.client[clientOf(j.owner)] &&
			p.start[owner] == p.start[p.nextOf(clientOf(owner), c.so).owner], "seed %d, %s", seed, name)
	}
}

// TestEverNewOwners: a large job ends although small ones of new owners come all the time, of its own client or of new
// ones.
func TestEverNewOwners(t *testing.T) {
	for name, client := range map[string]func(owner uint64) uint64{
		"clients": func(owner uint64) uint64 { return owner }, "one client": func(uint64) uint64 { return 1 },
	} {
		for _, price := range []uint64{1, 4} {
			q := New[*job](Rules{Price: price})
			large := &job{owner: 1}
			q.Add(client(1), 1, 1, large, &large.Entry, 100)
			done := 0
			for owner := uint64(2); large.Waits(); done++ {
				for q.Len() < 4 {
					j := &job{owner: owner}
					q.Add(client(owner), owner, 1, j, &j.Entry, 5)
					owner++
				}
				q.Advance()
				f := q.Next()
				j := f.First()
				q.Charge(f.client.number, f.owner, 5*price, 1) // a small job at a time, or a part of the large one
				if j.Work() == 5 {
					q.Remove(&j.Entry)
				} else {
					q.Estimate(&j.Entry, j.Work()-5)
				}
				require.Less(t, done, (4*overtakes+1)*100/5, "%s, price %d", name, price)
			}
		}
	}
}

// TestAhead: at least as much work as predicted is done before a job ends, and exactly as much if each client has one.
func TestAhead(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		q := New[*job](Rules{Price: 1 + seed%5})
		owners := 1 + r.IntN(20)
		single := seed%2 == 0
		weight := func(client uint64) uint64 { return 1 + client%3*(seed%3) }
		var all []*job
		for i := range owners * (1 + r.IntN(4)) {
			j := &job{owner: r.Uint64N(uint64(owners))}
			if single {
				j.owner = uint64(i)
			}
			client := j.owner
			if !single {
				client = j.owner / 3
			}
			all = append(all, j)
			q.Add(client, j.owner, weight(client), j, &j.Entry, 1+r.Uint64N(30))
		}
		serve := func() (ended *job) {
			q.Advance()
			f := q.Next()
			j := f.First()
			q.Charge(f.client.number, f.owner, q.rules.Price, weight(f.client.number))
			if j.Work() > 1 {
				q.Estimate(&j.Entry, j.Work()-1)
				return nil
			}
			q.Remove(&j.Entry)
			return j
		}
		for range r.IntN(40) {
			if q.Len() > 0 {
				serve()
			}
		}
		all = slices.DeleteFunc(all, func(j *job) bool { return !j.Waits() })
		if len(all) == 0 {
			continue
		}
		mine := all[r.IntN(len(all))]
		predicted, done := q.Ahead(&mine.Entry)+mine.Work(), uint64(1)
		for serve() != mine {
			done++
		}
		if single && weight(1) == weight(2) {
			require.Equal(t, done, predicted, "seed %d", seed)
		}
		require.LessOrEqual(t, predicted, done, "seed %d", seed)
	}
}

// TestEqualShares: owners that always wait have received equal work at any moment, within one job of each of two
// owners, for any sizes of jobs, also after a new owner joins.
func TestEqualShares(t *testing.T) {
	for _, rules := range []Rules{{}, {Price: 1}} {
		sizes := []uint64{50, 1, 7, 1000, 7}
		q, had, wait := New[*job](rules), make([]uint64, len(sizes)), 0
		add := func(owner uint64) {
			j := &job{owner: owner}
			q.Add(owner, owner, 1, j, &j.Entry, sizes[owner])
		}
		for served := range 4000 {
			if served%1000 == 0 {
				wait = min(3+served/1000, len(sizes)) // another owner joins late
				for owner := range wait {
					add(uint64(owner))
					had[owner] = 0
				}
			}
			q.Advance()
			j := q.Next().First()
			take(q, j)
			add(j.owner)
			had[j.owner] += sizes[j.owner]
			for a := range wait {
				for b := range wait {
					apart := max(had[a], had[b]) - min(had[a], had[b])
					require.LessOrEqual(t, apart, sizes[a]+sizes[b], "%+v: %d and %d", rules, a, b)
				}
			}
		}
	}
}

// TestForget: after Forget no owner has a claim or a debt, and the rules are the same.
func TestForget(t *testing.T) {
	rules := Rules{Price: 1, Short: 5, Whole: 5, Lead: 3, ClientLead: 3}
	q := New[*job](rules)
	add := func(owner, work uint64) *job {
		j := &job{owner: owner, work: work}
		q.Add(owner, owner, 1, j, &j.Entry, work)
		return j
	}
	take(q, add(1, 4))
	q.Advance()
	q.Charge(2, 2, 100, 1)
	require.EqualValues(t, 100, q.Tag(2))
	q.Forget()
	require.Zero(t, q.Owners())
	for owner := range uint64(4) {
		require.Zero(t, q.Tag(owner))
	}
	large := add(1, 50)
	add(2, 5)
	require.EqualValues(t, 2, q.Next().First().owner, "by its end")
	require.EqualValues(t, 2, q.NextShort().First().owner)
	require.Equal(t, large, q.NextLong().First())
	q.Charge(2, 2, 4, 1)
	require.Nil(t, q.NextShort(), "too far ahead")
}

// TestDebtsAreBounded: of the clients without jobs, those that are furthest ahead are remembered, 1024 at most, and of
// their owners as well.
func TestDebtsAreBounded(t *testing.T) {
	const n = 3000
	debt := func(i uint64) uint64 { return 1 + i*7%n } // all different
	clients, owners := New[*job](Rules{}), New[*job](Rules{})
	for i := range uint64(n) {
		clients.Charge(i, i, debt(i), 1)
		owners.Charge(0, i, debt(i), 1)
	}
	clients.Advance()
	owners.Advance()
	require.LessOrEqual(t, clients.Owners(), 1024)
	require.Len(t, clients.clients, 1024)
	require.Equal(t, 1024, owners.Owners())
	for i := range uint64(n) {
		require.Equal(t, debt(i) > n-1024, clients.clients[i] != nil)
		require.Equal(t, debt(i) > n-1024, owners.Of(i) != nil)
	}
}

// TestClientsShare: a client with one owner receives as much as one with a thousand, and the thousand owners receive
// equal work, with any rules. A new owner of the large client does not go before the small client.
func TestClientsShare(t *testing.T) {
	for _, rules := range []Rules{{}, {Price: 1}, {Short: 9, Whole: 9, Lead: 1 << 40, ClientLead: 1 << 40}} {
		const owners = 1000
		q, had := New[*job](rules), map[uint64]uint64{}
		add := func(owner uint64) {
			j := &job{owner: owner}
			q.Add(min(owner, 1), owner, 1, j, &j.Entry, 3)
		}
		for owner := range uint64(owners + 1) {
			add(owner)
		}
		for range 10 * owners {
			q.Advance()
			j := q.Next().First()
			take(q, j)
			add(j.owner)
			had[j.owner]++
		}
		require.InDelta(t, 5*owners, had[0], 2, "%+v", rules)
		for owner := range uint64(owners) {
			require.InDelta(t, 5, had[owner+1], 2, "%+v", rules)
		}
		for owner := range uint64(owners) { // a flood of owners that are new
			add(owners + 1 + owner)
		}
		for range 10 {
			q.Advance()
			j := q.Next().First()
			take(q, j)
			had[j.owner]++
			if j.owner == 0 {
				add(0)
			}
		}
		require.InDelta(t, 5*owners+5, had[0], 3, "%+v", rules)
	}
}

// TestWeights: clients that always wait receive work by their weights.
func TestWeights(t *testing.T) {
	q, had := New[*job](Rules{}), map[uint64]int{}
	add := func(owner uint64) {
		j := &job{owner: owner}
		q.Add(owner, owner, 1, j, &j.Entry, 60)
	}
	weights := []uint64{1, 2, 3, 0}
	for owner := range weights {
		add(uint64(owner))
	}
	for range 700 {
		q.Advance()
		j := q.Next().First()
		q.Charge(j.owner, j.owner, 60, weights[j.owner])
		q.Remove(&j.Entry)
		add(j.owner)
		had[j.owner]++
	}
	for owner, want := range []int{100, 200, 300, 100} {
		require.InDelta(t, want, had[uint64(owner)], 3)
	}
}

// TestMoves: an owner without jobs may come back as one of another client, and is then its.
func TestMoves(t *testing.T) {
	q := New[*job](Rules{})
	q.Charge(1, 7, 100, 1)
	require.EqualValues(t, 100, q.Of(7).start)
	j := &job{}
	q.Add(2, 7, 1, j, &j.Entry, 1)
	require.EqualValues(t, 2, q.Next().client.number)
	require.Zero(t, q.Of(7).start, "without the debt")
	require.EqualValues(t, 100, q.Tag(1), "which is its client's")
	q.Remove(&j.Entry)
}

// TestComparisons: no operation compares more than a few times log n of n owners.
func TestComparisons(t *testing.T) {
	const n = 1 << 14
	q, count := New[*job](Rules{Price: 1, Short: 50, Whole: 50, Lead: 1 << 40, ClientLead: 1 << 40}), 0
	for _, h := range []*Heap[*client[*job]]{&q.active, &q.short, &q.long, &q.idle} {
		by := h.Before
		h.Before = func(a, b *client[*job]) bool { count++; return by(a, b) }
	}
	for number := range uint64(128) {
		c := q.ensureClient(number)
		for _, h := range []*Heap[*Flow[*job]]{&c.short, &c.long, &c.idle} {
			h.Before = func(a, b *Flow[*job]) bool { count++; return flowLess(a, b) }
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]job, 2*n)
	for i := range all {
		q.Add(uint64(i%128), uint64(i%n), 1, &all[i], &all[i].Entry, 1+r.Uint64N(100))
	}
	for range 1000 {
		count = 0
		j := &all[r.IntN(len(all))]
		q.Estimate(&j.Entry, 1+r.Uint64N(100))
		q.Remove(&j.Entry)
		q.Charge(j.flow.client.number, j.flow.owner, 3, 1)
		q.Add(j.flow.client.number, j.flow.owner, 1, j, &j.Entry, 1+r.Uint64N(100))
		q.Aside(q.Next())
		q.Restore()
		q.Advance()
		q.NextShort()
		require.Less(t, count, 8*2*3*15, "operations, comparisons per level, heaps, levels")
	}
}
