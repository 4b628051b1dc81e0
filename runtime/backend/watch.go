package backend

import (
	"context"
	"time"
)

// Op is one operation of a pass, as it was timed: see [Watch].
type Op struct {
	Name  string    // a method of [Pass]: "Embed", "NormProject", …; "Run" is a whole pass on a device of its own
	Layer int       // -1: it belongs to none
	Rows  int       // of the pass
	Begin time.Time // when the operation began, and when it was done
	End   time.Time
	// Of a Run alone: when the device began and ended, on its own clock, and End is when that was known.
	DeviceBegin, DeviceEnd time.Duration
}

// OpRun is the name of an [Op] that is a whole pass.
const OpRun = "Run"

// Timed is a pass of a device that has a clock of its own.
type Timed interface {
	// Ran says when the device began and ended the pass, on its clock. It is called after End or Wait.
	Ran() (begin, end time.Duration)
}

// watchKey is where a context keeps who watches.
type watchKey struct{}

// Watch returns a context whose forward calls tell of their operations, one after the other, from the goroutine that
// calls. Nothing is timed in others.
func Watch(ctx context.Context, tell func(Op)) context.Context {
	return context.WithValue(ctx, watchKey{}, tell)
}

// Watched returns a pass that tells who watches of each operation, where somebody does and operations run as they are
// called. The passes of a [Runner] do not: see [TellRun].
func Watched(ctx context.Context, p Pass, rows int) Pass {
	tell, ok := ctx.Value(watchKey{}).(func(Op))
	if !ok {
		return p
	}
	if _, later := p.(Flight); later {
		return p
	}
	return &watched{Pass: p, tell: tell, rows: rows, layer: -1}
}

// TellRun tells who watches of a pass that has ended, where the device says how long it took.
func TellRun(ctx context.Context, p any, rows int) {
	tell, ok := ctx.Value(watchKey{}).(func(Op))
	if !ok {
		return
	}
	if t, ok := p.(Timed); ok {
		now := time.Now()
		begin, end := t.Ran()
		tell(Op{Name: OpRun, Layer: -1, Rows: rows, Begin: now.Add(begin - end), End: now, DeviceBegin: begin, DeviceEnd: end})
	}
}

// watched is a pass whose operations are timed.
type watched struct {
	Pass
	tell  func(Op)
	rows  int
	layer int // that is at work
}

func (w *watched) done(name string, layer int, begin time.Time) {
	w.tell(Op{Name: name, Layer: layer, Rows: w.rows, Begin: begin, End: time.Now()})
}

// Embed implements [Pass].
func (w *watched) Embed(x Tensor, table Weight) {
	begin := time.Now()
	w.Pass.Embed(x, table)
	w.done("Embed", -1, begin)
}

// NormProject implements [Pass]. It is the first operation of a layer.
func (w *watched) NormProject(q, k, v, x Tensor, g Norm, wq, wk, wv Weight) {
	begin := time.Now()
	w.Pass.NormProject(q, k, v, x, g, wq, wk, wv)
	w.layer++
	w.done("NormProject", w.layer, begin)
}

// Attend implements [Pass].
func (w *watched) Attend(a, q, k, v Tensor, layer int) {
	begin := time.Now()
	w.Pass.Attend(a, q, k, v, layer)
	w.done("Attend", layer, begin)
}

// ProjectAdd implements [Pass].
func (w *watched) ProjectAdd(x Tensor, m Weight, h Tensor) {
	begin := time.Now()
	w.Pass.ProjectAdd(x, m, h)
	w.done("ProjectAdd", w.layer, begin)
}

// NormGateUp implements [Pass].
func (w *watched) NormGateUp(m, x Tensor, g Norm, wGate, wUp Weight) {
	begin := time.Now()
	w.Pass.NormGateUp(m, x, g, wGate, wUp)
	w.done("NormGateUp", w.layer, begin)
}

// Head implements [Pass].
func (w *watched) Head(out []Output, x Tensor, g Norm, m Weight, want Want) {
	begin := time.Now()
	w.Pass.Head(out, x, g, m, want)
	w.done("Head", -1, begin)
}
