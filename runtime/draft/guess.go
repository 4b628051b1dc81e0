package draft

import (
	"cmp"
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

// chainGuesser guesses the tokens that are evaluated in one forward call with the leaves of the draft tree: what the
// large model is known to choose, what followed the same tokens in the text before, and what a drafter drafts. A chain
// hangs on the tree, which does not have it: it never changes a token, and costs rows that are worth their time by the
// measured times of forward calls.
type chainGuesser struct {
	*rules
	sched   *scheduler
	tree    *draftTree
	cost    *lookup.Cost
	repeats *promptLookup // nil: nothing is guessed from the text
	drafter *drafter      // nil: there is none
}

func newChainGuesser(o *rules, s *scheduler, t *draftTree) *chainGuesser {
	return &chainGuesser{
		rules: o, sched: s, tree: t, cost: cmp.Or(o.Cost, new(lookup.Cost)),
		repeats: newPromptLookup(o.Options, t.text), drafter: newDrafter(o.Options, s.currentTime()),
	}
}

// learnShown counts the next token of the text.
func (g *chainGuesser) learnShown(n *node) {
	if g.repeats != nil {
		g.repeats.appendShown(n)
	}
}

// guessChains returns a chain of guesses after each leaf, which may be empty: as many as are worth their time in the
// call of the leaves. They have parents, but are not in the draft tree.
func (g *chainGuesser) guessChains(ctx context.Context, leaves []*node) [][]*node {
	if chains := g.knownChains(leaves); chains != nil {
		return chains
	}
	most := g.spareRows(len(leaves))
	if most <= 0 {
		return nil
	}
	chains, rate := g.lookupChains(leaves, most)
	if g.drafter != nil && len(leaves) == 1 {
		if chain := g.draftChain(ctx, leaves[0], min(most, g.tree.maxDraftLength(leaves[0])), rate); chain != nil {
			return [][]*node{chain}
		}
	}
	return chains
}

// lookupChains returns guesses from the text after each leaf, and the tokens per second of the call with them; 0
// without guesses.
func (g *chainGuesser) lookupChains(leaves []*node, most int) (chains [][]*node, rate float64) {
	if g.repeats == nil {
		return nil, 0
	}
	places, likely := make([]lookup.Chain, len(leaves)), make([][]int32, len(leaves))
	some := false
	for i, n := range leaves {
		places[i].Weight = g.tree.pathProbability(n)
		length, next := g.repeats.Find(g.tree.unshownTokens(n), min(most, g.tree.maxDraftLength(n)))
		likely[i] = g.cutAtEnd(next)
		places[i].Accept = g.repeats.Rate().Chances(length, len(likely[i]))
		some = some || len(likely[i]) > 0
	}
	if !some {
		return nil, 0
	}
	chains = make([][]*node, len(leaves))
	rows, tokens := len(leaves), 0.0
	for i, n := range lookup.Share(places, most, g.cost) {
		at := leaves[i]
		for j, token := range likely[i][:n] {
			at = g.tree.newRow(at, token)
			chains[i] = append(chains[i], at)
			tokens += places[i].Weight * places[i].Accept[j]
		}
		rows, tokens = rows+n, tokens+places[i].Weight
	}
	if rows > len(leaves) {
		rate = tokens / g.cost.One() / g.cost.Curve(rows)[rows-1]
	}
	return chains, rate
}

// knownChains returns for each leaf a chain of the tokens that the large model is known to choose after it; nil if
// there are none. Each that is accepted saves a call.
func (g *chainGuesser) knownChains(leaves []*node) [][]*node {
	var chains [][]*node
	most := min(g.Rows, lookup.MostRows, g.tree.model.Room()) - len(leaves)
	if g.Lookup > 0 {
		most = min(most, g.Lookup-len(leaves))
	}
	for i, n := range leaves {
		at := n
		for _, token := range g.knownTokens(n, min(most, g.tree.maxDraftLength(n))) {
			if chains == nil {
				chains = make([][]*node, len(leaves))
			}
			at = g.tree.newRow(at, token)
			chains[i] = append(chains[i], at)
			most--
		}
	}
	return chains
}

func (g *chainGuesser) spareRows(leaves int) int {
	if g.repeats == nil && g.drafter == nil {
		return 0
	}
	rows := min(g.Rows, lookup.MostRows)
	if g.Lookup > 0 {
		rows = min(rows, g.Lookup)
	}
	rows = min(rows, g.cost.Reach(leaves))
	if rows > leaves {
		rows = min(rows, g.tree.model.Room())
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
		next := matchGuess(n, chain[accepted])
		if next == nil {
			return accepted
		}
		next.id = chain[accepted].id
		n = next
		accepted++
	}
}

func matchGuess(n, guess *node) *node {
	if n.hasOpenEscalation() {
		return nil
	}
	next := n.children[0]
	if next.token != guess.token {
		return nil
	}
	return next
}
