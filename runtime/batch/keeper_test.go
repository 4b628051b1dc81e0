package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// keeper is a simple model of what a service keeps, computes and counts, for sequential questions. It finds victims by
// a full search.
type keeper struct {
	slots, rows int
	clock       int // steps
	shelves     map[uint64]*shelf
	evicted     []*shelf      // one for each evicted token, the oldest first
	lost        map[place]int // evicted tokens, by index in evicted
	stats       batch.Stats
}

// place is a token in a domain, identified by the text up to it.
type place struct {
	domain uint64
	text   string
}

// shelf holds the tokens of a session.
type shelf struct {
	domain    uint64
	device    uint64           // the first device that asked
	tokens    map[string]*kept // by the text up to the token
	forgotten bool
}

// kept is a token in memory, as one session uses it.
type kept struct {
	used int  // step
	head *int // kept candidates for the next token, for all sessions; 0 means none
}

// forecast is the expected result of a question.
type forecast struct {
	reused, audited int
	computed        int // rows, without those that a second call computes again
	shed, failed    bool
	calls           []made
	took            time.Duration // of all its calls, without a failing one
}

// key returns a text as a map key.
func key(text []int32) string {
	var s strings.Builder
	for _, token := range text {
		s.WriteByte(byte(token))
	}
	return s.String()
}

// users returns, for each token in memory, the number of sessions that use it.
func (k *keeper) users() map[place]int {
	all := map[place]int{}
	for _, s := range k.shelves {
		for text := range s.tokens {
			all[place{s.domain, text}]++
		}
	}
	return all
}

func (k *keeper) used() int { return len(k.users()) }

// head returns the kept candidates after a text of a domain, nil if the text is not in memory.
func (k *keeper) head(domain uint64, text string) *int {
	for _, s := range k.shelves {
		if n := s.tokens[text]; n != nil && s.domain == domain {
			return n.head
		}
	}
	return nil
}

// find extends the matching prefix of a question for a session that already uses done tokens of it, and returns its new
// length.
func (k *keeper) find(q terms.Job, s *shelf, text string, done int) int {
	for ; done < len(text); done++ {
		to := text[:done+1]
		if s.tokens[to] == nil {
			head := k.head(s.domain, to)
			if head == nil || *head == 0 && q.AuditFrom > 0 && done >= q.AuditFrom-1 && q.Priority == terms.Foreground {
				break
			}
			s.tokens[to] = &kept{head: head}
			k.stats.Shared++
		}
		s.tokens[to].used = k.clock
	}
	return done
}

// sheds reports whether a background question finds no room.
func (k *keeper) sheds(s *shelf, text string) bool {
	users, known, spare := k.users(), 0, 0
	for known < len(text) && users[place{s.domain, text[:known+1]}] > 0 {
		known++
	}
	for own := range s.tokens {
		if users[place{s.domain, own}] == 1 && !strings.HasPrefix(text, own) {
			spare++
		}
	}
	return len(text)-known > k.slots-len(users)+spare
}

// recent reports whether eviction i is still remembered.
func (k *keeper) recent(i int) bool { return len(k.evicted)-i <= 8*k.slots }

// shelf returns the shelf of a session, a new one if nothing of it is remembered.
func (k *keeper) shelf(session, device, domain uint64) *shelf {
	s := k.shelves[session]
	if s != nil && len(s.tokens) == 0 {
		for i := max(0, len(k.evicted)-8*k.slots); i < len(k.evicted); i++ {
			if k.evicted[i] == s {
				return s
			}
		}
		s = nil
	}
	if s == nil {
		s = &shelf{domain: domain, device: device, tokens: map[string]*kept{}}
		k.shelves[session] = s
	}
	return s
}

// oldest returns the least recently used leaf, except for the one in use, and when it was used; "" if there is none.
func (s *shelf) oldest(inUse string) (leaf string, used int) {
	inner := map[string]bool{inUse: true}
	for text := range s.tokens {
		inner[text[:len(text)-1]] = true
	}
	for text, n := range s.tokens {
		if !inner[text] && (leaf == "" || n.used < used) {
			leaf, used = text, n.used
		}
	}
	return leaf, used
}

