package fair

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type job struct {
	Entry[*job]
	owner, work uint64
}

// plain is a simple model of a queue: all jobs are in one list, and every rule searches it.
type plain struct {
	rules      Rules
	now, spent uint64
	start      map[uint64]uint64 // by owner; never dropped
	jobs       []*job            // in order of arrival
	aside      map[uint64]bool
}

func (p *plain) of(owner uint64) (all []*job) {
	for _, j := range p.jobs {
		if j.owner == owner {
			all = append(all, j)
		}
	}
	return all
}

func (p *plain) tag(owner uint64) uint64 { return max(p.now, p.start[owner]) }

func (p *plain) order(owner uint64) uint64 {
	if p.rules.ByEnd {
		return p.start[owner] + p.of(owner)[0].work
	}
	return p.start[owner]
}

func (p *plain) short(owner uint64) bool {
	sum := uint64(0)
	for _, j := range p.of(owner) {
		sum += j.work
	}
	return sum <= p.rules.Whole && p.of(owner)[0].work <= p.rules.Short
}

// next returns the next job of the owners for which so is true, or nil.
func (p *plain) next(so func(owner uint64) bool) (next *job) {
	for _, j := range p.jobs {
		if !p.aside[j.owner] && so(j.owner) && (next == nil || p.order(j.owner) < p.order(next.owner)) {
			next = j
		}
	}
	return next
}

func (p *plain) charge(owner, work uint64) {
	if p.start[owner] += work; len(p.of(owner)) == 0 {
		p.start[owner] = max(p.start[owner], p.now+work)
	}
	p.spent += work
}

// TestAgainstList: for any sequence of operations, a queue agrees with a list that is searched. Every waiting owner is
// next in some order, and an owner that is not ahead is dropped.
func TestAgainstList(t *testing.T) {
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 1))
		rules := Rules{ByEnd: seed%3 == 0}
		if seed%2 == 0 {
			rules.Short, rules.Whole, rules.Lead = 1+r.Uint64N(20), r.Uint64N(60), r.Uint64N(100)
		}
		q := New[*job](rules)
		p := &plain{rules: rules, start: map[uint64]uint64{}, aside: map[uint64]bool{}}
		gone := &job{}
		q.Add(1, gone, &gone.Entry, 1)
		q.Remove(&gone.Entry)
		require.Zero(t, q.Owners(), "cancelled jobs leave nothing")
		for range 700 {
			act(r, q, p)
			compare(t, seed, q, p)
		}
		for _, j := range p.jobs {
			q.Remove(&j.Entry)
		}
		q.Restore()
		for q.idle.Len() > 0 { // only owners that are ahead are left
			q.now = q.idle.First().start
			q.Advance()
		}
		require.Zero(t, q.Owners())
	}
}

// act applies one random operation to both.
func act(r *rand.Rand, q *Queue[*job], p *plain) {
	if r.IntN(3) == 0 || len(p.jobs) == 0 {
		j := &job{owner: r.Uint64N(7), work: 1 + r.Uint64N(30)}
		if len(p.of(j.owner)) == 0 {
			p.start[j.owner] = p.tag(j.owner)
		}
		p.jobs = append(p.jobs, j)
		delete(p.aside, j.owner)
		q.Add(j.owner, j, &j.Entry, j.work)
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
		q.Charge(owner, 5)
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
			first := q.Next().jobs.Front().Value.(*Entry[*job])
			p.now, p.spent = max(p.now, min(first.flow.start, p.now+p.spent)), 0
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
	q.Charge(j.flow.owner, j.Work())
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
			require.True(t, f == nil || f.Len() == 0 && f.in == &q.idle, "seed %d", seed)
		}
		require.Equal(t, p.tag(owner), max(p.now, q.Tag(owner)), "seed %d, owner %d", seed, owner)
	}
	require.Equal(t, owners, q.Len())
	require.ElementsMatch(t, p.jobs, slices.Collect(q.All))
	for name, c := range map[string]struct {
		have *Flow[*job]
		so   func(uint64) bool
	}{
		"all":   {q.Next(), func(uint64) bool { return true }},
		"short": {q.short.First(), p.short},
		"long":  {q.NextLong(), func(owner uint64) bool { return !p.short(owner) }},
	} {
		j := p.next(c.so)
		require.Equal(t, j != nil, c.have != nil, "seed %d, %s", seed, name)
		require.True(t, j == nil || c.have.First() == j || !p.rules.ByEnd && c.so(c.have.owner) &&
			p.order(c.have.owner) == p.order(j.owner), "seed %d, %s", seed, name)
	}
	f := q.NextShort()
	require.Equal(t, q.short.First() != nil && q.short.First().start <= p.now+p.rules.Lead, f != nil)
}

// TestEqualShares: owners that always wait have received equal work at any moment, within one job of each of two
// owners, for any sizes of jobs, also after a new owner joins.
func TestEqualShares(t *testing.T) {
	for _, rules := range []Rules{{}, {ByEnd: true}} {
		sizes := []uint64{50, 1, 7, 1000, 7}
		q, had, wait := New[*job](rules), make([]uint64, len(sizes)), 0
		add := func(owner uint64) {
			j := &job{owner: owner}
			q.Add(owner, j, &j.Entry, sizes[owner])
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
	rules := Rules{ByEnd: true, Short: 5, Whole: 5, Lead: 3}
	q := New[*job](rules)
	add := func(owner, work uint64) *job {
		j := &job{owner: owner, work: work}
		q.Add(owner, j, &j.Entry, work)
		return j
	}
	take(q, add(1, 4))
	q.Advance()
	q.Charge(2, 100)
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
	q.Charge(2, 4)
	require.Nil(t, q.NextShort(), "too far ahead")
}

// TestDebtsAreBounded: of the owners without jobs, those that are furthest ahead are remembered, 1024 at most.
func TestDebtsAreBounded(t *testing.T) {
	q := New[*job](Rules{})
	const owners = 3000
	for i := range uint64(owners) {
		q.Charge(i, 1+i*7%owners) // all different
	}
	q.Advance()
	require.Equal(t, 1024, q.Owners())
	for i := range uint64(owners) {
		want := 1 + i*7%owners
		if want <= owners-1024 {
			want = 0
		}
		require.Equal(t, want, q.Tag(i))
	}
}

// TestComparisons: no operation compares more than a few times log n of n owners.
func TestComparisons(t *testing.T) {
	const n = 1 << 14
	q, count := New[*job](Rules{ByEnd: true, Short: 50, Whole: 50, Lead: 1 << 40}), 0
	for _, h := range []*Heap[*Flow[*job]]{&q.short, &q.long, &q.idle} {
		h.Before = func(a, b *Flow[*job]) bool { count++; return before(a, b) }
	}
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]job, 2*n)
	for i := range all {
		q.Add(uint64(i%n), &all[i], &all[i].Entry, 1+r.Uint64N(100))
	}
	for range 1000 {
		count = 0
		j := &all[r.IntN(len(all))]
		q.Estimate(&j.Entry, 1+r.Uint64N(100))
		q.Remove(&j.Entry)
		q.Charge(j.flow.owner, 3)
		q.Add(j.flow.owner, j, &j.Entry, 1+r.Uint64N(100))
		q.Aside(q.Next())
		q.Restore()
		q.Advance()
		q.NextShort()
		require.Less(t, count, 8*2*3*15, "operations, comparisons per level, heaps, levels")
	}
}
