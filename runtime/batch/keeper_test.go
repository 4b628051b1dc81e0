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

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// keeper is a simple model of what a service keeps, computes and counts, for questions that come one after the other.
// It finds what goes by looking at everything.
type keeper struct {
	slots, rows int
	clock       int // steps
	shelves     map[uint64]*shelf
	evicted     []*shelf // of each token that was, the first first
	stats       batch.Stats
}

// shelf is what is kept of a session.
type shelf struct {
	device uint64           // that asked first
	tokens map[string]*kept // by the text up to the token
	lost   map[string]int   // evicted tokens, and how many went before them
}

// kept is a token in memory.
type kept struct {
	used int // step
	k    int // candidates for what follows that are kept; 0 means none
}

// forecast is what a question will bring.
type forecast struct {
	reused, audited int
	shed, failed    bool
	calls           []made
	took            time.Duration // all its calls, but for the one that fails
}

// key is a text as the key of a map.
func key(text []int32) string {
	var s strings.Builder
	for _, token := range text {
		s.WriteByte(byte(token))
	}
	return s.String()
}

func (k *keeper) used() (n int) {
	for _, s := range k.shelves {
		n += len(s.tokens)
	}
	return n
}

// recent reports whether eviction i is still remembered.
func (k *keeper) recent(i int) bool { return len(k.evicted)-i <= 8*k.slots }

// shelf returns that of a session, which is new if nothing at all is remembered of it.
func (k *keeper) shelf(session, device uint64) *shelf {
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
		s = &shelf{device: device, tokens: map[string]*kept{}, lost: map[string]int{}}
		k.shelves[session] = s
	}
	return s
}

// oldest returns the leaf that was used longest ago, but for the one in use, and when; "" if there is none.
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

// victim returns what goes for a context of so many tokens whose own session has nothing to give.
func (k *keeper) victim(own *shelf, inUse string, size int) *rival {
	in := own.tokens[inUse]
	if in != nil { // it and all before it stay
		hidden := own.tokens
		own.tokens = map[string]*kept{}
		defer func() { own.tokens = hidden }()
	}
	all := k.rivals()
	if mine := all[own.device]; mine != nil && in != nil {
		mine.slots += len(inUse)
	}
	first := make([]*rival, 33) // of the devices that hold about as much
	for _, r := range all {
		if c := bits.Len(uint(r.slots)); first[c] == nil || r.used < first[c].used {
			first[c] = r
		}
	}
	var most, pick *rival
	for c := 32; c >= 0; c-- {
		r := first[c]
		switch mine := all[own.device]; {
		case r == nil:
		case most == nil:
			if most, pick = r, r; mine != nil && mine.slots >= r.slots {
				return mine
			}
		case most.slots >= 2*size && 2*r.slots < most.slots:
			return pick
		case r.used < pick.used:
			pick = r
		}
	}
	return pick
}

func (k *keeper) evict(s *shelf, leaf string) {
	delete(s.tokens, leaf)
	s.lost[leaf] = len(k.evicted)
	k.evicted = append(k.evicted, s)
	k.stats.Evicted++
}

// ask says what will be of a question whose step number fails does not succeed, and does it.
func (k *keeper) ask(q batch.Question, fails int) (f forecast) {
	s, text := k.shelf(q.Session, q.Device), key(q.Context)
	for f.reused < len(text) && s.tokens[text[:f.reused+1]] != nil {
		f.reused++
	}
	rows := k.rows
	if q.Background {
		rows = max(1, rows/4)
		if f.shed = len(text)-f.reused > k.slots-k.used()+len(s.tokens)-f.reused; f.shed {
			k.stats.Shed++
			return f
		}
	}
	for n := 1; n <= f.reused; n++ {
		s.tokens[text[:n]].used = k.clock + 1
	}
	for done := f.reused; ; {
		k.clock++
		now := min(len(text)-done, rows)
		k.makeRoom(s, text[:done], now, len(text))
		p := k.plan(q, s, text, done, now)
		f.calls = append(f.calls, p.calls...)
		if f.failed = fails == 0 && len(p.calls) > 0; f.failed {
			f.calls = f.calls[:len(f.calls)-len(p.calls)+1] // a second call is not made
			k.fail(s, text, p)
			return f
		}
		for _, c := range p.calls {
			k.stats.Steps++
			k.stats.Computed += uint64(c.rows)
			f.took += tick + time.Duration(c.rows)*tick
		}
		k.keep(s, text, p)
		fails--
		if done += now; done == len(text) {
			break
		}
	}
	k.stats.Reused += uint64(f.reused)
	for n := len(text) - 1; q.AuditFrom > 0 && n >= q.AuditFrom && s.tokens[text[:n]].k > 0; n-- {
		f.audited++
	}
	return f
}

