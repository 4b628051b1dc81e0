package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// The number of best tokens requested from the head and from the cloud if not every token may follow. A greedy choice
// that may not follow rarely leaves more than a few better tokens.
const (
	headBest  = 16 // before all of the vocabulary
	cloudBest = 32
)

// SchemaError says what in a JSON schema is wrong or not supported, and where.
type SchemaError = grammar.Error

// validateRoute returns an error if this model does not support the route.
func (e *Engine) validateRoute(r Route) error {
	hasRules := r.Settings.Rules()
	switch {
	case r.Local && (r.Cloud != nil || r.Far != nil):
		return errors.New("nothing of a local answer may leave this device: leave out Local, or the cloud")
	case hasRules && r.Pick != nil:
		return errors.New("penalties, bias and min-p have no effect where a sampler of the caller's own chooses: " +
			"leave one out")
	case r.Drafter != nil && r.Pick != nil:
		return errors.New("drafts have no effect where a sampler of the caller's own chooses: leave one out")
	case hasRules && r.Draft.Verify:
		return errors.New("verification compares with what the large model chooses without penalties, bias and " +
			"min-p: leave them out, or the verification")
	}
	if !(r.Pace >= 0) || math.IsInf(r.Pace, 1) {
		return fmt.Errorf("the pace must be a number of calls per second, but is %v", r.Pace)
	}
	if !(r.RowCost >= 0) || math.IsInf(r.RowCost, 1) || r.RowCost > 0 && r.Pace == 0 {
		return fmt.Errorf(
			"the cost of a row must be a share of the time that a pace says, but is %v of %v", r.RowCost, r.Pace)
	}
	vocab := e.model.Config().Vocab
	for _, id := range slices.Sorted(maps.Keys(r.LogitBias)) {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("there is no token %d to add a bias to: ids of this model are 0 to %d", id, vocab-1)
		}
	}
	return r.Settings.Validate()
}

// Check reports an invalid route before anything is generated: values out of range, options that exclude each other,
// and schemas that are wrong or not supported. It returns the paths of the schema's keywords that have no effect.
// Compiling the schema ends with the cause of ctx when ctx ends.
func (e *Engine) Check(ctx context.Context, r Route) (ignored []string, err error) {
	if e.isClosed() {
		return nil, e.withFileName(ctx, ErrClosed)
	}
	if err := e.validateRoute(r); err != nil {
		return nil, err
	}
	if _, err := sample.New(r.Sampling()); err != nil || !r.JSON && r.Schema == nil {
		return nil, err
	}
	m, _, err := e.grammars.matcherFor(ctx, e, r.Settings)
	if err != nil {
		return nil, err
	}
	return slices.Clone(m.Ignored()), nil // the matcher is kept for others
}

// chooser is the state that the places of one answer share. One goroutine at a time uses it.
type chooser struct {
	sampler *sample.Sampler
	route   Route
	rules   bool             // penalties, bias or min-p are set
	matcher *grammar.Matcher // nil: anything may follow
	end     int32            // ends the text
	// max tokens of the answer, with the end token; 0: the value need not be whole, or the shortest one is longer
	room   int
	prompt []int32
	mask   grammar.Mask
	tail   []int32
	counts map[int32]int
}

// answerPosition is a place of an answer: the one after token, which follows the tokens of up.
type answerPosition struct {
	*chooser
	up    *answerPosition
	token int32
	n     int            // tokens of the answer
	text  *grammar.State // nil without a matcher
	// closing are the tokens that must follow, as there is room for just these and an end token. nil: there is more.
	closing []int32
}

