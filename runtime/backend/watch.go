package backend

import (
	"context"
	"time"
)

// Watcher receives the operations of forward calls, one after the other, on goroutines that evaluate: see [Watch].
type Watcher struct {
	Zero time.Time // of the times in an [Op]
	Tell func(Op)
	// Share is the largest share of the time that reporting may take, from 0 to 1: after a pass that took more, passes
	// are skipped until the share is kept. In small models an operation is so short that reading the clock counts. 0
	// reports every pass.
	Share float64

	skip  int           // passes to skip next
	began time.Duration // the last reported pass
	every int           // passes from the reported one before it to that one; 0: there was none
}

// opCost is the cost of reporting an operation: reading the clock and storing the time. In a virtual machine it was
// measured as 55 ns.
const opCost = 70 * time.Nanosecond

func (w *Watcher) shouldReport() bool {
	if w.skip > 0 {
		w.skip--
		return false
	}
	return true
}

// skipPasses sets how many passes to skip, so that reporting ops operations takes no more than its share of the time.
// It assumes that passes go on at the recent rate: one takes the mean time between the last two reported passes; for
// the first one, its own time is used.
func (w *Watcher) skipPasses(ops int, began, end time.Duration) {
	if w.Share == 0 {
		return
	}
	took := end - began
	if w.every > 0 {
		took = max(took, (began-w.began)/time.Duration(w.every))
	}
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
	// Of a Run: when the device began and ended, on its own clock. Begin and End are when the host learned of it.
	DeviceBegin, DeviceEnd time.Duration
}

// OpKind says what was done.
type OpKind uint8

// The kinds: a method of [Pass], or a whole pass on a device that has a clock of its own.
const (
	OpEmbed OpKind = iota
	OpNormProject
	OpAttend
	OpDelta
	OpProjectAdd
	OpNormGateUp
	OpHead
	OpRun
)

// String is the name of a kind.
func (k OpKind) String() string {
	return [...]string{"embed", "norm+project", "attend", "delta", "project+add", "norm+gate+up", "head", "run"}[k]
}

// Timed is a pass of a device that has a clock of its own.
type Timed interface {
	// Ran says when the device began and ended the pass, on its clock. It is called after End or Wait.
	Ran() (begin, end time.Duration)
}

// Deferred is a pass whose operations may run later than they are called, but at End.
type Deferred interface {
	// Then calls f when the operations so far have run, on the goroutine that has run the last of them.
	Then(f func())
}

// watchKey is the key of the watcher in a context.
type watchKey struct{}

// Watch returns a context for forward calls that report their operations to w. Calls without it time nothing.
func Watch(ctx context.Context, w *Watcher) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

// IsWatched reports whether ctx has a watcher.
func IsWatched(ctx context.Context) bool {
	_, ok := ctx.Value(watchKey{}).(*Watcher)
	return ok
}

// Watched returns a pass that reports each operation to the watcher of ctx. It returns p itself if there is no watcher,
// or if the pass is a [Flight]: those of a [Runner] report through [TellRun].
func Watched(ctx context.Context, p Pass, rows int) Pass {
	w, ok := ctx.Value(watchKey{}).(*Watcher)
	if !ok {
		return p
	}
	if _, later := p.(Flight); later || !w.shouldReport() {
		return p
	}
	now := time.Since(w.Zero)
	return &watchedPass{Pass: p, w: w, rows: int32(rows), layer: -1, began: now, at: now}
}

// TellRun reports a pass that has ended to the watcher of ctx, if the device measures how long it took.
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

// watchedPass is a pass that times its operations. An operation begins when the one before it ends: there is no gap.
type watchedPass struct {
	Pass
	w     *Watcher
	rows  int32
	layer int16 // that is at work
	began time.Duration
	at    time.Duration // the end of the last operation
	ops   int           // number of operations so far
}

func (w *watchedPass) reportOp(k OpKind, layer int16) {
	if d, ok := w.Pass.(Deferred); ok {
		d.Then(func() { w.reportRun(k, layer) })
	} else {
		w.reportRun(k, layer)
	}
}

// reportRun reports an operation that has just run.
func (w *watchedPass) reportRun(k OpKind, layer int16) {
	begin := w.at
	w.at = time.Since(w.w.Zero)
	w.ops++
	w.w.Tell(Op{Kind: k, Layer: layer, Rows: w.rows, Begin: begin, End: w.at})
}

func (w *watchedPass) Embed(x Tensor, table Weight) {
	w.Pass.Embed(x, table)
	w.reportOp(OpEmbed, -1)
}

// NormProject implements [Pass]. It is the first operation of a layer.
func (w *watchedPass) NormProject(q, k, v, x Tensor, g Norm, wq, wk, wv Weight) {
	w.Pass.NormProject(q, k, v, x, g, wq, wk, wv)
	w.layer++
	w.reportOp(OpNormProject, w.layer)
}

func (w *watchedPass) Attend(a, q, k, v Tensor, gq, gk Norm, layer int) {
	w.Pass.Attend(a, q, k, v, gq, gk, layer)
	w.reportOp(OpAttend, w.layer)
}

// Delta implements [Pass]. It is the first operation of a layer.
func (w *watchedPass) Delta(a, x Tensor, g Norm, d Delta, layer int) {
	w.Pass.Delta(a, x, g, d, layer)
	w.layer++
	w.reportOp(OpDelta, w.layer)
}

func (w *watchedPass) ProjectAdd(x Tensor, m Weight, h Tensor) {
	w.Pass.ProjectAdd(x, m, h)
	w.reportOp(OpProjectAdd, w.layer)
}

func (w *watchedPass) NormGateUp(m, x Tensor, g Norm, wGate, wUp Weight) {
	w.Pass.NormGateUp(m, x, g, wGate, wUp)
	w.reportOp(OpNormGateUp, w.layer)
}

func (w *watchedPass) Head(out []Output, x Tensor, g Norm, m Weight, want Want) {
	w.Pass.Head(out, x, g, m, want)
	w.reportOp(OpHead, -1)
}

func (w *watchedPass) End(ctx context.Context) error {
	err := w.Pass.End(ctx)
	w.w.skipPasses(w.ops, w.began, w.at)
	return err
}
