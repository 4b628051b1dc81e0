package dialect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Top sorts candidates, best first, equal ones by ascending id, and keeps k of them. It returns nil for an invalid
// list: with a repeated id, as some versions of engines return the chosen one k times, or with an invalid
// log-probability.
func Top(all []terms.Candidate, k int) []terms.Candidate {
	slices.SortFunc(all, func(a, b terms.Candidate) int {
		return cmp.Or(cmp.Compare(b.LogProb, a.LogProb), cmp.Compare(a.ID, b.ID))
	})
	seen := make(map[int32]bool, len(all))
	for _, c := range all {
		if seen[c.ID] || !(c.LogProb <= 1e-3) { // rounding in float32 gives values a little above 0
			return nil
		}
		seen[c.ID] = true
	}
	return all[:min(k, len(all))]
}

// newRow makes a row from the candidates of a position and the log-probability of the token in the text. ok is false if
// they are invalid.
func newRow(all []terms.Candidate, k int, stands float32) (r Row, ok bool) {
	r = Row{Top: Top(all, k), Stands: stands}
	if len(r.Top) == 0 || math.IsInf(float64(r.Top[0].LogProb), -1) || !(stands <= r.Top[0].LogProb) {
		return Row{}, false
	}
	return r, true
}

// parseLogProb parses a log-probability; engines write null for an impossible token.
func parseLogProb(p *float64) float32 {
	if p == nil {
		return float32(math.Inf(-1))
	}
	return float32(*p)
}

// parseTokenID parses "token_id:42".
func parseTokenID(s string) (int32, error) {
	number, ok := strings.CutPrefix(s, "token_id:")
	id, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || id < 0 {
		return 0, fmt.Errorf("%w: a token has no id", ErrReply)
	}
	return int32(id), nil
}

func singleToken(ids []int32) (int32, error) {
	if len(ids) != 1 {
		return 0, fmt.Errorf("%w: %d tokens came, one was asked for", ErrReply, len(ids))
	}
	return ids[0], nil
}