// configureSampling sets in o how tokens are chosen after a prompt, and returns what that requires of heads.
func (s *Session) configureSampling(
	ctx context.Context, o *draft.Options, sampler *sample.Sampler, prompt []int32, r Route,
) (backend.Want, error) {
	want := sampler.Want(backend.Want{K: 1, Draw: backend.Draw{Sampling: r.Sampling(), MinP: r.MinP}})
	o.Pick, o.Top = sampler.Pick, r.Top
	if r.LogProbs {
		o.Top = max(o.Top, 1) // 0 means no log-probabilities
	}
	c := &chooser{
		sampler: sampler, route: r, rules: r.Settings.Rules(), counts: map[int32]int{},
		prompt: prompt,
	}
	o.K = max(o.K, o.Top)
	if r.JSON || r.Schema != nil {
		var err error
		if c.matcher, c.end, err = s.e.grammars.matcherFor(ctx, s.e, r.Settings); err != nil {
			return want, err
		}
		s.summary.Ignored = slices.Clone(c.matcher.Ignored())
		want.K, want.Logits = max(want.K, headBest), true
	}
	if c.rules {
		want.Logits = want.Logits || r.Adjusts()
	}
	if c.rules || o.Top > 0 {
		o.Ahead = 1 // tokens ahead come without the best tokens
	}
	if c.matcher == nil && !c.rules && r.Pick == nil {
		return want, nil
	}
	first := &answerPosition{chooser: c}
	if c.matcher != nil {
		first.text = c.matcher.Start()
		if room := min(o.MaxTokens, o.Room); r.Complete && c.matcher.Fits(first.text, room) {
			c.room, s.tight = room, !c.matcher.Fits(first.text, room-1)
			first.findClosing()
		}
	}
	if o.Place = first; c.rules || c.matcher != nil {
		o.K = max(o.K, cloudBest)
	}
	return want, nil
}

func (p *answerPosition) Pick(pos int, head *backend.Output) int32 {
	switch {
	case len(p.closing) > 0:
		return p.closing[0]
	case p.closing != nil:
		return p.end
	}
	if p.route.Pick != nil {
		if id := p.route.Pick(pos, p.answerTokens(), head); p.Allows(id) {
			return id
		}
	}
	greedy := p.route.Pick != nil || p.route.Sampling().Greedy()
	if greedy && !p.rules {
		for _, c := range head.Top {
			if p.Allows(c.ID) {
				return c.ID
			}
		}
	}
	if p.matcher == nil {
		return p.sampler.PickBy(pos, head, &p.route.Settings, p.samplePlace(nil))
	}
	return p.pickMasked(pos, head)
}

func (p *answerPosition) pickMasked(pos int, head *backend.Output) int32 {
	const tries = 64
	p.mask = p.matcher.Mask(p.mask, p.text)
	for range tries {
		id := p.sampler.PickBy(pos, head, &p.route.Settings, p.samplePlace(p.mask))
		switch {
		case id < 0:
			return p.end
		case p.Allows(id):
			return id
		}
		p.mask.Remove(id) // there is no room for the tokens that must follow it
	}
	return p.shortestCompletion()
}

// shortestCompletion returns the token that leads to the end in the fewest bytes.
func (p *answerPosition) shortestCompletion() int32 {
	if rest := p.matcher.Shortest(p.text); len(rest) > 0 {
		return rest[0]
	}
	return p.end
}

// Take implements [draft.Place]. With rules, and if the answer's token may not follow, it chooses among the best tokens
// as among the small model's.
func (p *answerPosition) Take(pos int, token int32, top []terms.Candidate) (int32, bool) {
	allowed := p.Allows(token)
	if allowed && !p.rules {
		return token, true
	}
	var can []terms.Candidate
	for _, c := range top {
		if p.Allows(c.ID) {
			can = append(can, c)
		}
	}
	if len(can) == 0 {
		return token, allowed
	}
	head := backend.FromLogProbs(can)
	return p.sampler.PickBy(pos, &head, &p.route.Settings, p.samplePlace(nil)), true
}

