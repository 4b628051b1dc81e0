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
	passes sync.WaitGroup // goroutines that forward tokens
	hidden [][]float32    // of the heads, if the router uses them
	sure   []float32      // confidences of the heads, if a device computes them

	mu    sync.Mutex
	a     Answer
	nodes map[childKey]int32
}

// childKey is a token after a node.
type childKey struct{ from, token int32 }

// Begin begins an answer, now, to the question with this number, by the device with this number. net is the network
// that computes confidences, nil if there is none.
func (r *Recorder) Begin(mode string, question, device int, prompt []int32, net *router.Net) *Take {
	return &Take{
		r: r, net: net, begun: time.Now(), nodes: map[childKey]int32{},
		a: Answer{Mode: mode, Question: question, Device: device, Prompt: slices.Clone(prompt)},
	}
}

// Streamed records when the first token of an answer of the large model alone arrived, less the round trip.
func (t *Take) Streamed(first time.Duration) { t.a.Prefill = max(0, first) }

// End ends the answer and stores it: the text that was shown, whether an end token followed it, whether it was graded,
// and whether it is right. There must be no open call or ask.
func (t *Take) End(ids []int32, ended, graded, correct bool) {
	t.passes.Wait()
	t.a.Took = time.Since(t.begun)
	t.a.IDs, t.a.Ended, t.a.Graded, t.a.Correct = slices.Clone(ids), ended, graded, correct
	if t.a.Mode == ReferenceMode {
		t.a.Graded = false // it has no text
	}
	t.computeConfidences()
	t.r.addAnswer(&t.a)
}

func (t *Take) computeConfidences() {
	for i, hidden := range t.hidden {
		h := &t.a.Heads[i]
		h.Confidence = &t.sure[i]
		if len(hidden) == t.net.Dim() {
			out := h.toOutput()
			out.Hidden = hidden
			t.sure[i] = t.net.Confidence(&out)
		}
	}
}

// childNode returns the child of a node with a token; it adds a missing one. The lock is held.
func (t *Take) childNode(from, token int32) int32 {
	n, had := t.nodes[childKey{from, token}]
	if !had {
		t.a.Tokens, t.a.Parents = append(t.a.Tokens, token), append(t.a.Parents, from)
		n = int32(len(t.a.Tokens))
		t.nodes[childKey{from, token}] = n
	}
	return n
}

// recordHead records the small model's output after a node. The lock is held.
func (t *Take) recordHead(node int32, out *backend.Output) {
	h := Head{Node: node, LogSumExp: clampFinite(out.LogSumExp), Entropy: clampFinite(out.Entropy)}
	for _, c := range out.Top {
		h.IDs, h.Logits = append(h.IDs, c.ID), append(h.Logits, clampFinite(c.Logit))
	}
	t.a.Heads = append(t.a.Heads, h)
	if t.net != nil {
		t.hidden, t.sure = append(t.hidden, slices.Clone(out.Hidden)), append(t.sure, clampFinite(out.Confidence))
	}
}

// clampFinite returns the nearest number that JSON can represent.
func clampFinite(x float32) float32 {
	if x != x {
		return 0
	}
	return max(-math.MaxFloat32, min(math.MaxFloat32, x))
}

// Model wraps the small model and records its calls.
func (t *Take) Model(m draft.Model) draft.Model {
	return &recordingModel{Model: m, t: t}
}

// recordingModel is a model with a recorder.
type recordingModel struct {
	draft.Model
	t       *Take
	settled int32   // node
	at      []int32 // nodes by their ids in the draft tree, which start at 1
}

func (m *recordingModel) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	t := m.t
	start := time.Now()
	out, err := m.Model.Prefill(ctx, prompt)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.a.Prefill = time.Since(start)
	if err == nil {
		t.recordHead(0, &out)
	}
	return out, err
}

func (m *recordingModel) Extend(ctx context.Context, nodes []draft.Node) ([]backend.Output, error) {
	t := m.t
	start := time.Now()
	out, err := m.Model.Extend(ctx, nodes)
	took := time.Since(start)
	if err != nil {
		return out, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, n := range nodes {
		before := m.settled
		if len(n.Path) > 0 {
			before = m.at[n.Path[len(n.Path)-1]]
		}
		node := t.childNode(before, n.Token)
		m.setNode(n.ID, node)
		t.recordHead(node, &out[i])
	}
	t.a.Calls = append(t.a.Calls, Call{Rows: len(nodes), Took: took})
	return out, nil
}

func (m *recordingModel) Settle(path ...draft.ID) {
	m.Model.Settle(path...)
	for _, id := range path {
		m.settled = m.at[id]
	}
}

func (m *recordingModel) setNode(id draft.ID, node int32) {
	if more := int(id) + 1 - len(m.at); more > 0 {
		m.at = append(m.at, make([]int32, more)...)
	}
	m.at[id] = node
}
