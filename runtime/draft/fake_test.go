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

// The fakes are functions of the whole text: head, decision and answer are hashes, so that a wrong context anywhere
// gives a different text.

const fakeTop = 6 // candidates of a fake head

func mix(a, b uint64) uint64 {
	z := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func share(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// A text is represented by its hash, with its last two tokens in the lowest bits.
const (
	tokenBits = 10
	lastTwo   = 1<<(2*tokenBits) - 1
)

// then returns a text with one more token.
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

// world defines the small model, the router and the large model for all texts.
type world struct {
	seed     uint64
	vocab    int32
	ends     int32     // ids below this one end the text
	share    float64   // share of decisions that escalate
	agree    float64   // share of answers among the small model's candidates
	failures float64   // share of questions that get an error
	ranks    []float64 // if set: the share of answers among the first i candidates
	honest   bool      // the small model's probabilities are those of the answers
	repeats  float64   // share of texts after which the small model's token depends only on the last two tokens
	masked   float64   // share of tokens that are not allowed after a text
	ranked   bool      // answers are chosen from their best tokens by another score than the large model's
}

// head returns fakeTop different candidates, the most probable first.
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

// pick does not always choose the best candidate, nor one that becomes a branch.
func (w *world) pick(pos int, head *backend.Output) int32 {
	h := mix(w.seed+20, mix(uint64(pos), uint64(head.Top[0].ID)))
	if share(h) < max(0.7, w.repeats) {
		return head.Top[0].ID
	}
	return head.Top[h%fakeTop].ID
}

// Decide depends on all earlier decisions on the path.
func (w *world) Decide(path uint64, pos int, head *backend.Output) (float32, bool, uint64) {
	next := mix(mix(path, uint64(pos)), mix(w.seed+30, uint64(head.Top[0].ID))^uint64(math.Float32bits(head.LogSumExp)))
	c := share(next)
	return float32(c), c < w.share, next
}

// Explain depends on earlier decisions, too.
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
		return w.head(text).Top[h%fakeTop*(h>>8%2)].ID, nil // half of them the best candidate
	}
	return int32(h % uint64(w.vocab)), nil
}

// shown holds the visible result of a run.
type shown struct {
	Tokens    []Token
	Reasons   []Reason // of the tokens, if requested
	Escalated []int    // positions
	Turned    []int    // positions at which verification replaced a token
	Needless  int      // escalations with the small model's own token as the answer
	Stop      string
	audit
	last time.Time // when the last token was shown, if requested
}

// audit holds the counts of audits.
type audit struct{ Audited, Missed int }

func auditOf(s Summary) audit { return audit{s.Audited, s.Missed} }

// oracle returns the result of routed decoding by its definition, without code of this package.
func (w *world) oracle(prompt []int32, most int) shown { return w.routed(prompt, most, w.answer) }

// routed is oracle for a cloud with known results for each question: after an error the small model's token is used.
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
				for i := max(from, compared); i < len(s.Tokens); i++ {
					if s.Tokens[i].Origin == Edge {
						s.Audited++
						if choices[i] != s.Tokens[i].ID {
							s.Missed++
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

// fakeModel tracks the nodes that it holds, and returns an error for any invalid call.
type fakeModel struct {
	*world
	slots  int
	most   int // max rows of a call
	lookup int // max rows of a call with guesses, negative: none; 0: 8
	last   int // position after which no token is allowed; 0: none
	calls  int // max calls before the run counts as an endless loop
	time   func(rows int) time.Duration
	window func(pos int) error

	settled int    // tokens
	text    uint64 // hash of the settled text
	nodes   map[ID]Node
	wrong   error // error of a call that cannot return one

	passes, rows  int // calls of Extend, and their nodes
	guesses, kept int // of these, nodes with a parent in the same call, and settled ones of them

	account *account // record of the calls; nil: none
}

// account records the calls of a model.
type account struct {
	forwards []forward
	of       map[ID]int // forward call by node
	dropped  int        // nodes
	lost     time.Duration
	rooms    map[int64]int // by time, the last one
}

// forward is one call of Extend.
type forward struct {
	from, to time.Time
	nodes    []Node
	texts    []uint64   // of the nodes, each with all tokens before it
	above    [][]uint64 // the prefixes of each, from the settled text on
	live     int        // nodes that were not dropped
	guesses  int        // number of nodes at the end with parents in the same call
	held     []bool     // nodes that are in the draft tree; set by the replay
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

// drop records the time of a call when its last node is dropped.
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
		return nil, errors.New("endless loop")
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
			return nil, fmt.Errorf("node %d follows a guess but is not one", n.ID)
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

// above returns the prefixes of the text up to a node, and whether its parent is evaluated earlier in the same call. A
// token must be allowed after the parent.
func (m *fakeModel) above(n Node, before []Node) (texts []uint64, guess bool, err error) {
	text := m.text
	texts = append(make([]uint64, 0, len(n.Path)+1), text)
	for j, id := range n.Path {
		a, held := m.nodes[id]
		guess = !held
		if at := slices.IndexFunc(before, func(b Node) bool { return b.ID == id }); !held && at >= 0 {
			if a = before[at]; !slices.Equal(a.Path, n.Path[:j]) {
				return nil, false, fmt.Errorf("node %d has ancestor %d, but not the ancestors of that", n.ID, id)
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

// fakeCloud answers from the world after random delays.
type fakeCloud struct {
	*world
	most  int // max open questions
	delay func() time.Duration
	rude  float64 // share of dropped questions that are answered later anyway

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

// audits returns the position from which on an answer compares tokens, for a question that asks for from: as asked,
// from the start, only a few, or none.
func (w *world) audits(text uint64, from, length int) int {
	return []int{from, 0, max(from, length-5), length}[mix(text, w.seed+60)%4]
}

// reply returns the large model's answer to a question.
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
				found := terms.Finding{Pos: pos, Token: choice, LogProb: -1 - float32(share(text))}
				if q.Verify.Scored() {
					found.Score, found.Stands = 0, -w.gap(text, id)
				}
				a.Audit = append(a.Audit, found)
			}
		}
		text = then(text, id)
	}
	if a.Audited > 0 { // and invalid findings: positions outside the text or the audit
		a.Audit = append(a.Audit, terms.Finding{Pos: -1}, terms.Finding{Pos: from - 1},
			terms.Finding{Pos: len(q.Context)})
	}
	if a.Token, err = w.answer(text); q.K > 0 && w.masked > 0 {
		a.Top = w.best(text, a.Token)
	}
	return a, err
}

// warmCloud also accepts text early, which sometimes fails.
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

// stillOpen returns the number of questions that are not cancelled, and the earliest position asked for.
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

// runOf returns a run before the first forward call, whose text is a prompt that ends with tip; nil: with its own last
// token.
func runOf(o Options, text []int32, tip *node) *decodeRun {
	r := newRun(&Decoder{o: o}, text, nil)
	if tip != nil {
		r.tree.tip = tip
	}
	return r
}
