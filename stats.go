package pilotfish

import (
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Stats describes one answer.
type Stats = engine.Summary

// Routing is the figures of an answer.
type Routing = draft.Summary

// Receipt says how much of a text has left this device for an answer: tokens, bytes, and the address.
type Receipt = engine.Receipt

// Values of [Stats].Stop.
const (
	StopEnd     = "end"     // an end token
	StopString  = "stop"    // one of [Settings].Stop
	StopLength  = "length"  // as many tokens as [Settings].MaxTokens
	StopContext = "context" // the context is full
)
