package replay

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Take records one answer. Its methods are for the goroutine that decodes; the models that it wraps may be called by
// others.
type Take struct {
	r      *Recorder
	net    *router.Net
	begun  time.Time
	passes sync.WaitGroup // goroutines that forward tokens, in the computer's time
	passed int            // the number of them in the time of a clock
	hidden [][]float32    // of the heads, if the router uses them
	sure   []float32      // confidences of the heads, if a device computes them

	mu    sync.Mutex
	a     Answer
	child []int32       // by node: its last child; 0: none
	other []int32       // by node: its next sibling; 0: none
	call  int           // the last of the calls, until a wait; -1: none since the last wait
	work  time.Time     // when the program's own work began: the end of the last call or wait
	own   time.Duration // how long the program's own work was, before the next call
	came  time.Time     // when an answer, or a token ahead, last arrived

	ids    []int32   // memory of the slices in heads and calls, since many small pieces would cost more
	logits []float32 // as ids
}

// Begin begins an answer, now, to the question with this number, by the device with this number. net is the network
// that computes confidences, nil if there is none.
func (r *Recorder) Begin(mode string, question, device int, prompt []int32, net *router.Net) *Take {
	const room = 256 // tokens, for a text of ordinary length: growing costs more
	now := r.now()
	return &Take{
		r: r, net: net, begun: now, work: now, call: -1,
		child: make([]int32, 1, room), other: make([]int32, 1, room),
		ids: make([]int32, 0, 8*room), logits: make([]float32, 0, 8*room),
		a: Answer{
			Mode: mode, Question: question, Device: device, Prompt: slices.Clone(prompt),
			Tokens: make([]int32, 0, room), Parents: make([]int32, 0, room),
			Heads: make([]Head, 0, room), Calls: make([]Call, 0, room),
		},
	}
}

// WarmUp marks the answer as not counting. Only what the device learns from it counts.
func (t *Take) WarmUp() { t.a.WarmUp = true }

// Streamed records when the first token of an answer of the large model alone arrived, less the round trip.
func (t *Take) Streamed(first time.Duration) { t.a.Prefill = max(0, first) }

// End ends the answer and stores it: the text that was shown, whether an end token followed it, whether it was graded,
// and whether it is right. There must be no open call or ask.
func (t *Take) End(ids []int32, ended, graded, correct bool) {
	t.returned()
	now := t.r.now()
	t.worked(now)
	t.a.Tail, t.a.Took = t.own, now.Sub(t.begun)
	t.a.IDs, t.a.Ended, t.a.Graded, t.a.Correct = slices.Clone(ids), ended, graded, correct
	if t.a.Mode == ReferenceMode {
		t.a.Graded = false // it has no text
	}
	t.confide()
	t.r.add(&t.a)
}

// confide computes the confidences, after the timed work.
func (t *Take) confide() {
	for i, hidden := range t.hidden {
		h := &t.a.Heads[i]
		h.Confidence = &t.sure[i]
		if len(hidden) == t.net.Dim() {
			out := h.output()
			out.Hidden = hidden
			t.sure[i] = t.net.Confidence(&out)
		}
	}
}

// node returns the child of a node with a token. The lock is held.
func (t *Take) node(from, token int32) int32 {
	for n := t.child[from]; n != 0; n = t.other[n] {
		if t.a.Tokens[n-1] == token {
			return n
		}
	}
	t.a.Tokens, t.a.Parents = append(t.a.Tokens, token), append(t.a.Parents, from)
	n := int32(len(t.a.Tokens))
	t.child, t.other = append(t.child, 0), append(t.other, t.child[from])
	t.child[from] = n
	return n
}

// nodeAfter returns the node of a text that begins with the prompt. The lock is held.
func (t *Take) nodeAfter(text []int32) int32 {
	n := int32(0)
	for _, token := range text[min(len(text), len(t.a.Prompt)):] {
		n = t.node(n, token)
	}
	return n
}

