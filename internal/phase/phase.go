// Package phase labels work in CPU profiles by its purpose: samples have the label "phase", which `go tool pprof -tags`
// shows. A goroutine has the label from [Enter] until it calls the returned function; workers that work for others set
// it with [Of].
//
// Setting a label stores a pointer, even if no profile is taken.
package phase

import (
	"context"
	"runtime/pprof"
)

// Label is the name of the label.
const Label = "phase"

// Phase is the purpose of work.
type Phase string

// The phases.
const (
	Prompt  Phase = "prompt"  // the small model prefills a prompt
	Draft   Phase = "draft"   // the small model decodes, and the router decides what to ask
	Settle  Phase = "settle"  // tokens are moved to the settled text
	Ask     Phase = "ask"     // a question to the cloud, until its answer is read
	Gateway Phase = "gateway" // the gateway serves questions
	Compute Phase = "compute" // the large model computes answers
)

// key is the key of a context's value.
type key struct{}

// With returns a context with a phase. Other labels of ctx are kept.
func With(ctx context.Context, p Phase) context.Context {
	labelled := pprof.WithLabels(ctx, pprof.Labels(Label, string(p)))
	set := func() { pprof.SetGoroutineLabels(labelled) }
	return context.WithValue(labelled, key{}, &set)
}

// Enter sets the labels of the calling goroutine to those of ctx, as [With] returned it. leave restores the labels of
// outer.
func Enter(ctx, outer context.Context) (leave func()) {
	pprof.SetGoroutineLabels(ctx)
	return func() { pprof.SetGoroutineLabels(outer) }
}

// Of returns the labels of a context in a form that a goroutine can set: the same pointer for all contexts derived from
// one of [With]; nil without a phase.
func Of(ctx context.Context) *func() {
	set, _ := ctx.Value(key{}).(*func())
	return set
}

// None removes all labels from the calling goroutine.
func None() { pprof.SetGoroutineLabels(context.Background()) }
