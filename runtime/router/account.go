package router

import "math"

const (
	// lentReplacements is how many tokens may be replaced before answers have brought the budget for them, and at most
	// what lentTokens tokens bring. Half of what answers bring pays it back.
	lentReplacements, lentTokens, repayment = 6, 1000, 0.5
	// savings is the most that answers leave to later ones, so that long thrift leads to no spree.
	savings = 100
	// preferred is the margin of the policy verify where little is left, in nats: the large model's token is 20 times
	// as probable as the one that it replaces. Less than that changes the wording more often than the meaning. With
	// halvedAt tokens left it is half of that: long answers differ less often, and use the whole budget so.
	preferred, halvedAt = 3, 6
	// judgedAt is the number of tokens left at which a judge lets tokens stand from a probability of a half on.
	judgedAt = 2
)

// account is what a budget β has left for an answer that the large model verifies: each token brings β, each replaced
// token takes 1. It does not change. Let T be the tokens of all answers before this one; n and m the tokens of this one
// and those of them that were replaced. It starts with u = 0, and an answer leaves
//
//	u = min(100, u + β·n - m)
//
// Within an answer there is
//
//	d = min(100, u + β·n - m) + max(0, 6 - β·(T+n)/2)    tokens left, with what is lent
//
// and a token may be replaced where d ≥ 1. So 6 tokens are lent at the beginning (1,000·β below 0.6%), and from β·T =
// 12 on all answers together keep the budget, whatever the large model would replace. (Answers at the same time all
// start from the state before them; if they exceed the budget together, later ones pay it back.) A bound of each window
// of answers, as routers keep it, would leave what matters: by simulation with a judge's confidences and a
// threshold of d/(d+4), of the tokens that matter 69% are replaced within 5% in GSM8K and 88% in MBPP, with an account
// of all 82% and 99%.
type account struct{ budget, unspent, earlier float64 }

func newAccount(s balanceState) *account { return &account{s.Budget, s.Unspent, float64(s.Tokens)} }

// replacementsLeft returns d after a path of this answer.
func (a *account) replacementsLeft(c pathCount) float64 {
	if a.budget >= 1 {
		return math.Inf(1)
	}
	n := float64(c.tokens)
	loan := max(0, min(lentReplacements, lentTokens*a.budget)-repayment*a.budget*(a.earlier+n))
	return min(savings, a.unspent+a.budget*n-float64(c.escalations)) + loan
}

// afterAnswer returns what is unspent after an answer.
func (s *balanceState) afterAnswer(a spending) float64 {
	return max(-maxTokens, min(savings, s.Unspent+s.Budget*float64(a.Tokens)-float64(a.Escalations)))
}

// Margin returns the margin of verification with the policies verify and judge: by how much the large model must prefer
// another token to the small model's after a path, in nats of the score, for it to take the place. Tokens that were
// replaced are the escalations of the path and of the budget. Where less than one is left, the margin is infinite. With
// a threshold it is always the same. Within a budget of which d tokens are left it is
//
//	3/(1+d²/36)         of the policy verify: 3 with 0, 1.5 with 6, 0.25 with 20
//	-log(d²/(d²+4))     of a judge, which lets a token stand from that probability on: 0.5 with 2, 0.96 with 10
//
// So the budget is used for what matters most, whatever part of the tokens that is: it is a task's length of answers
// and number of differences that decide which probability spends 5% of the tokens.
func (r *Router) Margin(path uint64) float64 {
	if r.verified == nil {
		return -math.Log(r.fixed)
	}
	left := r.verified.replacementsLeft(unpackPath(path))
	switch {
	case left < 1:
		return math.Inf(1)
	case r.Judge() != "":
		return math.Log1p(judgedAt / left * judgedAt / left)
	}
	return preferred / (1 + left/halvedAt*left/halvedAt)
}

// Count returns the path with one more token of the policy verify, which the large model replaced or not.
func (r *Router) Count(path uint64, replaced bool) uint64 {
	return unpackPath(path).addDecision(replaced).packPath()
}
