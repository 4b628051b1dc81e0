package gateway

import (
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// verified holds an answer against an ask for verification: each of so many positions was looked at, and what is found
// there makes sense. A position that was not looked at must not count as one where all is well.
func verified(q terms.Job, a terms.Reply, positions int, known func(int32) bool) error {
	if a.Audited != positions || a.Sampled != 0 {
		return fmt.Errorf("it looked at %d of the %d positions to be verified", a.Audited, positions)
	}
	seen := make(map[int]bool, len(a.Audit))
	for _, f := range a.Audit {
		switch {
		case f.Pos < len(q.Context)-positions || f.Pos >= len(q.Context) || seen[f.Pos]:
			return fmt.Errorf("it found something at position %d, which was not to be verified, or is twice", f.Pos)
		case !known(f.Token) || f.Token == q.Context[f.Pos]:
			return fmt.Errorf("its choice at position %d is no other token of the vocabulary", f.Pos)
		case q.Verify == terms.EachScore && !(f.Stands <= f.Score && !math.IsInf(float64(f.Score), 0)):
			return fmt.Errorf("its choice at position %d has the score %v, the token there %v",
				f.Pos, f.Score, f.Stands)
		}
		seen[f.Pos] = true
	}
	if q.Verify == terms.EachScore && len(a.Audit) > 0 && !a.Scored() {
		return errors.New("it gives no scores")
	}
	return nil
}
