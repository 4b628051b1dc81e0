package router

import "math"

// gain is how far one escalation lowers the threshold of a budget. With 0.1 the count is at most 11 escalations off the
// target, after any number of tokens: see [Router.threshold].
const gain = 0.1

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

// threshold is the confidence below which to escalate after a path of n decisions, m of them escalations.
//
// With a budget b it is θ = θ₀ + gain·(b·n - m): each token raises it by gain·b, each escalation lowers it by gain, so
// it settles where a share b lies below it, whatever the confidences are, and may follow them when they change. Above 1
// everything is escalated and at 0 nothing, so θ stays between -gain and 1 + gain, and m within 1/gain + 1 of b·n.
// (This is stochastic approximation of a quantile, Robbins and Monro 1951, with a constant step.)
func (r *Router) threshold(c count) float64 {
	if r.o.Budget == 0 {
		return r.start
	}
	return r.start + gain*(r.o.Budget*float64(c.tokens)-float64(c.escalations))
}
