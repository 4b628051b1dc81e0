package draft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// The fakes are tables that are never written down: head, decision and answer are hashes of the whole text, so that a
// wrong context anywhere leads to another text.

const fakeTop = 6 // candidates of a fake head

func mix(a, b uint64) uint64 {
	z := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func share(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// A text is its hash, but for the lowest bits, which are its last two tokens.
const (
	tokenBits = 10
	lastTwo   = 1<<(2*tokenBits) - 1
)

// then is a text with another token.
func then(text uint64, token int32) uint64 {
	low := (text<<tokenBits | uint64(token)&(1<<tokenBits-1)) & lastTwo
	return mix(text, uint64(token))&^lastTwo | low
}

func hashOf(text []int32) (h uint64) {
	for _, id := range text {
		h = then(h, id)
	}
	return h
}

// world is what is true of all texts: the small model, the router, and the large model.
type world struct {
	seed     uint64
	vocab    int32
	ends     int32     // of the ids below this one ends the text
	share    float64   // of decisions that escalate
	agree    float64   // of answers that are among the small model's candidates
	failures float64   // of questions that get an error
	ranks    []float64 // if set: of answers, the shares that are among the candidates up to each
	honest   bool      // answers are as likely as the small model says
	repeats  float64   // of texts after which the small model goes on as after any that ends with the same two tokens
	masked   float64   // share of tokens that may not follow a text
	ranked   bool      // answers are chosen from their best tokens, by another measure than the large model's
}

// head has fakeTop different candidates, the first the most probable.
func (w *world) head(text uint64) backend.Output {
	out := backend.Output{Top: make([]backend.Candidate, fakeTop)}
	whole := text
	if share(mix(text, w.seed+50)) < w.repeats {
		text = mix(text&lastTwo, w.seed+51)
	}
	first, step := int32(mix(text, w.seed)%uint64(w.vocab)), int32(mix(text, w.seed+1)%uint64(w.vocab/fakeTop))+1
	out.LogSumExp = float32(7 * share(mix(whole, w.seed+10)))
	rest := 1.0
	for i := range out.Top {
		p := rest * (0.4 + 0.5*share(mix(text, w.seed+2+uint64(i))))
		out.Top[i] = backend.Candidate{
			ID: (first + int32(i)*step) % w.vocab, Logit: float32(math.Log(p)) + out.LogSumExp,
		}
		rest -= p
	}
	slices.SortFunc(out.Top, func(a, b backend.Candidate) int {
		return int(math.Copysign(1, float64(b.Logit-a.Logit)))
	})
	return out
}

func (w *world) end(id int32) bool { return id < w.ends }

// pick is not always the best candidate, and not always one that becomes a branch.
func (w *world) pick(pos int, head *backend.Output) int32 {
	h := mix(w.seed+20, mix(uint64(pos), uint64(head.Top[0].ID)))
	if share(h) < max(0.7, w.repeats) {
		return head.Top[0].ID
	}
	return head.Top[h%fakeTop].ID
}

// Decide depends on everything decided before on the path.
func (w *world) Decide(path uint64, pos int, head *backend.Output) (float32, bool, uint64) {
	next := mix(mix(path, uint64(pos)), mix(w.seed+30, uint64(head.Top[0].ID))^uint64(math.Float32bits(head.LogSumExp)))
	c := share(next)
	return float32(c), c < w.share, next
}

// Explain depends on what was decided before as well.
func (w *world) Explain(path uint64, pos int, head *backend.Output) (margin, entropy, threshold float64) {
	h := mix(mix(path, uint64(pos)), uint64(head.Top[0].ID))
	return share(h), share(mix(h, 1)), share(mix(h, 2))
}

var errFake = errors.New("fake failure")

func (w *world) answer(text uint64) (int32, error) {
	h := mix(text, w.seed+40)
	if share(mix(h, 1)) < w.failures {
		return 0, errFake
	}
	if w.honest {
		head, left := w.head(text), share(mix(h, 3))
		for _, c := range head.Top {
			if left -= math.Exp(float64(c.Logit - head.LogSumExp)); left < 0 {
				return c.ID, nil
			}
		}
	}
	for i, upTo := range w.ranks {
		if share(mix(h, 3)) < upTo {
			return w.head(text).Top[i].ID, nil
		}
	}
	if share(mix(h, 2)) < w.agree {
		return w.head(text).Top[h%fakeTop*(h>>8%2)].ID, nil // half of them the best one
	}
	return int32(h % uint64(w.vocab)), nil
}

// shown is what can be seen of a run.
type shown struct {
	Tokens    []Token
	Reasons   []Reason // of the tokens, where they are wanted
	Escalated []int    // positions
	Turned    []int    // positions at which verification put another token
	Needless  int      // escalations with the small model's own token for an answer
	Stop      string
	audit
	last time.Time // when the last token was shown, where a test wants to know
}

// audit is what is counted of audits.
type audit struct{ Audited, Missed, AuditedFor, MissedFor int }

func auditOf(s Summary) audit { return audit{s.Audited, s.Missed, s.AuditedFor, s.MissedFor} }

// oracle is routed decoding as it is defined, without any of this package.
func (w *world) oracle(prompt []int32, most int) shown { return w.routed(prompt, most, w.answer) }

// routed is the oracle for a cloud of which it is known what becomes of each question: an error lets the small model's
// token stand.
func (w *world) routed(prompt []int32, most int, cloud func(text uint64) (int32, error)) (s shown) {
	text, path := hashOf(prompt), uint64(0)
	compared, choices := 0, []int32(nil) // the large model's, by position
	for pos := len(prompt); ; pos++ {
		head := w.head(text)
		t := Token{Pos: pos, ID: w.local(text, pos, &head), Origin: Edge}
		var escalate bool
		why := Reason{Local: t.ID}
		why.Margin, why.Entropy, why.Threshold = w.Explain(path, pos, &head)
		s.Reasons = append(s.Reasons, why)
		t.Confidence, escalate, path = w.Decide(path, pos, &head)
		if escalate {
			s.Escalated = append(s.Escalated, pos)
			if id, err := cloud(text); err != nil {
				t.Origin = EdgeTimeout
			} else {
				if id, ok := w.taken(text, id); ok {
					if id == t.ID {
						s.Needless++
					}
					t.ID, t.Origin = id, FromCloud
				}
				from := w.audits(text, compared+len(prompt), pos) - len(prompt)
				only, weight := w.sampled(text, from+len(prompt), pos)
				for i := max(from, compared); i < len(s.Tokens); i++ {
					if s.Tokens[i].Origin == Edge && (only == 0 || only == i+len(prompt)) {
						s.Audited, s.AuditedFor = s.Audited+1, s.AuditedFor+weight
						if choices[i] != s.Tokens[i].ID {
							s.Missed, s.MissedFor = s.Missed+1, s.MissedFor+weight
						}
					}
				}
				if from < len(s.Tokens) {
					compared = len(s.Tokens)
				}
			}
		}
		choice, _ := w.answer(text)
		choices = append(choices, choice)
		t.End = w.end(t.ID)
		s.Tokens = append(s.Tokens, t)
		if t.End {
			s.Stop = "end"
			return s
		}
		if len(s.Tokens) == most {
			s.Stop = "length"
			return s
		}
		text = then(text, t.ID)
	}
}

// fakeModel keeps account of what it holds, and answers anything out of order with an error.
type fakeModel struct {
	*world
	slots  int
	most   int // rows in a call
	lookup int // rows in a call with guesses in it, negative: none; 0: 8
	last   int // position that nothing may follow; 0: none
	calls  int // allowed before something is taken to go round in circles
	time   func(rows int) time.Duration
	window func(pos int) error

	settled int    // tokens
	text    uint64 // hash of the settled text
	nodes   map[ID]Node
	wrong   error // by a call that cannot return one

	passes, rows  int // calls of Extend, and their nodes
	guesses, kept int // of these, those whose parents are in the same call, and those settled

	account *account // of the calls; nil: none is kept
}

// account is what a model was made to do.
type account struct {
	forwards []forward
	of       map[ID]int // the forward call of a node
	dropped  int        // nodes
	lost     time.Duration
	rooms    map[int64]int // by time, the last one
}

// forward is one call of Extend.
type forward struct {
	from, to time.Time
	nodes    []Node
	texts    []uint64   // of the nodes, each with all before it
	above    [][]uint64 // the beginnings of each, from the settled text on
	live     int        // nodes that were not dropped
	guesses  int        // of the nodes, those at the end whose parents are among the others
	held     []bool     // nodes that are in the draft tree; filled in by the replay
}

func (a *account) extended(from time.Time, nodes []Node, above [][]uint64, guesses int) {
	f := forward{
		from: from, to: time.Now(), nodes: slices.Clone(nodes), above: above, live: len(nodes), guesses: guesses,
	}
	for i, n := range nodes {
		f.texts = append(f.texts, then(above[i][len(above[i])-1], n.Token))
		a.of[n.ID] = len(a.forwards)
	}
	a.forwards = append(a.forwards, f)
}

// drop counts the time of a call whose last node is dropped.
func (a *account) drop(id ID) {
	a.dropped++
	if f := &a.forwards[a.of[id]]; f.live > 1 {
		f.live--
	} else {
		a.lost += f.to.Sub(f.from)
	}
}

func (m *fakeModel) Prefill(_ context.Context, prompt []int32) (backend.Output, error) {
	m.settled, m.text, m.nodes = len(prompt), hashOf(prompt), map[ID]Node{}
	return m.head(m.text), nil
}

func (m *fakeModel) Room() int {
	room := m.slots - m.settled - len(m.nodes)
	if m.account != nil {
		m.account.rooms[time.Now().UnixNano()] = room
	}
	return room
}

func (m *fakeModel) Extend(ctx context.Context, nodes []Node) ([]backend.Output, error) {
	if m.calls--; m.calls < 0 {
		return nil, errors.New("going round in circles")
	}
	if len(nodes) > m.most || len(nodes) > m.Room() {
		return nil, fmt.Errorf("%d rows of %d, with room for %d", len(nodes), m.most, m.Room())
	}
	from := time.Now()
	if m.time != nil {
		time.Sleep(m.time(len(nodes)))
	}
	out, above, guesses := make([]backend.Output, len(nodes)), make([][]uint64, len(nodes)), 0
	for i, n := range nodes {
		texts, guess, err := m.above(n, nodes[:i])
		if err != nil {
			return nil, err
		}
		if above[i] = texts; guess {
			guesses++
		} else if guesses > 0 {
			return nil, fmt.Errorf("node %d comes after a guess and is none", n.ID)
		}
		out[i] = m.head(then(texts[len(texts)-1], n.Token))
	}
	if most := cmp.Or(m.lookup, 8); guesses > 0 && len(nodes) > most {
		return nil, fmt.Errorf("%d rows with %d guesses, of %d", len(nodes), guesses, most)
	}
	for _, n := range nodes {
		m.nodes[n.ID] = n
	}
	m.passes, m.rows, m.guesses = m.passes+1, m.rows+len(nodes), m.guesses+guesses
	if m.account != nil {
		m.account.extended(from, nodes, above, guesses)
	}
	return out, nil
}

// above returns the beginnings of the text up to a node, and whether its parent is evaluated in the same call: one of
// those before it there. A node has to be one that something may follow.
func (m *fakeModel) above(n Node, before []Node) (texts []uint64, guess bool, err error) {
	text := m.text
	texts = append(make([]uint64, 0, len(n.Path)+1), text)
	for j, id := range n.Path {
		a, held := m.nodes[id]
		guess = !held
		if at := slices.IndexFunc(before, func(b Node) bool { return b.ID == id }); !held && at >= 0 {
			if a = before[at]; !slices.Equal(a.Path, n.Path[:j]) {
				return nil, false, fmt.Errorf("node %d goes through %d, but not its ancestors", n.ID, id)
			}
		} else if !held {
			return nil, false, fmt.Errorf("ancestor %d of node %d is not held", id, n.ID)
		}
		if a.Pos != m.settled+j {
			return nil, false, fmt.Errorf("ancestor %d of node %d is not held at position %d", id, n.ID, m.settled+j)
		}
		text = then(text, a.Token)
		texts = append(texts, text)
	}
	switch _, twice := m.nodes[n.ID]; {
	case twice || slices.ContainsFunc(before, func(b Node) bool { return b.ID == n.ID }):
		return nil, false, fmt.Errorf("node %d is evaluated twice", n.ID)
	case n.Pos != m.settled+len(n.Path):
		return nil, false, fmt.Errorf("node %d at position %d has %d ancestors after %d tokens",
			n.ID, n.Pos, len(n.Path), m.settled)
	case m.end(n.Token) || m.last > 0 && n.Pos >= m.last:
		return nil, false, fmt.Errorf("node %d at position %d is evaluated, though nothing may follow it", n.ID, n.Pos)
	case m.window != nil:
		return texts, guess, m.window(n.Pos)
	}
	return texts, guess, nil
}

func (m *fakeModel) Settle(path ...ID) {
	for _, id := range path {
		n, ok := m.nodes[id]
		if !ok || n.Pos != m.settled {
			m.wrong = fmt.Errorf("settling node %d, which is not the next token", id)
			return
		}
		delete(m.nodes, id)
		m.settled++
		m.kept++
		m.text = then(m.text, n.Token)
	}
}

func (m *fakeModel) Drop(nodes ...ID) {
	for _, id := range nodes {
		if _, ok := m.nodes[id]; !ok {
			m.wrong = fmt.Errorf("dropping node %d, which is not held", id)
		} else if m.account != nil {
			m.account.drop(id)
		}
		delete(m.nodes, id)
	}
}

// fakeCloud answers from the world after delays that it draws.
type fakeCloud struct {
	*world
	most  int // open questions
	delay func() time.Duration
	rude  float64 // share of dropped questions that are answered nevertheless, later

	mu     sync.Mutex
	random *rand.Rand
	open   map[*Question]context.Context
	asks   int
	warmed [][]int32
	wrong  error
}

func (c *fakeCloud) Ask(ctx context.Context, q Question) (Answer, error) {
	wait, rude := c.enter(ctx, &q)
	defer c.leave(&q)
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		if !rude {
			return Answer{}, ctx.Err()
		}
		time.Sleep(wait)
	}
	a, err := c.reply(q)
	a.BytesUp, a.BytesDown = 4*len(q.Context), 4
	return a, err
}

// audits says from which position on the answer to a question compares the tokens, if it was asked to do so from one
// on: as asked, from the start, a few, or none.
func (w *world) audits(text uint64, from, length int) int {
	return []int{from, 0, max(from, length-5), length}[mix(text, w.seed+60)%4]
}

// sampled is the only position of an audit from one on that the answer to a question looks at, and for how many it
// stands; 0 and 1 where it looks at all. It draws from the whole text: what else it is about is another matter for
// pipelined decoding, which asks before it has the answer before, than for serial decoding.
func (w *world) sampled(text uint64, from, length int) (only, weight int) {
	if mix(w.seed, 61)%3 != 0 || from != 0 || length < 2 {
		return 0, 1
	}
	return 1 + int(mix(text, w.seed+62)%uint64(length-1)), length
}

// reply is what the large model says to a question.
func (w *world) reply(q Question) (a Answer, err error) {
	of := hashOf(q.Context)
	text, from := uint64(0), w.audits(of, q.AuditFrom, len(q.Context))
	if q.Verify != terms.AsItComes {
		from = q.AuditFrom
	}
	for pos, id := range q.Context {
		if q.AuditFrom > 0 && pos >= from {
			a.Audited++
			if choice, _ := w.answer(text); choice != id {
				found := terms.Finding{Pos: pos, Token: choice}
				if q.Verify == terms.EachScore {
					found.Score, found.Stands = 0, -w.gap(text, id)
				}
				a.Audit = append(a.Audit, found)
			}
		}
		text = then(text, id)
	}
	if a.Audited > 0 { // and nonsense: positions that it does not have, or was not to compare
		a.Audit = append(a.Audit, terms.Finding{Pos: -1}, terms.Finding{Pos: from - 1},
			terms.Finding{Pos: len(q.Context)})
	}
	if a.Audited > 0 && q.Verify == terms.AsItComes { // and more nonsense: findings where it did not look
		a.Sampled, _ = w.sampled(of, from, len(q.Context))
	}
	if a.Token, err = w.answer(text); q.K > 0 && w.masked > 0 {
		a.Top = w.best(text, a.Token)
	}
	return a, err
}

// warmCloud also takes text early, which fails at times.
type warmCloud struct{ *fakeCloud }

func (c warmCloud) Warm(ctx context.Context, text []int32) (up, down int, err error) {
	c.mu.Lock()
	c.warmed = append(c.warmed, text)
	wait := c.delay()
	c.mu.Unlock()
	if len(text)%3 == 0 {
		err = errFake
	}
	return 2 * len(text), 3, errors.Join(err, sleep(ctx, wait))
}

func (c *fakeCloud) enter(ctx context.Context, q *Question) (wait time.Duration, rude bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[q] = ctx
	c.asks++
	if n, _ := c.stillOpen(); n > c.most {
		c.wrong = fmt.Errorf("%d open questions of %d", n, c.most)
	}
	return c.delay(), c.random.Float64() < c.rude
}

func (c *fakeCloud) leave(q *Question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, q)
}

// stillOpen counts the questions that are not cancelled, and returns the earliest position asked for.
func (c *fakeCloud) stillOpen() (n, oldest int) {
	oldest = math.MaxInt
	for q, ctx := range c.open {
		if ctx.Err() == nil {
			n++
			oldest = min(oldest, len(q.Context))
		}
	}
	return n, oldest
}
