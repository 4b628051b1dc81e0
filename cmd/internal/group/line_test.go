package group

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestAnswerLine: the line below an answer counts the tokens of the text, says what was waited for and what is missing,
// and nothing that does not apply.
func TestAnswerLine(t *testing.T) {
	type stats = pilotfish.Stats
	routed := pilotfish.Route{Cloud: new(pilotfish.Gateway)}
	some := draft.Summary{Asks: 4, Exposed: 12 * time.Millisecond, Lost: 2 * time.Millisecond}
	gone, late := errors.New("it is\ng\x1bone"), fmt.Errorf("ask: %w", netproto.Refusal{Code: netproto.TooLate})
	for _, c := range []struct {
		name  string
		s     stats
		route pilotfish.Route
		why   error
		want  string
	}{
		{name: "end", s: stats{Tokens: 9, Stop: "end"}},
		{name: "stop", s: stats{Tokens: 9, Stop: "stop"}},
		{name: "cut off", s: stats{Tokens: 9, Stop: "length"}, want: "cut off after 9 tokens (-n)"},
		{name: "full context", s: stats{Tokens: 9, Stop: "context"},
			want: "cut off: the context of 512 tokens is full (-c)"},
		{name: "a shortened value", s: stats{Tokens: 9, Stop: "length", Shortened: true},
			want: "the value of --json-schema had to end with the last of 9 tokens (-n, -c): something may be missing"},
		{"not asked", stats{Tokens: 9}, routed, nil, "0 of 9 tokens from the large model, which was not asked"},
		{"unlike models", stats{Tokens: 9, CloudTokens: 1, Verified: true, Unlike: true, Routing: some}, routed, nil,
			"1 of 9 tokens from the large model, which verified the others, 12 ms waited; " + UnlikeText},
		{"gone at once", stats{Tokens: 9}, routed, gone, "0 of 9 tokens from the large model: it is; g␛one"},
		{"some from the cloud", stats{Tokens: 52, CloudTokens: 3, Routing: some}, routed, nil,
			"3 of 52 tokens from the large model, 12 ms waited"},
		{"gone later", stats{Tokens: 52, CloudTokens: 3, Timeouts: 2, Routing: some}, routed, gone,
			"3 of 52 tokens from the large model, 12 ms waited; 2 asked for in vain: it is; g␛one"},
		{"all late", stats{Tokens: 9, Timeouts: 9, Routing: draft.Summary{Timeouts: 10}}, routed, draft.ErrDeadline,
			"0 of 9 tokens from the large model, 0 ms waited; 9 asked for in vain: no answer in time (--deadline)"},
		{"late for the end", stats{Tokens: 9, Routing: draft.Summary{Timeouts: 1}}, routed, late,
			"0 of 9 tokens from the large model, 0 ms waited; 1 asked for in vain: no answer in time (--deadline)"},
		{"cut off and verified", stats{Tokens: 9, CloudTokens: 1, Stop: "length", Verified: true, Routing: some},
			routed, nil,
			"1 of 9 tokens from the large model, which verified the others, 12 ms waited; cut off after 9 tokens (-n)"},
		{"not verified", stats{Tokens: 9, Timeouts: 1, Verified: true,
			Routing: draft.Summary{Unverified: 10, Timeouts: 1}}, routed, nil,
			"0 of 9 tokens from the large model, 0 ms waited; 9 not verified: no answer in time (--deadline)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, AnswerLine(c.s, c.route, c.why, 512))
		})
	}
}
