package draft

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// drafting computes which tokens can be drafted at each moment of a text.
type drafting struct {
	*decoded
	steps     map[uint64]step // by text
	questions map[uint64]*question
	refusals  map[uint64]time.Time // when the breaker refused a question about a text
	tokens    map[uint64][]int32   // tokens of a text, without the prompt
}

// step holds the outputs of the small model and the router after a text.
type step struct {
	local    int32
	guesses  []guess
	escalate bool
	path     uint64
}

// drafts checks that each forward call extends the most likely leaves of the draft tree, as many as allowed; that the
// decoder waits only if there are no leaves; and that, when questions exceed the limit, the one most likely to matter
// is sent first.
func (d *decoded) drafts() error {
	w := &drafting{d, map[uint64]step{}, map[uint64]*question{}, map[uint64]time.Time{}, map[uint64][]int32{}}
	for _, q := range d.replay.questions {
		if !q.probe {
			w.questions[q.text] = q
		}
		if d.mentions[q.answer.BytesUp] == nil && d.Branches == AutoBranches {
			return nil // emit ended, so that the number of guesses is unknown
		}
	}
	tip, shown, path, calls := hashOf(d.prompt), 0, uint64(0), d.model.account.forwards
	pos := func(shown int) int { return len(d.prompt) + shown }
	for _, m := range d.replay.moments[:len(d.replay.moments)-1] {
		for shown < len(d.tokens) && !d.shown(d.tokens[shown]).After(m.at) {
			path = w.step(tip, path, pos(shown)).path
			tip = then(tip, d.tokens[shown].Token.ID)
			shown++
		}
		var got []uint64
		if len(calls) > 0 && calls[0].from.Equal(m.at) {
			if err := w.lookedUp(calls[0], shown); err != nil {
				return fmt.Errorf("at %v: %w", m.at.Sub(d.began), err)
			}
			got, calls = calls[0].texts[:len(calls[0].texts)-calls[0].guesses], calls[1:]
		}
		if err := w.moment(m, tip, path, pos(shown), got); err != nil {
			return fmt.Errorf("at %v: %w", m.at.Sub(d.began), err)
		}
	}
	return nil
}

// lookedUp checks that the guesses of a forward call are the tokens after the last matching place of the text.
func (w *drafting) lookedUp(f forward, shown int) error {
	first := len(f.nodes) - f.guesses
	leaf := make([]int, len(f.nodes))
	for i, n := range f.nodes {
		parent := f.above[i][len(f.above[i])-1]
		w.tokens[f.texts[i]] = append(slices.Clone(w.tokens[parent]), n.Token)
		if leaf[i] = i; i < first {
			continue
		}
		leaf[i] = leaf[slices.Index(f.texts, parent)]
		depth, text := n.Pos-f.nodes[leaf[i]].Pos, slices.Concat(w.prompt, w.tokens[f.texts[leaf[i]]])
		want := naive(text, len(w.prompt)+shown, depth)
		if len(want) == 0 || want[depth-1] != n.Token {
			return fmt.Errorf("%d is guessed after %v, of which %d are shown, want the last of %v",
				n.Token, text, shown, want)
		}
		if w.Lookup < 0 || len(f.nodes) > min(w.Rows, 8, cmp.Or(w.Lookup, 8)) {
			return fmt.Errorf("%d rows, %d of them guesses, with %d rows for them", len(f.nodes), f.guesses, w.Lookup)
		}
	}
	return nil
}

// naive returns n guesses after text: the tokens after the place in the first shown tokens with the longest match to
// its end, of min 2 and max 32 tokens; the last one of equal length.
func naive(text []int32, shown, n int) (next []int32) {
	best, length, end := -1, 1, len(text)-1
	for p := shown - 1; p > 0; p-- {
		same := 0
		for same < 32 && same <= p && text[p-same] == text[end-same] {
			same++
		}
		if p < end && same > length {
			best, length = p, same
		}
	}
	if best < 0 {
		return nil
	}
	text = slices.Clone(text)
	for i := range n {
		text = append(text, text[best+1+i])
	}
	return text[end+1:]
}