// head records the small model's output after a node. The lock is held.
func (t *Take) head(node int32, out *backend.Output) {
	ids, logits := len(t.ids), len(t.logits)
	for _, c := range out.Top {
		t.ids, t.logits = append(t.ids, c.ID), append(t.logits, finite(c.Logit))
	}
	t.a.Heads = append(t.a.Heads, Head{
		Node: node, IDs: t.ids[ids:len(t.ids):len(t.ids)], Logits: t.logits[logits:len(t.logits):len(t.logits)],
		LogSumExp: finite(out.LogSumExp), Entropy: finite(out.Entropy),
	})
	if t.net != nil {
		t.hidden, t.sure = append(t.hidden, slices.Clone(out.Hidden)), append(t.sure, finite(out.Confidence))
	}
}

// finite returns the nearest number that JSON can represent.
func finite(x float32) float32 {
	if x != x {
		return 0
	}
	return max(-math.MaxFloat32, min(math.MaxFloat32, x))
}

// Model wraps the small model and records its calls.
func (t *Take) Model(m draft.Model) draft.Model {
	return &taken{Model: m, t: t}
}

// taken is a model with a recorder.
type taken struct {
	draft.Model
	t       *Take
	settled int32   // node
	at      []int32 // nodes by their ids in the draft tree, which start at 1
}

// Prefill implements [draft.Model].
func (m *taken) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	t := m.t
	start := t.r.now()
	out, err := m.Model.Prefill(ctx, prompt)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.a.Lead, t.work = start.Sub(t.begun), t.r.now()
	t.a.Prefill = t.work.Sub(start)
	if err == nil {
		t.head(0, &out)
	}
	return out, err
}

// Extend implements [draft.Model].
func (m *taken) Extend(ctx context.Context, nodes []draft.Node) ([]backend.Output, error) {
	t := m.t
	start, own := t.calling()
	out, err := m.Model.Extend(ctx, nodes)
	end := t.r.now()
	if err != nil {
		return out, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	first := len(t.ids)
	for _, n := range nodes {
		before := m.settled
		if len(n.Path) > 0 {
			before = m.at[n.Path[len(n.Path)-1]]
		}
		node := t.node(before, n.Token)
		t.ids = append(t.ids, node)
		m.put(n.ID, node)
	}
	c := Call{Nodes: t.ids[first:len(t.ids):len(t.ids)], Own: own, Took: end.Sub(start)}
	for i, node := range c.Nodes {
		t.head(node, &out[i])
	}
	t.a.Calls = append(t.a.Calls, c)
	t.call, t.work = len(t.a.Calls)-1, end
	return out, nil
}

// calling records that a forward pass begins now. It returns how long the program worked before, unless that is the
// time after the last call.
func (t *Take) calling() (now time.Time, own time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.r.now()
	t.worked(now)
	own, t.own, t.call = t.own, 0, -1
	return now, own
}

// worked records that the program has worked until now: after a call, or before the next one. The lock is held.
func (t *Take) worked(now time.Time) {
	if d := max(0, now.Sub(t.work)); t.call >= 0 {
		t.a.Calls[t.call].After = d
	} else {
		t.own += d
	}
}

// asking records that an ask begins now, and returns how long the program worked before.
func (t *Take) asking() (now time.Time, lag time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.r.now()
	return now, max(0, now.Sub(t.work))
}

// Observe must be called with the events of a decoder with [draft.Options.Trace]: the program works when it does not
// wait. After a wait its work begins when the awaited answer arrives.
func (t *Take) Observe(e draft.Event) {
	if e.Waited == nil {
		return
	}
	now := t.r.now()
	start := now.Add(-e.Waited.Took)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.worked(start)
	t.call, t.work = -1, now
	if t.came.After(start) {
		t.work = t.came
	}
}

// Settle implements [draft.Model].
func (m *taken) Settle(path ...draft.ID) {
	m.Model.Settle(path...)
	for _, id := range path {
		m.settled = m.at[id]
	}
}

// put records the node of an id.
func (m *taken) put(id draft.ID, node int32) {
	if more := int(id) + 1 - len(m.at); more > 0 {
		m.at = append(m.at, make([]int32, more)...)
	}
	m.at[id] = node
}
