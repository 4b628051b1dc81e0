package replay

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

const (
	ms    = time.Millisecond
	vocab = 40
	end   = int32(39) // the only token that ends a text
	room  = 400
)

// world holds two models that are functions of the text, and the times they take, which are functions of the seed.
type world struct {
	seed uint64
	mu   sync.Mutex
	rand *rand.Rand
}

// head returns the output of the small model after a text.
func (w *world) head(text uint64) backend.Output {
	r := rand.New(rand.NewPCG(text, w.seed))
	out := backend.Output{Entropy: r.Float32()}
	logit, sum := float32(3), 0.0
	for _, id := range r.Perm(vocab)[:6] {
		if id == int(end) && r.IntN(4) > 0 {
			continue
		}
		out.Top = append(out.Top, backend.Candidate{ID: int32(id), Logit: logit})
		sum += math.Exp(float64(logit))
		logit -= 3 * r.Float32()
	}
	out.LogSumExp = float32(math.Log(sum))
	return out
}

// says returns the large model's token after a text: mostly one of the small model's best.
func (w *world) says(text uint64) int32 {
	top := w.head(text).Top
	n := router.Draw(text, w.seed+1) % 10
	switch {
	case n < 6:
		return top[0].ID
	case n < 9:
		return top[1].ID
	}
	return int32(router.Draw(text, w.seed+2) % vocab)
}

func (w *world) some(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return 1 + time.Duration(w.rand.Int64N(int64(most)))
}

// wait lets time pass, and returns the cause if ctx ends first.
func (w *world) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// small is the small model.
type small struct {
	*world
	settled uint64
	nodes   map[draft.ID]uint64
}

func (m *small) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	m.settled, m.nodes = hashTokens(prompt), map[draft.ID]uint64{}
	return m.head(m.settled), m.wait(ctx, m.some(30*ms))
}

func (m *small) Extend(ctx context.Context, nodes []draft.Node) (out []backend.Output, err error) {
	for _, n := range nodes {
		before := m.settled
		if len(n.Path) > 0 {
			before = m.nodes[n.Path[len(n.Path)-1]]
		}
		m.nodes[n.ID] = extendHash(before, n.Token)
		out = append(out, m.head(m.nodes[n.ID]))
	}
	_ = m.wait(ctx, 5*ms+m.some(10*ms))
	return out, nil
}

func (m *small) Settle(path ...draft.ID) {
	for _, id := range path {
		m.settled = m.nodes[id]
		delete(m.nodes, id)
	}
}

func (m *small) Drop(nodes ...draft.ID) {
	for _, id := range nodes {
		delete(m.nodes, id)
	}
}

func (m *small) Room() int { return 1000 }

// large is the large model. It audits everything that it is asked to.
type large struct{ *world }

func (c large) Ask(ctx context.Context, q draft.Question) (a draft.Answer, err error) {
	text := hashTokens(q.Context)
	a = draft.Answer{BytesUp: 3 + len(q.Context),
		BytesDown: 9, Prefilled: 2, Reply: terms.Reply{Queue: c.some(3 * ms), Compute: c.some(20 * ms)}}
	if err := c.wait(ctx, a.Queue+a.Compute+c.some(200*ms)); err != nil {
		return draft.Answer{BytesUp: 1}, err
	}
	a.Token = c.says(text)
	if q.AuditFrom > 0 {
		c.audit(q, &a)
	}
	if q.Ahead > 0 {
		a.Ahead = c.ahead(ctx, q, a)
	}
	return a, nil
}

func (c large) audit(q draft.Question, a *draft.Answer) {
	text := hashTokens(q.Context[:q.AuditFrom])
	for pos := q.AuditFrom; pos < len(q.Context); pos++ {
		a.Audited++
		if choice := c.says(text); choice != q.Context[pos] {
			a.Audit = append(a.Audit, terms.Finding{Pos: pos, Token: choice})
		}
		text = extendHash(text, q.Context[pos])
	}
}

func (c large) ahead(ctx context.Context, q draft.Question, a draft.Answer) <-chan int32 {
	to, text := make(chan int32, q.Ahead), extendHash(hashTokens(q.Context), a.Token)
	if q.Verify == terms.EachChoice && len(a.Audit) > 0 {
		text = extendHash(hashTokens(q.Context[:a.Audit[0].Pos]), a.Audit[0].Token)
	}
	go func() {
		defer close(to)
		for range q.Ahead {
			if c.wait(ctx, c.some(25*ms)) != nil {
				return
			}
			token := c.says(text)
			to <- token
			if token == end {
				return
			}
			text = extendHash(text, token)
		}
	}()
	return to
}

func (c large) Warm(ctx context.Context, text []int32) (up, down int, err error) {
	return len(text), 4, c.wait(ctx, c.some(60*ms))
}

// describe formats an event with its time.
func describe(e draft.Event) string {
	switch {
	case e.Token != nil:
		return fmt.Sprintf("%v token %+v", e.At, *e.Token)
	case e.Escalation != nil:
		q := *e.Escalation
		q.Err = nil
		return fmt.Sprintf("%v escalation %+v %v", e.At, q, e.Escalation.Err != nil)
	case e.Pass != nil:
		return fmt.Sprintf("%v pass %+v", e.At, *e.Pass)
	case e.Warming != nil:
		w := *e.Warming
		w.Err = nil
		return fmt.Sprintf("%v warming %+v", e.At, w)
	case e.Turn != nil:
		return fmt.Sprintf("%v turn %+v", e.At, *e.Turn)
	case e.Ahead != nil:
		return fmt.Sprintf("%v ahead %+v", e.At, *e.Ahead)
	}
	return "?"
}

