package timeline

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// drawSteps draws the whole answer and its parts: prompt, forward passes, waits, and the rest between them, without
// gaps.
func (d *drawing) drawSteps() {
	var sum draft.Summary
	var parts []span
	part := func(name string, began, took time.Duration, a args) {
		from := d.t.zero + began
		parts = append(parts, span{name, from, from + took, a})
	}
	nodes := map[draft.ID]draft.Drafted{}
	for _, e := range d.t.events {
		sum.Add(e)
		switch {
		case e.Prompt != nil:
			part("prompt", e.Prompt.Began, e.Prompt.Took, args{"tokens": e.Prompt.Tokens})
		case e.Pass != nil:
			for _, n := range e.Pass.Nodes {
				nodes[n.ID] = n
			}
			part("forward", e.Pass.Began, e.Pass.Took, forwardArgs(e.Pass))
		case e.Waited != nil:
			part("wait", e.Waited.Began, e.Waited.Took, args{"for_pos": e.Waited.Pos})
		case e.Rollback != nil:
			d.addMark("rollback", e.At, rollbackArgs(e.Rollback, nodes))
		case e.Turn != nil:
			t := e.Turn
			d.addMark("turned", e.At, args{"pos": t.Pos, "local": t.Local, "token": t.Token, "wasted": t.Wasted})
		}
	}
	slices.SortStableFunc(parts, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	answer := span{"answer", 0, d.wall, figureArgs(sum)}
	answer.args["timed_calls"] = d.t.timedCalls()
	d.addBar(steps, append([]span{answer}, fillGaps(parts, d.wall)...)...)
}

// figureArgs returns all figures of an answer by their names.
func figureArgs(sum draft.Summary) (a args) {
	b, err := record.Marshal(sum)
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil { // of numbers alone
		panic(err)
	}
	return a
}

func (t *Text) timedCalls() (n int) {
	for _, some := range t.ops {
		for _, o := range some {
			if o.Kind == backend.OpHead {
				n++
			}
		}
	}
	return n
}

// fillGaps returns spans with the time between them, from 0 to the end, as additional spans; none overlap.
func fillGaps(parts []span, end time.Duration) (all []span) {
	at := time.Duration(0)
	for _, p := range append(parts, span{from: end, to: end}) {
		p.from, p.to = max(p.from, at), min(p.to, end)
		if at < min(p.from, end) {
			all = append(all, span{name: "rest", from: at, to: min(p.from, end)})
		}
		if p.name != "" && p.from < p.to {
			all = append(all, p)
		}
		at = max(at, p.from, p.to)
	}
	return all
}

func (d *drawing) addMark(name string, at time.Duration, a args) {
	p, thread := d.threadNumbers(&bar{track: steps})
	d.all = append(d.all, event{
		Name: name, Phase: mark, Time: inMicroseconds(min(max(d.t.zero+at, 0), d.wall)), Process: p, Thread: thread,
		Scope: "t", Args: a,
	})
}

// row is a row of a forward pass.
type row struct {
	Node   draft.ID `json:"node"`
	Parent draft.ID `json:"parent"` // 0: the prompt
	Pos    int      `json:"pos"`
	Token  int32    `json:"token"`
	Guess  bool     `json:"guess,omitempty"` // from the text
}

func forwardArgs(p *draft.Pass) args {
	branches, rows := 0, make([]row, len(p.Nodes))
	for i, n := range p.Nodes {
		rows[i] = row{n.ID, n.Parent, n.Pos, n.Token, n.Guess}
		if !n.Guess {
			branches++
		}
	}
	return args{"rows": p.Rows, "branches": branches, "proposed": p.Proposed, "accepted": p.Accepted, "nodes": rows}
}

func rollbackArgs(r *draft.Rollback, nodes map[draft.ID]draft.Drafted) args {
	rows := make([]row, len(r.Nodes))
	for i, id := range r.Nodes {
		n := nodes[id]
		rows[i] = row{id, n.Parent, n.Pos, n.Token, n.Guess}
	}
	return args{"pos": r.Pos, "answer_pos": r.Of, "dropped": len(rows), "nodes": rows}
}

// drawOperations draws the work of the small model: single operations on the CPU, whole passes on a GPU.
func (d *drawing) drawOperations() {
	var runs []backend.Op
	for _, some := range d.t.ops {
		for _, o := range some {
			if o.Kind == backend.OpRun {
				runs = append(runs, o)
				continue
			}
			s := span{o.Kind.String(), o.Begin, o.End, args{"rows": o.Rows}}
			if o.Layer >= 0 {
				s.args["layer"] = o.Layer
			}
			d.addBar(operations, s)
		}
	}
	slices.SortFunc(runs, func(a, b backend.Op) int { return cmp.Compare(a.DeviceBegin, b.DeviceBegin) })
	ahead, end := gpuClockOffset(runs), time.Duration(0)
	for _, o := range runs {
		s := span{"forward", max(o.DeviceBegin-ahead, end), o.DeviceEnd - ahead, args{"rows": o.Rows}}
		end = max(end, s.to)
		d.addBar(gpu, s)
	}
}

// gpuClockOffset returns how far the GPU's clock is ahead of that of the text. The end of a pass is known after a short
// delay, so the minimum over all passes is used.
func gpuClockOffset(runs []backend.Op) (ahead time.Duration) {
	for i, o := range runs {
		if i == 0 || o.DeviceEnd-o.End > ahead {
			ahead = o.DeviceEnd - o.End
		}
	}
	return ahead
}
