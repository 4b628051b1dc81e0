package lookup

// gain is the factor by which the tokens per time must rise for guesses to be evaluated. A smaller gain is within the
// error of the estimates, and a text without repeats must not become slower.
const gain = 1.1

// Chain is a row that is evaluated anyway, and the guesses that can be evaluated after it.
type Chain struct {
	Weight float64 // probability that the text includes the row's token
	// for each guess, the probability that it and all guesses before it are accepted; never rising, see [Rate.Chances]
	Accept []float64
}

// Share returns how many guesses of each chain to evaluate, at most most of them together, so that one forward call
// yields the most tokens per time.
//
// A call of n rows without a guess yields one token for each row in the text: W = Σᵢ wᵢ. Guess j after row i yields one
// more if the text includes the row and all guesses up to it are accepted, which has the probability wᵢ·Acceptᵢ[j]. So
// k guesses yield
//
//	E(k) = W + the sum of the k greatest wᵢ·Acceptᵢ[j]    tokens for the time cost(n+k)
//
// Taking the greatest one after the other is correct because Accept falls along a chain: no guess is taken before those
// that it follows. Share takes the k with the greatest E(k)/cost(n+k), and 0 if that is not well above E(0)/cost(n).
func Share(chains []Chain, most int, c *Cost) []int {
	share := make([]int, len(chains))
	curve := c.Curve(len(chains) + max(0, most))
	var order []int // the chain of each guess
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
