package draft

import (
	"math"
	"slices"
)

// price has what the number of guesses at an answer depends on. Times are in forward calls of one row.
type price struct {
	curve []float64 // what calls of 1, 2, … rows cost, the first 1, none less than the one before; never empty
	wait  float64   // until the answer
	depth float64   // max tokens that can be drafted after a guess: the window, or to the end of the text
	room  float64   // nodes that fit into the model's memory
	asks  float64   // questions that can be open beside this one
	share float64   // of tokens that are escalations, above 0
}

// bestBranchCount returns the number of guesses at an answer to draft on from with which drafting gains the most time,
// at least one. guesses are the probabilities that the text comes through each, in order, and 0 for one that nothing
// follows, which takes no row. others are those of the other leaves. With several open escalations each is a product
// along its path.
//
// What r branches gain. Until the answer comes after w calls of one row, calls of r rows, each for c(r), make all of
// them longer by a token. The call that runs when the answer comes is finished: half of it is left on average. So each
// branch becomes
//
//	n = min(w/c(r) + ½, d, m/r, (1+a/r)/f - (c(r)-1)/f)     tokens long.
//
// d end the window or the text, and m fill the memory. Where a share f of the tokens is asked for, each branch comes
// to its next question after 1/f tokens, and the a questions that may be open let all together go on for a/f more; but
// the answer to the next question comes later by what the calls before it take longer, (c(r)-1)/f. The rest of the
// call that runs when the answer comes is waited for, s = max(0, n·c(r) - w).
//
// The text comes through one of the branches with the probability P = Σ pᵢ. It is then n tokens further, each of which
// would have taken a call of one row; else it is where it was. In both cases it is later by s, and so
//
//	E = P·n - s     calls of one row are gained.
//
// The number with the greatest E is taken, and of equals the greatest: a guess without a row costs nothing, and may get
// one when other questions are answered. If only the wait bounds n, and is long, E is P·w/c(r), and another branch of
// the probability p is worth it if (P+p)/c(r+1) > P/c(r), or
//
//	p > P·(c(r+1) - c(r))/c(r)     the cost of a row ÷ the cost of a step, and less the less likely the others are.
//
// If drafting ends before the answer comes, n is d and the row costs nothing. If the memory or the questions end it, E
// is P·m/r or nearly P·a/(r·f): a branch is worth it if it is likelier than the average of those before, which few are.
func (p price) bestBranchCount(others, guesses []float64) int {
	best, gain := 1, math.Inf(-1)
	rows := slices.Clone(others)
	for k, g := range guesses {
		if g > 0 {
			rows = append(rows, g)
		}
		if e := p.expectedGain(rows); e >= gain {
			best, gain = k+1, e
		}
	}
	return best
}

// expectedGain is E of rows with these probabilities. A call has at most the rows of the curve; the likeliest go first.
func (p price) expectedGain(rows []float64) float64 {
	rows = slices.Clone(rows)
	slices.Sort(rows)
	rows = rows[max(0, len(rows)-len(p.curve)):]
	if len(rows) == 0 {
		return 0
	}
	sum := 0.0
	for _, chance := range rows {
		sum += chance
	}
	c := p.curve[len(rows)-1]
	r := float64(len(rows))
	n := min(p.wait/c+0.5, p.depth, p.room/r, max(0, 2+p.asks/r-c)/p.share)
	return sum*n - max(0, n*c-p.wait)
}

func (r *decodeRun) branchCount(e *escalation) int {
	one, wait := r.guesser.cost.One(), r.lately.median
	if r.Branches != AutoBranches || len(e.guesses) == 0 || one == 0 || wait == 0 {
		// or nothing was measured yet: as if everything fits
		return len(e.guesses)
	}
	var others, guesses []float64
	for _, l := range r.tree.draftLeaves() {
		others = append(others, l.chance)
	}
	last, chance := r.limit-1, r.tree.pathProbability(e.at)
	for _, g := range e.guesses {
		if r.End(g.token) {
			g.p = 0
		}
		guesses = append(guesses, chance*g.p)
	}
	asks := float64(max(0, r.InFlight-len(r.questions.asked)))
	if r.checksEnabled() {
		asks = math.Inf(1) // one check asks for all on a path
	}
	p := price{
		curve: r.guesser.cost.Curve(r.Rows), wait: wait.Seconds() / one,
		// when the answer comes, the questions before are answered, and the window begins here
		depth: float64(max(0, min(r.Window, last-1-e.at.pos))), room: float64(r.model.Room()),
		asks: asks, share: r.lately.escalationShare(),
	}
	return p.bestBranchCount(others, guesses)
}
