package routing

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Fixed choices for [replaying.hindsight]: tokens without a question, and guesses at an answer.
var (
	fixedEvery    = []int{2, 4, 8, 16, 32, 64}
	fixedBranches = []int{1, 2, 4, 8}
)

// hindsight sets in the reports of modes with verification, if decoding chooses for itself when to ask, how its mean
// time compares with that of the best fixed choice, which is known only after a replay with each. Fixed choices have as
// many tokens ahead.
func (r *replaying) hindsight(ctx context.Context, reports []outcome.Report) error {
	if r.Draft.VerifyEvery != 0 || r.Draft.Ahead != 0 {
		return nil
	}
	for i, m := range r.Modes {
		if m.Kind != outcome.Verified {
			continue
		}
		best, err := r.bestFixed(ctx, m)
		if err != nil {
			return err
		}
		best.Over = reports[i].Time.Mean / best.Over
		reports[i].Hindsight = &best
	}
	return nil
}

// bestFixed returns the fixed choice with the least mean time, and that time in milliseconds as Over.
func (r *replaying) bestFixed(ctx context.Context, m outcome.Mode) (best outcome.Hindsight, err error) {
	branches := []int{r.Draft.Branches}
	if branches[0] == draft.AutoBranches {
		branches = fixedBranches
	}
	for _, every := range fixedEvery {
		for _, n := range branches {
			o := r.ReplayOptions
			o.Modes = []outcome.Mode{m}
			o.Draft.VerifyEvery, o.Draft.Branches, o.Draft.Ahead = every, n, draft.MostAhead
			reports, err := Replay(ctx, o)
			if err != nil {
				return best, err
			}
			if t := reports[0].Time.Mean; best.VerifyEvery == 0 || t < best.Over {
				best = outcome.Hindsight{Over: t, VerifyEvery: every, Branches: n}
			}
		}
	}
	return best, nil
}