// rival is a device that has something to evict.
type rival struct {
	slots, used int
	shelf       *shelf
	leaf        string
}

// rivals returns the devices with something to evict.
func (k *keeper) rivals() map[uint64]*rival {
	slots, rivals := map[uint64]int{}, map[uint64]*rival{}
	for _, s := range k.shelves {
		slots[s.device] += len(s.tokens)
	}
	for _, s := range k.shelves {
		if leaf, used := s.oldest(""); leaf != "" && (rivals[s.device] == nil || used < rivals[s.device].used) {
			rivals[s.device] = &rival{slots[s.device], used, s, leaf}
		}
	}
	return rivals
}

// victim returns what to evict for a context of size tokens if its own session has nothing to give.
func (k *keeper) victim(own *shelf, inUse string, size int) *rival {
	in := own.tokens[inUse]
	if in != nil { // it and its ancestors stay
		hidden := own.tokens
		own.tokens = map[string]*kept{}
		defer func() { own.tokens = hidden }()
	}
	all := k.rivals()
	if mine := all[own.device]; mine != nil && in != nil {
		mine.slots += len(inUse)
	}
	first := make([]*rival, 33) // the least recently used of devices that hold about equally many slots
	for _, r := range all {
		if c := bits.Len(uint(r.slots)); first[c] == nil || r.used < first[c].used {
			first[c] = r
		}
	}
	var largest, pick *rival
	for c := 32; c >= 0; c-- {
		r := first[c]
		switch mine := all[own.device]; {
		case r == nil:
		case largest == nil:
			if largest, pick = r, r; mine != nil && mine.slots >= r.slots {
				return mine
			}
		case largest.slots >= 2*size && 2*r.slots < largest.slots:
			return pick
		case r.used < pick.used:
			pick = r
		}
	}
	return pick
}

func (k *keeper) evict(s *shelf, leaf string) {
	if delete(s.tokens, leaf); k.head(s.domain, leaf) != nil {
		return // other sessions use it
	}
	k.lost[place{s.domain, leaf}] = len(k.evicted)
	k.evicted = append(k.evicted, s)
	k.stats.Evicted++
}

// ask predicts the result of a question, with a failure in step number fails, and updates the model.
func (k *keeper) ask(q terms.Job, fails int) (f forecast) {
	s, text := k.shelf(q.Session, q.Device, q.Domain), key(q.Context)
	rows := k.rows
	if q.Priority != terms.Foreground {
		rows = max(1, rows/4)
		if f.shed = k.sheds(s, text); f.shed {
			k.stats.Shed++
			return f
		}
	}
	first := true
	for done := 0; ; {
		k.clock++
		if done = k.find(q, s, text, done); first {
			f.reused, first = done, false
		}
		now := min(len(text)-done, rows)
		k.makeRoom(s, text[:done], now, len(text))
		p := k.plan(q, s, text, done, now)
		f.calls = append(f.calls, p.calls...)
		if f.failed = fails == 0 && len(p.calls) > 0; f.failed {
			f.calls = f.calls[:len(f.calls)-len(p.calls)+1] // no second call is made
			k.fail(s, text, p)
			return f
		}
		for _, c := range p.calls {
			k.stats.Steps++
			k.stats.Computed += uint64(c.rows)
			f.took += tick + time.Duration(c.rows)*tick
		}
		k.keep(s, text, p)
		if f.computed += now; p.again {
			f.computed++
			k.stats.Repeated++
		}
		fails--
		if done += now; done == len(text) {
			break
		}
	}
	k.stats.Reused += uint64(f.reused)
	for n := len(text) - 1; q.AuditFrom > 0 && n >= q.AuditFrom && *s.tokens[text[:n]].head > 0; n-- {
		f.audited++
	}
	return f
}