// makeRoom evicts until so many slots are free.
func (k *keeper) makeRoom(s *shelf, inUse string, n, size int) {
	for k.slots-k.used() < n {
		if leaf, _ := s.oldest(inUse); leaf != "" {
			k.evict(s, leaf)
		} else {
			r := k.victim(s, inUse, size)
			k.evict(r.shelf, r.leaf)
		}
	}
}

// planned is a step of one question.
type planned struct {
	from, to int         // of its text
	heads    map[int]int // candidates that are wanted, by token of the text
	again    bool        // the last token was there, but what it wants of the head was not
	calls    []made
}

func (k *keeper) plan(q batch.Question, s *shelf, text string, done, n int) planned {
	p := planned{from: done, to: done + n, heads: map[int]int{}}
	for i := done; i < p.to; i++ {
		if q.AuditFrom > 0 && i+1 >= q.AuditFrom {
			p.heads[i] = 1
		}
	}
	sampler, _ := sample.New(q.Sampling)
	want, last := sampler.Want(backend.Want{K: q.K}), len(text)-1
	ends := p.to == len(text) && (n > 0 || want.Logits || s.tokens[text].k < want.K)
	call := made{rows: n, heads: len(p.heads), k: 1}
	if ends {
		if p.again = n == 0; p.again {
			call.rows++
		}
		if p.heads[last] == 0 {
			call.heads++
		}
		p.heads[last], call.k, call.logits = want.K, want.K, want.Logits
	}
	depth := call.depth()
	switch {
	case ends && depth > 8 && call.heads*depth > 8*k.rows: // the last token's head for itself
		if !p.again {
			p.calls = append(p.calls, made{rows: n, heads: call.heads - 1, k: 1})
		}
		p.calls = append(p.calls, made{1, 1, call.k, call.logits})
	case call.rows > 0:
		p.calls = append(p.calls, call)
	}
	return p
}

// keep takes in what a step has computed.
func (k *keeper) keep(s *shelf, text string, p planned) {
	for i := p.from; i < p.to; i++ {
		s.tokens[text[:i+1]] = &kept{used: k.clock}
		if n, ok := s.lost[text[:i+1]]; ok && k.recent(n) {
			k.stats.Recomputed++
		}
		delete(s.lost, text[:i+1])
	}
	for i, n := range p.heads {
		s.tokens[text[:i+1]].k = max(n, s.tokens[text[:i+1]].k)
	}
}

// fail takes out what a step that failed would have computed anew, with all that follows it.
func (k *keeper) fail(s *shelf, text string, p planned) {
	for other := range s.tokens {
		if p.again && strings.HasPrefix(other, text) {
			delete(s.tokens, other)
		}
	}
}

// forget drops a session.
func (k *keeper) forget(session uint64) { delete(k.shelves, session) }

// now is what a service should say of itself.
func (k *keeper) now() batch.Stats {
	st := k.stats
	st.Slots, st.InUse = k.slots, k.used()
	for _, s := range k.shelves {
		st.Sessions += min(1, len(s.tokens))
	}
	return st
}

// TestKeeper: what a service reuses, evicts, computes once more, audits and counts is what a simple model says, call
// by call, for questions that come one after the other; calls that fail or are left included. In virtual time.
func TestKeeper(t *testing.T) {
	for seed := range seeds(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		room, rows := []int{30, 31, 60, 100, 200}[r.IntN(5)], []int{1, 2, 3, 8, 30, 50}[r.IntN(6)]
		t.Run(fmt.Sprint(seed, " ", room, " slots ", rows, " rows"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { keeps(t, r, room, rows) })
		})
	}
}

func keeps(t *testing.T, r *rand.Rand, room, rows int) {
	m := &counter{perCall: tick, perRow: tick}
	s := service(t, m, room, batch.Options{Rows: rows, Context: 30, Now: m.checks()})
	m.of = s
	defer s.Close()
	k := &keeper{slots: room, rows: rows, shelves: map[uint64]*shelf{}}
	var before [][]int32
	for i := range uint64(150) {
		q := anyQuestion(r, before, 30, []int32{3, 40}[r.IntN(2)])
		q.Session = i/40 + r.Uint64N(uint64(2+room/12)) // old ones do not come back
		if q.Device = q.Session % 5; r.IntN(10) == 0 {
			q.Device = r.Uint64N(5)
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

// askWith asks, and checks what comes of it. A call that is to fail does so because its caller leaves, or the model is
// broken.
func askWith(t *testing.T, s *batch.Service, m *counter, q batch.Question, f forecast, leaves bool) {
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
		require.Equal(t, [3]time.Duration{0, f.took, f.took}, [3]time.Duration{a.Queue, a.Compute, took})
		right(t, m.answer(t, q), a, q, false)
	}
}
