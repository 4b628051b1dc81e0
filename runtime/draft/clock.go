package draft

import "time"

// Clock is the time of a simulation, in which one goroutine runs at a time, so that the same inputs give the same
// events. The goroutine of [Decoder.Decode] and those that Go starts take turns: one runs until it calls Wait or ends.
// [Model] and [Cloud] wait by the same clock only.
type Clock interface {
	// Now returns the time. It does not change until the caller waits.
	Now() time.Time
	// Go runs f once the caller waits.
	Go(f func())
	// Wait runs other goroutines and advances the time until done returns true or the time is t; the zero time is
	// never. It returns the last result of done, which is called while no goroutine runs, and after each that has run.
	Wait(t time.Time, done func() bool) bool
}