// makeRoom evicts until n slots are free.
func (k *keeper) makeRoom(s *shelf, inUse string, n, size int) {
	for k.slots-k.used() < n {
		if leaf, _ := s.oldest(inUse); leaf != "" {
			k.evict(s, leaf)
		} else if r := k.victim(s, inUse, size); r != nil {
			k.evict(r.shelf, r.leaf)
		} else {
			break
		}
	}
}

// planned is a step of one question.
type planned struct {
	from, to int         // range of its text
	heads    map[int]int // wanted candidates, by token of the text
	again    bool        // the last token is in memory, but not the wanted part of its head
	aside    bool        // it is computed in a slot of its own
	calls    []made
}

func (k *keeper) plan(q terms.Job, s *shelf, text string, done, n int) planned {
	p := planned{from: done, to: done + n, heads: map[int]int{}}
	for i := done; i < p.to; i++ {
		if q.AuditFrom > 0 && i+1 >= q.AuditFrom {
			p.heads[i] = 1
		}
	}
	sampler, _ := sample.New(q.Sampling)
	want, last := sampler.Want(backend.Want{K: q.K}), len(text)-1
	there := k.head(s.domain, text)
	ends := p.to == len(text) && (there == nil || want.Logits || *there < want.K)
	call := made{rows: n, heads: len(p.heads), k: 1}
	if ends {
		if p.again = n == 0; p.again {
			call.rows++
			p.aside = k.beside(q, s, text)
		}
		if p.heads[last] == 0 {
			call.heads++
		}
		p.heads[last], call.k, call.logits = want.K, want.K, want.Logits
	}
	depth := call.depth()
	switch {
	case ends && depth > 8 && call.heads*depth > 8*k.rows: // the last token's head has its own call
		if there != nil {
			call.rows--
		}
		if call.rows > 0 {
			p.calls = append(p.calls, made{rows: call.rows, heads: call.heads - 1, k: 1})
		}
		p.calls = append(p.calls, made{1, 1, call.k, call.logits})
	case call.rows > 0:
		p.calls = append(p.calls, call)
	}
	return p
}

// beside makes room to compute again a token that other sessions use, and reports whether there is any.
func (k *keeper) beside(q terms.Job, s *shelf, text string) bool {
	at := place{s.domain, text}
	if k.users()[at] > 1 {
		if q.Priority == terms.Foreground {
			k.makeRoom(s, text, 1, len(text))
		} else if leaf, _ := s.oldest(text); leaf != "" && k.used() == k.slots {
			k.evictOwn(s, text)
		}
	}
	return k.users()[at] > 1 && k.used() < k.slots
}

// evictOwn evicts only tokens of s until a slot is free.
func (k *keeper) evictOwn(s *shelf, inUse string) {
	for leaf, _ := s.oldest(inUse); leaf != "" && k.used() == k.slots; leaf, _ = s.oldest(inUse) {
		k.evict(s, leaf)
	}
}

// keep adds the tokens that a step has computed.
func (k *keeper) keep(s *shelf, text string, p planned) {
	for i := p.from; i < p.to; i++ {
		to := place{s.domain, text[:i+1]}
		if head := k.head(s.domain, to.text); head != nil { // computed again
			k.stats.Repeated++
			s.tokens[to.text] = &kept{k.clock, head}
			continue
		}
		s.tokens[to.text] = &kept{k.clock, new(int)}
		if n, ok := k.lost[to]; ok && k.recent(n) && !k.evicted[n].forgotten {
			k.stats.Recomputed++
		}
		delete(k.lost, to)
	}
	for i, n := range p.heads {
		head := s.tokens[text[:i+1]].head
		*head = max(n, *head)
	}
}

// fail removes the tokens that a failed step would have computed, and all after them. Tokens of other sessions stay.
func (k *keeper) fail(s *shelf, text string, p planned) {
	for i := p.from; i < p.to; i++ {
		if head := k.head(s.domain, text[:i+1]); head != nil {
			s.tokens[text[:i+1]] = &kept{k.clock, head}
		}
	}
	if !p.again || p.aside {
		return
	}
	for _, other := range k.shelves {
		for long := range other.tokens {
			if other.domain == s.domain && strings.HasPrefix(long, text) {
				delete(other.tokens, long)
			}
		}
	}
}

