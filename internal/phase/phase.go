// Package phase says in CPU profiles what work was for: samples have the label "phase", which `go tool pprof -tags`
// shows. A goroutine has the label between [Enter] and what that returns; workers that do the work of others set it by
// [Of].
//
// Setting a label stores a pointer, whether or not a profile is taken.
package phase

import (
	"context"
	"runtime/pprof"
)

// Label is the name of the label.
const Label = "phase"

// Phase is what work is for.
type Phase string

// The phases.
const (
	Prompt  Phase = "prompt"  // the small model reads a prompt
	Draft   Phase = "draft"   // the small model decodes, and it is decided what to ask
	Settle  Phase = "settle"  // tokens move into the settled text
	Ask     Phase = "ask"     // a question to the cloud, until its answer is read
	Gateway Phase = "gateway" // the gateway serves questions
	Compute Phase = "compute" // the large model computes answers
)

// key finds the mark of a context.
type key struct{}

// With returns a context whose work is of a phase. Other labels that ctx has stay.
func With(ctx context.Context, p Phase) context.Context {
	labelled := pprof.WithLabels(ctx, pprof.Labels(Label, string(p)))
	set := func() { pprof.SetGoroutineLabels(labelled) }
	return context.WithValue(labelled, key{}, &set)
}

// Enter gives the calling goroutine the labels of ctx, as [With] returned it. leave gives it those of before, which are
// those of outer.
func Enter(ctx, outer context.Context) (leave func()) {
	pprof.SetGoroutineLabels(ctx)
	return func() { pprof.SetGoroutineLabels(outer) }
}

// Of returns what gives a goroutine the labels of a context, the same pointer for all contexts below one of [With]; nil
// where it has no phase.
func Of(ctx context.Context) *func() {
	set, _ := ctx.Value(key{}).(*func())
	return set
}

// None takes all labels from the calling goroutine.
func None() { pprof.SetGoroutineLabels(context.Background()) }
