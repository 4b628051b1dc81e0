package lookup

// gain is by how much tokens per time have to rise for guesses to be evaluated: less than that is within what is wrong
// with the estimates, and the least that a text without repeats must not lose.
const gain = 1.1

// Chain is a row that is evaluated anyway, and the guesses that can be evaluated behind it.
type Chain struct {
	Weight float64 // probability that the text comes through the row
	// for each guess, the probability that it and all before it are accepted; falling, see [Rate.Chances]
	Accept []float64
}

// Share says how many guesses of each chain to evaluate, at most most of them together, so that one forward call brings
// the most tokens for its time.
//
// A call of n rows without a guess brings one token for each that the text comes through: W = Σᵢ wᵢ. Guess j behind row
// i brings one more if the text comes through the row and the guesses up to it are accepted: with the probability
// wᵢ·Acceptᵢ[j]. So k guesses bring
//
//	E(k) = W + the sum of the k greatest wᵢ·Acceptᵢ[j]    tokens for the time cost(n+k)
//
// where the greatest can be taken one after the other: Accept falls along a chain, so that no guess comes before what
// it follows. The k with the greatest E(k)/cost(n+k) is taken, and none if that is not well above E(0)/cost(n).
func Share(chains []Chain, most int, c *Cost) []int {
	share := make([]int, len(chains))
	curve := c.Curve(len(chains) + max(0, most))
	var order []int // of the guesses, their chains
	tokens := 0.0
	for _, chain := range chains {
		tokens += chain.Weight
	}
	best, at := 0.0, 0
	if len(chains) > 0 {
		best = gain * tokens / curve[len(chains)-1]
	}
	for len(order) < most {
		next, worth := -1, 0.0
		for i, chain := range chains {
			if n := share[i]; n < len(chain.Accept) && chain.Weight*chain.Accept[n] > worth {
				next, worth = i, chain.Weight*chain.Accept[n]
			}
		}
		if next < 0 {
			break
		}
		share[next]++
		order = append(order, next)
		tokens += worth
		if rate := tokens / curve[len(chains)+len(order)-1]; rate > best {
			best, at = rate, len(order)
		}
	}
	for _, i := range order[at:] {
		share[i]--
	}
	return share
}
