package gateway

import (
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// verified holds an answer against an ask for verification: each of so many positions was looked at, and what is found
// there makes sense. A position that was not looked at must not count as one where all is well.
func verified(q Question, a netproto.Answer, positions int, known func(int32) bool) error {
	if a.Audited != positions || a.Sampled != 0 {
		return fmt.Errorf("it looked at %d of the %d positions to be verified", a.Audited, positions)
	}
	seen := make(map[int]bool, len(a.Audit))
	for _, f := range a.Audit {
		switch {
		case f.Position < len(q.Context)-positions || f.Position >= len(q.Context) || seen[f.Position]:
			return fmt.Errorf("it found something at position %d, which was not to be verified, or is twice", f.Position)
		case !known(f.Token) || f.Token == q.Context[f.Position]:
			return fmt.Errorf("its choice at position %d is no other token of the vocabulary", f.Position)
		case q.Verify == netproto.VerifyScores && !(f.Stands <= f.Score && !math.IsInf(float64(f.Score), 0)):
			return fmt.Errorf("its choice at position %d has the score %v, the token there %v", f.Position, f.Score, f.Stands)
		}
		seen[f.Position] = true
	}
	if q.Verify == netproto.VerifyScores && len(a.Audit) > 0 && !a.Scored() {
		return errors.New("it gives no scores")
	}
	return nil
}
