package run

import (
	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/event"
)

func (o *runOutput) observeEvent(e pilotfish.Event) {
	if t := e.Token; t != nil {
		o.shown, o.delay = e.At, t.CommitDelay
	}
	if o.watch != nil {
		o.watch.observeEvent(e)
	}
	if o.explain != nil {
		o.explain.observeEvent(e)
	}
	if p := e.Preview; p != nil && o.broken == nil {
		o.broken = o.showPreview(p)
	}
}

func (o *runOutput) showPreview(p *pilotfish.Preview) error {
	text, err := o.model.Detokenize(p.Tokens)
	if err != nil {
		return err
	}
	if !o.f.json {
		return o.preview.showText(text)
	}
	return o.a.PrintJSON(map[string]event.Unverified{"unverified": {
		Pos: p.Pos, IDs: append([]int32{}, p.Tokens...), Text: text, Turned: p.Turned,
	}})
}