// forget drops a session.
func (k *keeper) forget(session uint64) {
	if s := k.shelves[session]; s != nil {
		s.forgotten = true
		delete(k.shelves, session)
	}
}

// now returns the expected statistics of the service.
func (k *keeper) now() batch.Stats {
	st := k.stats
	st.Slots, st.InUse = k.slots, k.used()
	for _, n := range k.users() {
		if n > 1 {
			st.InCommon++
		}
	}
	for _, s := range k.shelves {
		st.Sessions += min(1, len(s.tokens))
	}
	return st
}

// TestKeeper: a service reuses, evicts, recomputes, audits and counts as the simple model predicts, call by call, for
// sequential questions, including calls that fail or are cancelled. In virtual time.
func TestKeeper(t *testing.T) {
	for seed := range seeds(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		room, rows := []int{30, 31, 60, 100, 200}[r.IntN(5)], []int{1, 2, 3, 8, 30, 50}[r.IntN(6)]
		t.Run(fmt.Sprint(seed, " ", room, " slots ", rows, " rows"), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { keeps(t, r, room, rows, 1+seed%3) })
		})
	}
}

// keeps has sessions of a number of domains ask; sessions of 3 domains share nothing.
func keeps(t *testing.T, r *rand.Rand, room, rows int, domains uint64) {
	m := &counter{perCall: tick, perRow: tick}
	s := service(t, m, room, batch.Options{Rows: rows, Context: 30, Now: m.checks(), Apart: domains == 3})
	m.of = s
	defer s.Close()
	k := &keeper{slots: room, rows: rows, shelves: map[uint64]*shelf{}, lost: map[place]int{}}
	var before [][]int32
	for i := range uint64(150) {
		q := anyQuestion(r, before, 30, []int32{3, 40}[r.IntN(2)])
		q.Session = i/40 + r.Uint64N(uint64(2+room/12)) // old sessions do not return
		if q.Device = q.Session % 5; r.IntN(10) == 0 {
			q.Device = r.Uint64N(5)
		}
		if q.Domain = q.Session % domains; domains == 3 {
			q.Domain = q.Session
		}
		before = append(before, q.Context)
		fails := r.IntN(20) - 16
		m.calls = nil
		askWith(t, s, m, q, k.ask(q, fails), fails%2 == 0)
		require.Equal(t, k.now(), s.Stats())
		require.Equal(t, k.used(), s.InUse())
		if r.IntN(15) == 0 {
			session := i/40 + r.Uint64N(uint64(2+room/12))
			require.NoError(t, s.Forget(t.Context(), session))
			k.forget(session)
			synctest.Wait()
			require.Equal(t, k.now(), s.Stats())
		}
	}
	require.NoError(t, m.wrong)
}

// askWith asks and checks the result. A call that must fail does so because its caller leaves or the model is broken.
func askWith(t *testing.T, s *batch.Service, m *counter, q terms.Job, f forecast, leaves bool) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	bored, begin := errors.New("bored"), time.Now()
	want := errBroken
	if leaves {
		want = bored
	}
	if f.failed {
		time.AfterFunc(f.took+tick/2, func() {
			if m.broken.Store(!leaves); leaves {
				cancel(bored)
			}
		})
	}
	a, err := s.Ask(ctx, q)
	took := time.Since(begin)
	synctest.Wait()
	m.broken.Store(false)
	require.Equal(t, f.calls, m.calls)
	switch {
	case f.shed:
		require.ErrorIs(t, err, batch.ErrShed)
	case f.failed:
		require.ErrorIs(t, err, want)
	default:
		require.NoError(t, err)
		require.Equal(t, f.reused, a.Reused)
		require.Equal(t, f.audited, a.Audited)
		require.Equal(t, f.computed, a.Computed)
		require.Zero(t, a.Queue)
		require.Equal(t, f.took, a.Compute)
		require.Equal(t, f.took, took)
		right(t, m.answer(t, q), a, q, false)
	}
}
