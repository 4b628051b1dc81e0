package gateway

import (
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// verified checks an answer to an ask for verification: all the positions were audited, and each finding is valid. A
// position that was not audited must not count as verified.
func verified(q terms.Job, a terms.Reply, positions int, known func(int32) bool) error {
	if a.Audited != positions {
		return fmt.Errorf("it audited %d of the %d positions to be verified", a.Audited, positions)
	}
	seen := make(map[int]bool, len(a.Audit))
	for _, f := range a.Audit {
		switch {
		case f.Pos < len(q.Context)-positions || f.Pos >= len(q.Context) || seen[f.Pos]:
			return fmt.Errorf("its finding at position %d is outside the verified positions or a duplicate", f.Pos)
		case !known(f.Token) || f.Token == q.Context[f.Pos]:
			return fmt.Errorf("its choice at position %d is the same token or outside the vocabulary", f.Pos)
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
