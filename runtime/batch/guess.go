package batch

import (
	"cmp"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

// What follows in a text is often in it already. Where a session asks for one token after the other, what followed
// there before is computed beside the question's own row, in the same call: a chain of guesses in the tree of the
// session, each with the head. A question that comes along the chain finds all it needs in memory.
//
// A guess is a token of the tree like others, but nobody holds it, and it is nobody's text until a question comes along
// it. Until then it is there as if its slot were free: it goes before anything else does, and displaces nothing.
// For another session, whose question comes along it, it is a token like others.

// guessRows is the value of Options.Lookup as the service uses it: how many rows a step with guesses has at most; less
// than 2: there are none.
func guessRows(asked, rows int) (int, error) {
	const most = lookup.MostRows
	if asked == 1 || asked > most {
		return 0, fmt.Errorf("batch: lookup with %d rows: 2 to %d are possible, 0 for as many, negative for none",
			asked, most)
	}
	return min(cmp.Or(asked, most), rows), nil
}

// place is where guesses can be added.
type place struct {
	a      *ask
	behind *node // a.at, or what is in memory of the guesses already
	likely []int32
}

// guess adds guesses to a step that is made up, behind the questions of streams that are complete with it: as many as
// are worth their time.
func (s *Service) guess(st *step) {
	if !s.guesses() {
		return
	}
	for _, a := range st.asks {
		if !a.Waits() && !a.background() && !a.part {
			s.follow(st, a)
		}
	}
	most := s.spare(st)
	if most <= 0 {
		return
	}
	chains, places := s.places(st, most)
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

// guesses reports whether there are any at all.
func (s *Service) guesses() bool { return s.o.Lookup > 1 }

// busy reports whether a step has no rows for guesses: it has many of its own, or somebody waits for it to end.
func (s *Service) busy(st *step) bool {
	return len(st.rows) >= s.o.Lookup || s.front.Len() > 0
}

// spare is how many guesses a step can have, behind rows of its own: no call of the model is made for guesses alone.
// Their slots must be free. Where the head is costly they are not worth it.
func (s *Service) spare(st *step) int {
	if s.busy(st) {
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

// places returns, for each row of the step, what it brings and how likely the guesses behind it are, and where these
// can be added.
func (s *Service) places(st *step, most int) (chains []lookup.Chain, places []place) {
	chains = make([]lookup.Chain, len(st.rows))
	for _, a := range st.asks {
		if a.Waits() || a.at.step != st.number {
			continue
		}
		c := &chains[a.at.row]
		c.Weight = 1
		x := a.tree.stream
		if a.background() || x == nil || x.hash != a.at.hash || c.Accept != nil {
			continue
		}
		length, next := x.text.Find(nil, min(most, s.o.Context-len(a.Context)))
		behind, skip := a.at.along(next, a.need().K)
		if skip < len(next) && behind.cell.below.at(next[skip]) == nil {
			c.Accept = x.text.Rate().Chances(length, len(next))[skip:]
			places = append(places, place{a, behind, next[skip:]})
		}
	}
	return chains, places
}

// along goes from n along tokens that are in memory, with k candidates for what follows each.
func (n *node) along(tokens []int32, k int) (at *node, found int) {
	for at = n; found < len(tokens); found++ {
		next := at.below.at(tokens[found])
		if next == nil || next.k < k {
			break
		}
		at = next
	}
	return at, found
}

// addGuesses adds the first n guesses of a place to the step, up to one that another session has added meanwhile. Its
// device pays for them.
func (s *Service) addGuesses(st *step, p place, n int) {
	at, k, x := p.behind, p.a.need().K, p.a.tree.stream
	before := len(st.rows)
	for _, token := range p.likely[:n] {
		if at.cell.below.at(token) != nil {
			break
		}
		at = s.trees.add(at, token)
		at.guess = true
		s.trees.guessed++
		x.guesses = append(x.guesses, at)
		st.rows = append(st.rows, stepRow{node: at, slot: at.slot, k: k})
	}
	s.trees.review(at)
	s.front.Charge(p.a.Device, uint64(len(st.rows)-before)*(rowPrice+headPrice(k, false)))
}

// asked says that a question has come along a guess: it is text now.
func (s *Service) asked(n *node) {
	n.guess = false
	s.trees.guessed--
	s.stats.Accepted++
	if s.trees.past.take(n.hash) {
		s.stats.Recomputed++
	}
}