func (p *answerPosition) Allows(token int32) bool {
	switch {
	case p.matcher == nil:
		return true
	case len(p.closing) > 0:
		return token == p.closing[0]
	case p.closing != nil, p.matcher.Ends(token):
		return p.matcher.Ends(token) && p.text.Done()
	}
	next := p.matcher.Next(p.text, token)
	return next != nil && (p.room == 0 || p.matcher.Fits(next, p.room-p.n-2))
}

// findClosing finds the tokens that close the text, if nothing else fits. [answerPosition.Allows] does not count them
// as too long.
func (p *answerPosition) findClosing() {
	left := p.room - p.n - 1 // without the end token
	if p.room == 0 || p.matcher.Fits(p.text, left-1) {
		return
	}
	p.closing = append([]int32{}, p.matcher.Shortest(p.text)...)
}

func (p *answerPosition) Behind(token int32) draft.Place {
	next := &answerPosition{chooser: p.chooser, up: p, token: token, n: p.n + 1}
	if p.matcher == nil {
		return next
	}
	if next.text = p.matcher.Next(p.text, token); next.text == nil {
		next.text = new(grammar.State) // no such token is chosen
		return next
	}
	if len(p.closing) > 0 && token == p.closing[0] {
		next.closing = p.closing[1:]
	} else {
		next.findClosing()
	}
	return next
}

func (p *answerPosition) answerTokens() []int32 {
	all := make([]int32, p.n)
	for ; p.n > 0; p = p.up {
		all[p.n-1] = p.token
	}
	return all
}

func (p *answerPosition) samplePlace(mask grammar.Mask) sample.Place {
	at := sample.Place{Mask: mask}
	if !p.route.Adjusts() {
		return at
	}
	clear(p.counts)
	p.tail = p.tail[:0]
	for q := p; q.n > 0; q = q.up {
		p.counts[q.token]++
		if len(p.tail) < sample.RepeatWindow {
			p.tail = append(p.tail, q.token)
		}
	}
	left := sample.RepeatWindow - len(p.tail)
	p.tail = append(p.tail, p.prompt[max(0, len(p.prompt)-left):]...)
	at.Recent, at.Counts = p.tail, p.counts
	return at
}

// stopper holds back tokens that may be the beginning of a stop string.
type stopper struct {
	stops   []string
	pending []Token
	text    string // of pending
	found   string // the one that is there
}

// pushToken adds a token and returns the tokens that can be shown. stop reports whether a stop string ends the text.
func (s *stopper) pushToken(t Token) (shown []Token, stop bool) {
	if len(s.stops) == 0 {
		return []Token{t}, false
	}
	s.pending, s.text = append(s.pending, t), s.text+t.Text
	at, end := -1, 0 // of the one that ends first, however the text is cut into tokens
	for _, stop := range s.stops {
		if i := strings.Index(s.text, stop); i >= 0 &&
			(at < 0 || i+len(stop) < end || i+len(stop) == end && i < at) {
			at, end, s.found = i, i+len(stop), stop
		}
	}
	if at >= 0 {
		return s.takeUpTo(at, true), true
	}
	return s.takeUpTo(len(s.text)-s.partialStopLength(), false), false
}

func (s *stopper) partialStopLength() (most int) {
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.text)); n > most; n-- {
			if strings.HasSuffix(s.text, stop[:n]) {
				most = n
			}
		}
	}
	return most
}

// takeUpTo returns the tokens before a position of the text. If last is set, it includes the part of a token before the
// position.
func (s *stopper) takeUpTo(end int, last bool) []Token {
	begin, n := 0, 0
	for n < len(s.pending) && begin+len(s.pending[n].Text) <= end {
		begin += len(s.pending[n].Text)
		n++
	}
	shown := slices.Clone(s.pending[:n])
	if last && begin < end {
		t := s.pending[n]
		t.Text = t.Text[:end-begin]
		shown = append(shown, t)
	}
	s.pending, s.text = slices.Clone(s.pending[n:]), s.text[begin:]
	return shown
}
