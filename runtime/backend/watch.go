package backend

import (
	"context"
	"time"
)

// Watcher is told of the operations of forward calls, one after the other, from the goroutine that calls: see [Watch].
type Watcher struct {
	Zero time.Time // of the times in an [Op]
	Tell func(Op)
	// Share is the most of the time that telling may take: after a call for which it took more, as many are not told
	// of. Calls of small models are so short that a look at the clock counts. 0: all are told of.
	Share float64

	skip  int           // calls that are not told of next
	began time.Duration // the last call that was told of
	every int           // calls from the one told of before to that one; 0: there was none
}

// opCost is what telling of an operation takes: a look at the clock, and to keep it. In a virtual machine it was
// measured as 55 ns.
const opCost = 70 * time.Nanosecond

// wants reports whether the operations of a pass that begins are to be told.
func (w *Watcher) wants() bool {
	if w.skip > 0 {
		w.skip--
		return false
	}
	return true
}

// pay leaves out as many passes as it takes until telling of ops operations is no more than its share, if passes come
// as they lately did: one takes the time from one that was told of to the next, or for the first its own.
func (w *Watcher) pay(ops int, began, end time.Duration) {
	if w.Share == 0 {
		return
	}
	took := end - began
	if w.every > 0 {
		took = max(took, (began-w.began)/time.Duration(w.every))
	}
	w.skip = 0
	if took > 0 {
		w.skip = int(float64(ops) * float64(opCost) / (w.Share * float64(took)))
	}
	w.began, w.every = began, w.skip+1
}

// Op is one operation of a pass, as it was timed. Times are since [Watcher.Zero].
type Op struct {
	Kind       OpKind
	Layer      int16 // -1: it belongs to none
	Rows       int32 // of the pass
	Begin, End time.Duration
	// Of a Run: when the device began and ended, on its own clock. Begin and End are when that was known.
	DeviceBegin, DeviceEnd time.Duration
}

// OpKind says what was done.
type OpKind uint8

// The kinds: a method of [Pass], or a whole pass on a device that has a clock of its own.
const (
	OpEmbed OpKind = iota
	OpNormProject
	OpAttend
	OpProjectAdd
	OpNormGateUp
	OpHead
	OpRun
	OpEnd // of [Order] alone: nobody is told of it
)

// String is the name of a kind.
func (k OpKind) String() string {
	return [...]string{"embed", "norm+project", "attend", "project+add", "norm+gate+up", "head", "run", "end"}[k]
}

// Timed is a pass of a device that has a clock of its own.
type Timed interface {
	// Ran says when the device began and ended the pass, on its clock. It is called after End or Wait.
	Ran() (begin, end time.Duration)
}

// watchKey is where a context keeps who watches.
type watchKey struct{}

// Watch returns a context whose forward calls tell of their operations. Nothing is timed in others.
func Watch(ctx context.Context, w *Watcher) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

// IsWatched reports whether somebody is told of the forward calls of ctx.
func IsWatched(ctx context.Context) bool {
	_, ok := ctx.Value(watchKey{}).(*Watcher)
	return ok
}

// Watched returns a pass that tells who watches of each operation, where somebody does and operations run as they are
// called. The passes of a [Runner] do not: see [TellRun].
func Watched(ctx context.Context, p Pass, rows int) Pass {
	w, ok := ctx.Value(watchKey{}).(*Watcher)
	if !ok {
		return p
	}
	if _, later := p.(Flight); later || !w.wants() {
		return p
	}
	now := time.Since(w.Zero)
	return &watched{Pass: p, w: w, rows: int32(rows), layer: -1, began: now, at: now}
}

// TellRun tells who watches of a pass that has ended, where the device says how long it took.
func TellRun(ctx context.Context, p any, rows int) {
	w, ok := ctx.Value(watchKey{}).(*Watcher)
	if !ok {
		return
	}
	if t, ok := p.(Timed); ok {
		known := time.Since(w.Zero)
		begin, end := t.Ran()
		w.Tell(Op{
			Kind: OpRun, Layer: -1, Rows: int32(rows), Begin: known, End: known, DeviceBegin: begin, DeviceEnd: end,
		})
	}
}

// watched is a pass whose operations are timed. One begins when the one before ends: nothing is between them.
type watched struct {
	Pass
	w     *Watcher
	rows  int32
	layer int16 // that is at work
	began time.Duration
	at    time.Duration // the end of the last operation
	told  int           // operations
}

func (w *watched) done(k OpKind, layer int16) {
	begin := w.at
	w.at = time.Since(w.w.Zero)
	w.told++
	w.w.Tell(Op{Kind: k, Layer: layer, Rows: w.rows, Begin: begin, End: w.at})
}

// Embed implements [Pass].
func (w *watched) Embed(x Tensor, table Weight) {
	w.Pass.Embed(x, table)
	w.done(OpEmbed, -1)
}

// NormProject implements [Pass]. It is the first operation of a layer.
func (w *watched) NormProject(q, k, v, x Tensor, g Norm, wq, wk, wv Weight) {
	w.Pass.NormProject(q, k, v, x, g, wq, wk, wv)
	w.layer++
	w.done(OpNormProject, w.layer)
}

// Attend implements [Pass].
func (w *watched) Attend(a, q, k, v Tensor, layer int) {
	w.Pass.Attend(a, q, k, v, layer)
	w.done(OpAttend, int16(layer))
}

// ProjectAdd implements [Pass].
func (w *watched) ProjectAdd(x Tensor, m Weight, h Tensor) {
	w.Pass.ProjectAdd(x, m, h)
	w.done(OpProjectAdd, w.layer)
}

// NormGateUp implements [Pass].
func (w *watched) NormGateUp(m, x Tensor, g Norm, wGate, wUp Weight) {
	w.Pass.NormGateUp(m, x, g, wGate, wUp)
	w.done(OpNormGateUp, w.layer)
}

// Head implements [Pass].
func (w *watched) Head(out []Output, x Tensor, g Norm, m Weight, want Want) {
	w.Pass.Head(out, x, g, m, want)
	w.done(OpHead, -1)
}

// End implements [Pass].
func (w *watched) End(ctx context.Context) error {
	w.w.pay(w.told, w.began, w.at)
	return w.Pass.End(ctx)
}