func (w *drafting) step(text, path uint64, pos int) step {
	s, ok := w.steps[text]
	if !ok {
		head := w.world.head(text)
		s.local = w.world.pick(pos, &head)
		_, s.escalate, s.path = w.world.Decide(path, pos, &head)
		s.guesses = branches(&head, s.local, pos, w.Sampling)
		w.steps[text] = s
	}
	return s
}

// seedling is a token that can be evaluated.
type seedling struct {
	text   uint64
	pos    int
	chance float64
}

// moment compares the forward call at m, which evaluates the texts got, with the tokens that can be drafted.
func (w *drafting) moment(m moment, tip, path uint64, pos int, got []uint64) error {
	if alone := []uint64{tip}; !w.evaluated(tip, m.at) && !slices.Equal(got, alone) {
		return fmt.Errorf("%v is extended, want the last shown token", got)
	} else if slices.Equal(got, alone) || w.Mode == Serial && len(got) == 0 {
		return nil
	}
	var leaves []seedling
	sent, held := math.Inf(1), 0.0
	var grow func(text, path uint64, pos int, chance float64)
	grow = func(text, path uint64, at int, chance float64) {
		s := w.step(text, path, at)
		child := func(token int32, chance float64) {
			text := then(text, token)
			if w.evaluated(text, m.at) {
				grow(text, s.path, at+1, chance)
			} else if !w.world.end(token) && at+1 < len(w.prompt)+w.MaxTokens && at <= pos-1+w.Window {
				leaves = append(leaves, seedling{text, at, chance})
			}
		}
		q := w.questions[text]
		switch {
		case !s.escalate || w.refusedBy(text, m.at):
			child(s.local, chance)
		case q == nil || q.sent.After(m.at):
			held = max(held, chance)
		case !q.closed.After(m.at):
			child(q.token, chance)
		default:
			for _, g := range s.guesses[:min(w.replay.branches(q.asking), len(s.guesses))] {
				child(g.token, chance*g.p)
			}
		}
		if q != nil && q.sent.Equal(m.at) {
			sent = min(sent, chance)
		}
	}
	grow(tip, path, pos, 1)
	if held > sent*(1+1e-9) {
		return fmt.Errorf("a question with importance %v is sent while one with %v waits", sent, held)
	}
	return w.best(leaves, m, got)
}

// best compares the texts that are extended with the most likely leaves.
func (w *drafting) best(leaves []seedling, m moment, got []uint64) error {
	slices.SortStableFunc(leaves, func(a, b seedling) int {
		return cmp.Or(cmp.Compare(b.chance, a.chance), cmp.Compare(a.pos, b.pos))
	})
	n := min(len(leaves), w.Rows, max(0, w.model.account.rooms[m.at.UnixNano()]))
	if len(got) != n {
		return fmt.Errorf("%d tokens are drafted of %d, with %d rows and room for %d; want %d",
			len(got), len(leaves), w.Rows, w.model.account.rooms[m.at.UnixNano()], n)
	}
	for i, l := range leaves[:n] {
		if got[i] != l.text && (i+1 == len(leaves) || l.chance > leaves[i+1].chance*(1+1e-9)) {
			return fmt.Errorf("row %d is not the token at %d, which has the probability %v", i, l.pos, l.chance)
		}
	}
	return nil
}

func (w *drafting) evaluated(text uint64, at time.Time) bool {
	known, ok := w.replay.known[text]
	return ok && !known.After(at)
}

// refusedBy reports whether the breaker refused a question about a text by a time.
func (w *drafting) refusedBy(text uint64, at time.Time) bool {
	if w.questions[text] != nil {
		return false
	}
	first, ok := w.refusals[text]
	if !ok {
		first = w.replay.over.Add(1)
		if m, err := w.refused(text); err == nil {
			first = m.at
		}
		w.refusals[text] = first
	}
	return !first.After(at)
}
