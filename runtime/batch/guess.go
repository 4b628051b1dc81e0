package batch

import (
	"cmp"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

// What follows in a text often occurs in it already. If a session asks for one token after the other, the service looks
// up what followed at an earlier occurrence and computes it together with the question's own row, in the same call: a
// chain of guesses in the tree of the session, each with the head. The next questions find all they need in memory as
// long as their tokens are those of the chain.
//
// A guess is a token of the tree like others, but it is not retained, and it is not part of the text until a question
// includes it. Until then its slot counts as free: it is evicted before anything else, and it displaces nothing. If
// another session asks about a text with the guess, it is a token like others.

// guessRows returns the maximum number of rows in a step with guesses, from Options.Lookup. If it is less than 2 there
// are no guesses.
func guessRows(asked, rows int) (int, error) {
	const most = lookup.MostRows
	if asked == 1 || asked > most {
		return 0, fmt.Errorf("batch: lookup with %d rows: 2 to %d are possible, 0 for as many, negative for none",
			asked, most)
	}
	return min(cmp.Or(asked, most), rows), nil
}

// guessPoint is a node after which guesses can be added.
type guessPoint struct {
	a      *ask
	after  *node // a.at, or the last of the guesses that are already in memory
	likely []int32
}

func (s *Service) planGuesses(st *step) {
	if !s.guessesEnabled() {
		return
	}
	for _, a := range st.asks {
		if !a.Waits() && !a.isBackground() && !a.part {
			s.updateStream(st, a)
		}
	}
	most := s.maxGuesses(st)
	if most <= 0 {
		return
	}
	chains, places := s.guessPoints(st, most)
	if len(places) == 0 {
		return
	}
	share := lookup.Share(chains, most, &s.cost)
	for _, p := range places {
		if n := share[p.a.at.row]; n > 0 {
			s.addGuesses(st, p, n)
		}
	}
}

func (s *Service) guessesEnabled() bool { return s.o.Lookup > 1 }

func (s *Service) isStepBusy(st *step) bool {
	return len(st.rows) >= s.o.Lookup || s.front.Len() > 0
}

// maxGuesses returns how many guesses a step can have in addition to its own rows: the model is never called for
// guesses alone. They need free slots. If the head is costly they are not worth it.
func (s *Service) maxGuesses(st *step) int {
	if s.isStepBusy(st) {
		return 0
	}
	for _, r := range st.rows {
		if r.logits || r.k > s.o.Rows {
			return 0
		}
	}
	n := len(st.rows)
	return min(s.o.Lookup-n, s.cost.Reach(n)-n, s.trees.free.n)
}

// guessPoints returns, for each row of the step, its weight and the probabilities that the guesses after it are
// accepted, and the nodes after which these guesses can be added.
func (s *Service) guessPoints(st *step, most int) (chains []lookup.Chain, places []guessPoint) {
	chains = make([]lookup.Chain, len(st.rows))
	for _, a := range st.asks {
		if a.Waits() || a.at.step != st.number {
			continue
		}
		c := &chains[a.at.row]
		c.Weight = 1
		x := a.tree.stream
		if a.isBackground() || x == nil || x.hash != a.at.hash || c.Accept != nil {
			continue
		}
		length, next := x.text.Find(nil, min(most, s.o.Context-len(a.Context)))
		after, skip := a.at.followTokens(next, a.headNeeds().K)
		if skip < len(next) && after.cell.below.lookupChild(next[skip]) == nil {
			c.Accept = x.text.Rate().Chances(length, len(next))[skip:]
			places = append(places, guessPoint{a, after, next[skip:]})
		}
	}
	return chains, places
}

// followTokens follows tokens from n as far as they are in memory, with k candidates for what follows each. It returns
// the last node and the number of tokens found.
func (n *node) followTokens(tokens []int32, k int) (at *node, found int) {
	for at = n; found < len(tokens); found++ {
		next := at.below.lookupChild(tokens[found])
		if next == nil || next.k < k {
			break
		}
		at = next
	}
	return at, found
}

// addGuesses adds the first n guesses of a place to the step. It stops at a token that another session has added
// meanwhile. The device of the question pays for the guesses.
func (s *Service) addGuesses(st *step, p guessPoint, n int) {
	at, k, x := p.after, p.a.headNeeds().K, p.a.tree.stream
	before := len(st.rows)
	for _, token := range p.likely[:n] {
		if at.cell.below.lookupChild(token) != nil {
			break
		}
		at = s.trees.addToken(at, token)
		at.guess = true
		s.trees.guessed++
		x.guesses = append(x.guesses, at)
		st.rows = append(st.rows, stepRow{node: at, slot: at.slot, k: k})
	}
	s.trees.updateEvictable(at)
	s.trees.rankOwner(at.tree.owner)
	s.front.Charge(p.a.Client, p.a.Device, uint64(len(st.rows)-before)*(rowPrice+headPrice(k, false)), p.a.Weight)
}

func (s *Service) acceptGuess(n *node) {
	n.guess = false
	s.trees.guessed--
	s.stats.Accepted++
	if s.trees.past.removeEvicted(n.hash) {
		s.stats.Recomputed++
	}
}
