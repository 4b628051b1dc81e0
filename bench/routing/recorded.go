package routing

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// beginTake returns nil if there is no recording, or the answer does not count. A mode with a link of its own cannot be
// replayed and is not recorded.
func (b *measurement) beginTake(question, device int, m outcome.Mode, prompt []int32) *replay.Take {
	if b.Record == nil || !b.counts || m.Kind == outcome.Paper {
		return nil
	}
	name := m.Name
	if m.Kind == outcome.Reference {
		name = replay.ReferenceMode
	}
	var net *router.Net
	if m.Routes() && b.Router.Policy == router.Learned {
		net = b.Router.Net
	}
	return b.Record.Begin(name, question, device, prompt, net)
}

func recordRoute(take *replay.Take, r *engine.Route) {
	if take == nil {
		return
	}
	inner := r.Wrap
	r.Wrap = func(m draft.Model) draft.Model {
		if inner != nil {
			m = inner(m)
		}
		return take.Model(m)
	}
	if r.Cloud != nil {
		r.Cloud = take.Cloud(r.Cloud)
	}
}

// Records returns the header of a recording of what the options measure; the caller fills in the run.
func (o *Options) Records() (h replay.Header, err error) {
	t, err := o.Edge.Tokenizer()
	if err != nil {
		return h, err
	}
	h = replay.Header{
		Vocab: t.Size(), Context: o.Edge.Context(), MaxTokens: o.MaxTokens, EdgeTPS: o.EdgeTPS, RTT: o.RTT,
		Loss: o.Loss, RowCost: o.RowCost, Parallel: o.Parallel, CloudPace: o.CloudPace,
	}
	h.MaxTokens = cmp.Or(h.MaxTokens, usualTokens)
	for _, path := range o.Traces {
		h.Traces = append(h.Traces, filepath.Base(path))
	}
	for _, m := range o.Modes {
		if !slices.Contains(h.Modes, m.Name) {
			h.Modes = append(h.Modes, m.Name)
		}
	}
	for id := range int32(t.Size()) {
		if t.IsEnd(id) {
			h.Ends = append(h.Ends, id)
		}
	}
	if o.Router.Policy == router.Learned {
		h.Calibration = o.Router.Calibration
		h.Router = o.Router.Net.Hash()
	}
	return h, nil
}

// usualTokens is the default maximum number of tokens of an answer.
const usualTokens = 64