// shown holds the text, its origins and the other events.
type shown struct {
	ids     []int32
	origins []draft.Origin
	tokens  []draft.Token
	events  []string
	sum     draft.Summary
}

// decodes runs a decoder and collects its events.
func decodes(
	t *testing.T, prompt []int32, m draft.Model, r draft.Router, c draft.Cloud, o draft.Options, also func(draft.Event),
) (s shown) {
	d, err := draft.New(m, r, c, o)
	require.NoError(t, err)
	s.sum, err = d.Decode(t.Context(), prompt, func(e draft.Event) bool {
		if also != nil {
			also(e)
		}
		if e.Waited == nil && e.Prompt == nil && e.Rollback == nil {
			s.events = append(s.events, describe(e))
		}
		if e.Token != nil {
			s.tokens = append(s.tokens, *e.Token)
			s.ids, s.origins = append(s.ids, e.Token.ID), append(s.origins, e.Token.Origin)
		}
		return true
	})
	require.NoError(t, err)
	return s
}

// options returns options of a decoder.
func options(clock draft.Clock) draft.Options {
	return draft.Options{
		Clock: clock, Trace: true, MaxTokens: 40, Vocab: vocab, Room: room, Deadline: -1, Audit: true,
		End: func(id int32) bool { return id == end },
	}
}

// policy returns a router that escalates where the small model's margin is small.
func policy(t *testing.T, threshold float64) *router.Router {
	r, err := router.New(router.Options{Policy: router.Margin, Threshold: &threshold})
	require.NoError(t, err)
	return r
}

// header returns the header of a recording of a world.
func header() Header {
	return Header{
		Modes: []string{"a", "b", "c"}, Vocab: vocab, Context: room, Ends: []int32{end}, MaxTokens: 40,
		CloudPace: 20 * ms, Run: record.Run{Measurement: "bench routing"},
	}
}

// promptOf returns the prompt of a question.
func promptOf(question int) []int32 { return []int32{int32(question % 30), 7, int32(question % 11), 3} }

// records decodes a question in a mode and records it.
func (w *world) records(
	t *testing.T, rec *Recorder, mode string, question int, threshold float64, set func(*draft.Options),
) (s shown) {
	bubble.Test(t, func(t *testing.T) {
		o := options(nil)
		set(&o)
		take := rec.Begin(mode, question, 0, promptOf(question), nil)
		var c draft.Cloud = large{w}
		work := func(e draft.Event) { // the program's own work after a call
			if e.Pass != nil {
				_ = w.wait(t.Context(), w.some(3*ms))
			}
		}
		s = decodes(t, promptOf(question), take.Model(&small{world: w}), policy(t, threshold), take.Cloud(c), o, work)
		ids := s.ids
		ended := len(ids) > 0 && ids[len(ids)-1] == end
		if ended {
			ids = ids[:len(ids)-1]
		}
		take.End(ids, ended, true, len(ids)%2 == 0)
	})
	return s
}

// newWorld returns a world, with a recorder that writes to b.
func newWorld(t *testing.T, seed uint64, b *bytes.Buffer) (*world, *Recorder) {
	w := &world{seed: seed, rand: rand.New(rand.NewPCG(seed, 5))}
	rec, err := NewRecorder(b, header())
	require.NoError(t, err)
	return w, rec
}

// player reads a recording.
func player(t *testing.T, rec *Recorder, b *bytes.Buffer) *Player {
	require.NoError(t, rec.Close())
	r, err := Read(bytes.NewReader(b.Bytes()), "recording")
	require.NoError(t, err)
	return playing(t, r)
}

// playing returns a player of a recording.
func playing(t *testing.T, r *Recording) *Player {
	t.Helper()
	p, err := NewPlayer(r)
	require.NoError(t, err)
	return p
}

// replays decodes a question of a recording again.
func replays(
	t *testing.T, p *Player, of Of, terms Terms, threshold float64, set func(*draft.Options),
) (s shown, text *Text, took time.Duration) {
	clock := simclock.New(time.Unix(0, 0))
	prompt := promptOf(of.Question)
	clock.Run(func() {
		text = p.Text(of, terms, clock)
		begun := clock.Now()
		o := options(clock)
		set(&o)
		s = decodes(t, prompt, text.Model(), policy(t, threshold), text.Cloud(), o, nil)
		text.Shown(prompt, s.tokens)
		took = clock.Now().Sub(begun)
	})
	return s, text, took
}

// ways returns the modes of tests.
func ways() map[string]func(*draft.Options) {
	return map[string]func(*draft.Options){
		"serial":     func(o *draft.Options) { o.Mode = draft.Serial },
		"pipelined":  func(o *draft.Options) { o.Branches = 3 },
		"auto":       func(o *draft.Options) { o.Branches = draft.AutoBranches; o.Warm = 5 },
		"ahead":      func(o *draft.Options) { o.Ahead = 6 },
		"serialplus": func(o *draft.Options) { o.Mode, o.Ahead = draft.Serial, 4 },
		"verified":   func(o *draft.Options) { o.Verify, o.VerifyEvery = true, 6 },
		"every":      func(o *draft.Options) { o.Verify, o.VerifyEvery, o.Ahead = true, 5, 5 },
		"deadline":   func(o *draft.Options) { o.Deadline = 120 * ms },
		"few":        func(o *draft.Options) { o.InFlight, o.Window, o.Lookup = 1, 4, -1 },
	}
}

// linkOf returns a link with a round trip.
func linkOf(rtt time.Duration, loss float64, seed uint64) *Link {
	way := link.Direction{Delay: rtt / 2}
	return &Link{Options: link.Options{Up: way, Down: way}, Loss: loss, Seed: seed}
}

// wayNames returns the sorted names of the modes of tests.
func wayNames() (all []string) {
	for name := range ways() {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
