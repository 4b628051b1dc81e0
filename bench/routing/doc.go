// Package routing measures the benefit of asking a large model for single tokens: it answers questions in several
// modes, end to end, or replays a recording of such answers in virtual time.
package routing
