// Package routing measures what it is worth to ask a large model for single tokens: it asks questions in several modes,
// end to end, or decodes a recording of such answers again in virtual time.
package routing
