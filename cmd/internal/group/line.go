package group

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// UnlikeText says that a certificate does not apply, and what holds instead: verification, or where the gateway cannot
// verify a threshold that follows the budget.
const UnlikeText = "the last answers are unlike those that the router was certified on, so its budget holds in place " +
	"of its threshold"

// AnswerLine returns the line below an answer: how much of it is the large model's, and what else a reader must know;
// "" if there is nothing. A gateway could be asked if route has one. why is the reason for missing answers, or for a
// missing connection, and context the maximum length of a text, in tokens.
func AnswerLine(s pilotfish.Stats, route pilotfish.Route, why error, context int) string {
	var parts []string
	if route.Cloud != nil {
		parts = append(parts, largeModelText(s, why))
	}
	if s.Unlike {
		parts = append(parts, UnlikeText)
	}
	switch {
	case s.Shortened:
		parts = append(parts, fmt.Sprintf("the value of --json-schema had to end with the last of %d tokens (-n, -c): "+
			"something may be missing", s.Tokens))
	case s.Stop == "length":
		parts = append(parts, fmt.Sprintf("cut off after %s (-n)", english.Plural(s.Tokens, "token", "")))
	case s.Stop == "context":
		parts = append(parts, fmt.Sprintf("cut off: the context of %d tokens is full (-c)", context))
	}
	return strings.Join(parts, "; ")
}

// largeModelText returns the part of the line about the large model. It counts the tokens of the text, without an end
// token.
func largeModelText(s pilotfish.Stats, why error) string {
	text := fmt.Sprintf("%d of %d tokens from the large model", s.CloudTokens, s.Tokens)
	missing, what := max(s.Timeouts, min(1, s.Routing.Timeouts)), "%d asked for in vain: %s"
	if s.Verified {
		missing, what = min(s.Unverified, s.Tokens), "%d not verified: %s"
	}
	switch {
	case s.Asks == 0 && missing == 0 && why != nil:
		return text + ": " + Reason(why)
	case s.Asks == 0 && missing == 0:
		return text + ", which was not asked"
	case s.Verified && missing == 0 && s.CloudTokens < s.Tokens:
		text += ", which verified the others"
	}
	text += fmt.Sprintf(", %.0f ms waited", cli.Ms(s.Exposed))
	if missing > 0 {
		text += "; " + fmt.Sprintf(what, missing, Reason(why))
	}
	return text
}

// Reason returns why an answer is missing, as a part of a line.
func Reason(why error) string {
	if why == nil || engine.TooLate(why) {
		return "no answer in time (--deadline)"
	}
	return cli.Harmless(strings.ReplaceAll(why.Error(), "\n", "; "))
}
