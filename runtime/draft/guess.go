package draft

import (
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

// repeats guesses from the text what follows in it, and learns how often that holds.
type repeats struct{ lookup.Text }

// newRepeats returns nothing where nothing is to be guessed.
func newRepeats(o Options, prompt []int32) *repeats {
	if o.Lookup < 0 {
		return nil
	}
	r := new(repeats)
	r.Append(prompt...)
	return r
}

// shown takes a token into the text. One that the cloud was to be asked for would not have held as a guess, whatever it
// is: guesses end before it.
func (r *repeats) shown(n *node) { r.Grow(n.token, n.origin == Edge) }

// guess returns chains of guesses behind leaves, one for each, of which most are empty: as many as are worth their time
// beside the leaves. They are no part of the draft tree yet, but know their parents.
func (r *run) guess(leaves []*node) [][]*node {
	most := r.spare(len(leaves))
	if most <= 0 {
		return nil
	}
	places, likely := make([]lookup.Chain, len(leaves)), make([][]int32, len(leaves))
	some := false
	for i, n := range leaves {
		places[i].Weight = r.chance(n)
		length, next := r.Find(r.tail(n), min(most, r.reach(n)))
		likely[i] = r.cut(next)
		places[i].Accept = r.Rate().Chances(length, len(likely[i]))
		some = some || len(likely[i]) > 0
	}
	if !some {
		return nil
	}
	chains := make([][]*node, len(leaves))
	for i, n := range lookup.Share(places, most, r.cost) {
		at := leaves[i]
		for _, token := range likely[i][:n] {
			r.last++
			at = &node{id: r.last, token: token, pos: at.pos + 1, parent: at}
			chains[i] = append(chains[i], at)
		}
	}
	return chains
}

// spare is how many guesses there may be beside a number of leaves.
func (r *run) spare(leaves int) int {
	if r.repeats == nil {
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

// tail is the part of the path to n that is not shown yet.
func (r *run) tail(n *node) []int32 {
	var tail []int32
	for _, m := range path(r.tip, n) {
		tail = append(tail, m.token)
	}
	return tail
}

// reach is how many tokens behind n can be evaluated: something may follow each, and all lie in the window of the
// oldest open escalation, if there is one.
func (r *run) reach(n *node) int {
	most, _ := r.limit()
	end := r.prompt + most - 2 // the last position but one
	return min(end, r.horizon(n)) - n.pos
}

// cut returns the tokens before the first that ends the text.
func (r *run) cut(tokens []int32) []int32 {
	for i, t := range tokens {
		if r.End(t) {
			return tokens[:i]
		}
	}
	return tokens
}

// walk decides what follows a leaf, and goes on along the guesses behind it for as long as each is the token that
// follows: that one is then in the draft tree as if it had been evaluated by itself. It ends before a token that the
// cloud is to be asked for. heads follow the leaf and each guess; the number of guesses that were accepted is returned.
func (r *run) walk(n *node, chain []*node, heads []backend.Output, p *pass) (accepted int) {
	for {
		r.evaluated(n, p)
		r.decide(n, &heads[accepted])
		if accepted == len(chain) {
			return accepted
		}
		next := r.follows(n, chain[accepted])
		if next == nil {
			return accepted
		}
		next.id = chain[accepted].id
		n = next
		accepted++
	}
}

// follows returns the token that stands after n if it is what was guessed.
func (r *run) follows(n, guess *node) *node {
	if n.esc != nil {
		return nil
	}
	next := n.children[0]
	if next.token != guess.token {
		return nil
	}
	return next
}

// evaluated notes that the model holds n since the forward call p.
func (r *run) evaluated(n *node, p *pass) {
	n.evaluated, n.pass = true, p
	p.live++
	for a := n; a != r.tip; a = a.parent {
		if a.parent.open() {
			a.parent.esc.Drafted++
		}
	}
}
