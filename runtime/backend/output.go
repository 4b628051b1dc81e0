package backend

import "github.com/pilotfish-ai/pilotfish/netproto/terms"

// Candidate is a token and its logit.
type Candidate struct {
	ID    int32
	Logit float32
}

// Output is the output of the head for one row. The slices belong to the caller and are reused if they are large
// enough.
type Output struct {
	Top        []Candidate // the K best, best first; of equal logits the lower id first
	LogSumExp  float32     // ln Σ exp(logit): a token's log-probability is its logit less this
	Entropy    float32     // of the next token, in nats
	Logits     []float32   // [vocabulary], if asked for; else empty
	Hidden     []float32   // [D] after the final norm, if asked for; else empty
	Confidence float32     // of Want.Router, in [0, 1]
	Next       int32       // of a [Flight]: the token that one begun after it takes, as [Runner].BeginAfter says
}

// LogProbs returns the k best tokens with their log-probabilities: log pᵢ = logitᵢ - ln Σ exp(logit). They are fewer
// where the head found fewer.
func (o *Output) LogProbs(k int) []terms.Candidate {
	k = min(k, len(o.Top))
	if k <= 0 {
		return nil
	}
	all := make([]terms.Candidate, k)
	for i, c := range o.Top[:k] {
		all[i] = terms.Candidate{ID: c.ID, LogProb: c.Logit - o.LogSumExp}
	}
	return all
}

// FromLogProbs returns a head with these log-probabilities, best first, for code that chooses from a head. Logits are
// defined up to a constant; these are chosen so that [Output.LogSumExp] is 0.
func FromLogProbs(top []terms.Candidate) Output {
	o := Output{Top: make([]Candidate, len(top))}
	for i, c := range top {
		o.Top[i] = Candidate{ID: c.ID, Logit: c.LogProb}
	}
	return o
}
