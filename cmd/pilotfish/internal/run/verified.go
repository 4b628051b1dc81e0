package run

import (
	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/event"
)

func (o *runOutput) observe(e pilotfish.Event) {
	if t := e.Token; t != nil {
		o.shown, o.delay = e.At, t.CommitDelay
	}
	if o.watch != nil {
		o.watch.observe(e)
	}
	if o.explain != nil {
		o.explain.observe(e)
	}
	if p := e.Preview; p != nil && o.broken == nil {
		o.broken = o.show(p)
	}
}

func (o *runOutput) show(p *pilotfish.Preview) error {
	text, err := o.model.Detokenize(p.Tokens)
	if err != nil {
		return err
	}
	if !o.f.json {
		return o.preview.show(text)
	}
	return o.a.PrintJSON(map[string]event.Unverified{"unverified": {
		Pos: p.Pos, IDs: append([]int32{}, p.Tokens...), Text: text, Turned: p.Turned,
	}})
}

// verified completes the statistics of the large model for an answer, which it verified or not.
func (o *runOutput) verified(r *event.Routed, was bool) {
	if v := o.f.route.Verify; v.On {
		r.Verify = &v.Nats
	}
	if !was {
		r.Turned, r.Unverified = nil, nil
	}
}
