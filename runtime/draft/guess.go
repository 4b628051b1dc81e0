package draft

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

// promptLookup guesses the next tokens of a text from earlier places in it, and counts how often the guesses are
// accepted.
type promptLookup struct{ lookup.Text }

// newPromptLookup returns nil without guesses.
func newPromptLookup(o Options, prompt []int32) *promptLookup {
	if o.Lookup < 0 {
		return nil
	}
	r := new(promptLookup)
	r.Append(prompt...)
	return r
}

// A guess never includes a token that the cloud is asked for.
func (r *promptLookup) appendShown(n *node) { r.Grow(n.token, n.origin == Edge) }

// guessChains returns a chain of guesses after each leaf, which may be empty: as many as are worth their time in the
// call of the leaves. They have parents, but are not in the draft tree.
func (r *decodeRun) guessChains(ctx context.Context, leaves []*node) [][]*node {
	if chains := r.knownChains(leaves); chains != nil {
		return chains
	}
	most := r.spareRows(len(leaves))
	if most <= 0 {
		return nil
	}
	chains, rate := r.lookupChains(leaves, most)
	if r.drafter != nil && len(leaves) == 1 {
		if chain := r.draftChain(ctx, leaves[0], min(most, r.tree.maxDraftLength(leaves[0])), rate); chain != nil {
			return [][]*node{chain}
		}
	}
	return chains
}

// lookupChains returns guesses from the text after each leaf, and the tokens per second of the call with them; 0
// without guesses.
func (r *decodeRun) lookupChains(leaves []*node, most int) (chains [][]*node, rate float64) {
	if r.promptLookup == nil {
		return nil, 0
	}
	places, likely := make([]lookup.Chain, len(leaves)), make([][]int32, len(leaves))
	some := false
	for i, n := range leaves {
		places[i].Weight = r.tree.pathProbability(n)
		length, next := r.Find(r.tree.unshownTokens(n), min(most, r.tree.maxDraftLength(n)))
		likely[i] = r.cutAtEnd(next)
		places[i].Accept = r.Rate().Chances(length, len(likely[i]))
		some = some || len(likely[i]) > 0
	}
	if !some {
		return nil, 0
	}
	chains = make([][]*node, len(leaves))
	rows, tokens := len(leaves), 0.0
	for i, n := range lookup.Share(places, most, r.cost) {
		at := leaves[i]
		for j, token := range likely[i][:n] {
			at = r.tree.newRow(at, token)
			chains[i] = append(chains[i], at)
			tokens += places[i].Weight * places[i].Accept[j]
		}
		rows, tokens = rows+n, tokens+places[i].Weight
	}
	if rows > len(leaves) {
		rate = tokens / r.cost.One() / r.cost.Curve(rows)[rows-1]
	}
	return chains, rate
}

// knownChains returns for each leaf a chain of the tokens that the large model is known to choose after it; nil if
// there are none. Each that is accepted saves a call.
func (r *decodeRun) knownChains(leaves []*node) [][]*node {
	var chains [][]*node
	most := min(r.Rows, lookup.MostRows, r.model.Room()) - len(leaves)
	if r.Lookup > 0 {
		most = min(most, r.Lookup-len(leaves))
	}
	for i, n := range leaves {
		for at, tokens := n, r.knownTokens(n, min(most, r.tree.maxDraftLength(n))); len(tokens) > 0; tokens = tokens[1:] {
			if chains == nil {
				chains = make([][]*node, len(leaves))
			}
			at = r.tree.newRow(at, tokens[0])
			chains[i] = append(chains[i], at)
			most--
		}
	}
	return chains
}

func (r *decodeRun) spareRows(leaves int) int {
	if r.promptLookup == nil && r.drafter == nil {
		return 0
	}
	rows := min(r.Rows, lookup.MostRows)
	if r.Lookup > 0 {
		rows = min(rows, r.Lookup)
	}
	rows = min(rows, r.cost.Reach(leaves))
	if rows > leaves {
		rows = min(rows, r.model.Room())
	}
	return rows - leaves
}

func (o *rules) cutAtEnd(tokens []int32) []int32 {
	for i, t := range tokens {
		if o.End(t) {
			return tokens[:i]
		}
	}
	return tokens
}

// acceptChain decides what follows a leaf. As long as the next token is the next guess, it accepts the guess and
// decides what follows it; an accepted guess is in the draft tree as if it had been evaluated separately. It ends
// before an escalation. heads are of the leaf and of each guess. It returns the number of accepted guesses.
func (r *decodeRun) acceptChain(n *node, chain []*node, heads []backend.Output, p *pass) (accepted int) {
	for {
		r.tree.markEvaluated(n, p)
		r.decideNextToken(n, &heads[accepted])
		if accepted == len(chain) {
			return accepted
		}
		next := r.matchGuess(n, chain[accepted])
		if next == nil {
			return accepted
		}
		next.id = chain[accepted].id
		n = next
		accepted++
	}
}

func (r *decodeRun) matchGuess(n, guess *node) *node {
	if n.hasOpenEscalation() {
		return nil
	}
	next := n.children[0]
	if next.token != guess.token {
		return nil
	}
	return next
}
