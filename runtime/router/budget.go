package router

import "math"

// How far the threshold of a budget moves with one escalation more or less than the budget: it falls fast where there
// were too many, and rises slowly where there were too few, so that a budget that is not used up is kept for the tokens
// that need it.
const (
	fall = 0.5
	rise = 0.1
)

// budgetStart is the threshold of a budget at the start of a text, where nothing was escalated yet. It is high, since
// the budget will pull it down in time: with [fall] no more than 3 escalations are ever ahead of the budget.
func budgetStart(p Policy, budget float64) float64 {
	if p == Random {
		return budget // its confidences are uniform
	}
	return 0.9
}

// count is what a path has seen: decisions, and those that were escalations.
type count struct{ tokens, escalations uint32 }

func countOf(path uint64) count { return count{uint32(path >> 32), uint32(path)} }

func (c count) path() uint64 { return uint64(c.tokens)<<32 | uint64(c.escalations) }

func (c count) add(escalated bool) count {
	if c.tokens == math.MaxUint32 {
		return c
	}
	c.tokens++
	if escalated {
		c.escalations++
	}
	return c
}

// threshold is the confidence below which to escalate the token at pos after a path of n decisions, m of them
// escalations.
//
// With a budget b and d = b·n - m it is θ = θ₀ + rise·d where d > 0, and θ₀ + fall·d where d < 0: each token raises it
// a little, each escalation lowers it, so it settles where a share b lies below it, whatever the confidences are, and
// may follow them when they change. Above 1 everything is escalated, and at 0 nothing. So, for any confidences at all,
// the path is never more than θ₀/fall + 1 escalations above b·n nor more than (1-θ₀)/rise + 1 below: 2.8 and 2 for the
// default θ₀ of 0.9. (This is stochastic approximation of a quantile, Robbins and Monro 1951, with constant steps.)
func (r *Router) threshold(c count, pos int) float64 {
	if r.o.Policy == Value {
		cost := r.o.Prices.Ask
		if r.costs != nil {
			cost = r.costs.at(pos)
		}
		return 1 - cost/r.o.Prices.Gain
	}
	if r.o.Budget == 0 {
		return r.start
	}
	d := r.o.Budget*float64(c.tokens) - float64(c.escalations)
	if d < 0 {
		return r.start + fall*d
	}
	return r.start + rise*d
}
