package replay

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/stat"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Player replaces both models, as far as a recording has their outputs. It is safe for concurrent use.
type Player struct {
	*Recording
	found  map[take][]*Answer // by mode and question
	heads  map[uint64]*Head
	places map[place][]*Head // by position
	said   map[uint64]int32  // the large model's choices, by the text before them
	calls  map[string]map[int][]*Call
	asks   map[string][]*Ask // answered ones, by mode; all of them under ""
	warms  []*Warm
	pace   time.Duration // between tokens ahead
	shared int           // length of the common beginning of the prompts of all questions; 0 for one question
	own    overheads
}

// place is a position of a question, with all heads there or only those with a confidence.
type place struct {
	question, pos int
	sure          bool
}

// anywhere represents all places; with -1 as the position it represents all positions of a question.
func anywhere() place { return place{question: -1, pos: -1} }

// take is a question in a mode.
type take struct {
	mode     string
	question int
}

// overheads are times of the program itself, medians of the recording.
type overheads struct{ lead, prefill, tail, lag, way time.Duration }

// NewPlayer prepares a recording for replays.
func NewPlayer(r *Recording) (*Player, error) {
	p := &Player{
		Recording: r, found: map[take][]*Answer{}, heads: map[uint64]*Head{}, places: map[place][]*Head{},
		said: map[uint64]int32{}, calls: map[string]map[int][]*Call{},
		asks: map[string][]*Ask{},
	}
	for _, a := range r.Answers {
		if of := (take{a.Mode, a.Question}); !a.WarmUp {
			p.found[of] = append(p.found[of], a)
		}
		p.learnHeads(a)
		p.learnTimes(a)
		for i := range a.Asks {
			p.learnAsk(a, &a.Asks[i])
		}
	}
	for _, a := range r.Answers {
		if a.largeAlone() {
			p.learnText(a)
		}
	}
	p.shared = beginning(r.Answers)
	if len(p.heads) == 0 {
		return nil, errors.New("the recording has no answers of the small model: record a mode that uses it")
	}
	p.summarise()
	return p, nil
}

// Special modes of a recording: the large model alone over HTTP and without a network, and the small model alone.
const (
	CloudMode     = "cloud"
	ReferenceMode = "reference"
	LocalMode     = "local"
)

// largeAlone reports whether an answer is of the large model without the small one.
func (a *Answer) largeAlone() bool { return a.Mode == CloudMode || a.Mode == ReferenceMode }

// LargeAlone returns the large model's own answer to a question; nil if the recording does not have it.
func (p *Player) LargeAlone(question int) *Answer {
	for _, mode := range []string{CloudMode, ReferenceMode} {
		if found := p.Found(mode, question); len(found) > 0 {
			return found[0]
		}
	}
	return nil
}

// positions returns the positions of the tokens of the nodes; for node 0 that of the prompt's last token.
func (a *Answer) positions() []int {
	pos := []int{len(a.Prompt) - 1}
	for _, parent := range a.Parents {
		pos = append(pos, pos[parent]+1)
	}
	return pos
}

func (p *Player) learnHeads(a *Answer) {
	pos := a.positions()
	for i := range a.Heads {
		h := &a.Heads[i]
		text := a.texts[h.Node]
		p.heads[text] = better(p.heads[text], h)
		for _, at := range []place{{a.Question, pos[h.Node], false}, {a.Question, -1, false}, anywhere()} {
			p.places[at] = append(p.places[at], h)
			if h.Confidence != nil {
				at.sure = true
				p.places[at] = append(p.places[at], h)
			}
		}
	}
}

// better combines two heads after one text: it returns the second if it has more candidates or a confidence.
func better(old, h *Head) *Head {
	if old == nil {
		return h
	}
	both := *old
	if len(h.IDs) > len(both.IDs) {
		both = *h
	}
	both.Confidence = cmp.Or(both.Confidence, old.Confidence, h.Confidence)
	return &both
}

func (p *Player) learnTimes(a *Answer) {
	of := p.calls[a.Mode]
	if of == nil {
		of = map[int][]*Call{}
		p.calls[a.Mode] = of
	}
	for i := range a.Calls {
		c := &a.Calls[i]
		of[len(c.Nodes)] = append(of[len(c.Nodes)], c)
	}
	for i := range a.Warms {
		if a.Warms[i].done() {
			p.warms = append(p.warms, &a.Warms[i])
		}
	}
}

// learnAsk records the large model's choices from an answer, including its audit.
func (p *Player) learnAsk(a *Answer, q *Ask) {
	if !q.answered() {
		return
	}
	p.asks[a.Mode] = append(p.asks[a.Mode], q)
	p.asks[""] = append(p.asks[""], q)
	context := a.context(q.Node)
	text := a.texts[q.Node]
	p.said[text] = q.Token
	text = then(text, q.Token)
	p.learnAudit(q, context)
	if terms.Verify(q.Verify) == terms.EachChoice && len(q.Audit) > 0 {
		// tokens ahead follow the first token that is replaced
		first := slices.MinFunc(q.Audit, func(a, b Finding) int { return a.Pos - b.Pos })
		text = then(hashOf(context[:first.Pos]), first.Token)
	}
	for _, l := range q.Ahead {
		p.said[text] = l.Token
		text = then(text, l.Token)
	}
}

// learnAudit records the large model's choices from an audit.
func (p *Player) learnAudit(q *Ask, context []int32) {
	turned := map[int]int32{}
	for _, f := range q.Audit {
		turned[f.Pos] = f.Token
	}
	first, end := max(0, len(context)-q.Audited), len(context)
	if q.Audited == 0 || first >= end {
		return
	}
	text := hashOf(context[:first])
	for pos := first; pos < end; pos++ {
		p.said[text] = context[pos]
		if token, other := turned[pos]; other {
			p.said[text] = token
		}
		text = then(text, context[pos])
	}
}

// learnText records the large model's choices from its own text.
func (p *Player) learnText(a *Answer) {
	text := hashOf(a.Prompt)
	for _, id := range a.IDs {
		p.learn(text, id)
		text = then(text, id)
	}
	if a.Ended && len(p.Ends) == 1 {
		p.learn(text, p.Ends[0])
	}
}

// learn records the large model's choice after a text, unless it is known from an answer that was requested for that
// text.
func (p *Player) learn(text uint64, token int32) {
	if _, known := p.said[text]; !known {
		p.said[text] = token
	}
}

// context returns the text of a node.
func (a *Answer) context(node int32) []int32 {
	var back []int32
	for n := node; n > 0; n = a.Parents[n-1] {
		back = append(back, a.Tokens[n-1])
	}
	slices.Reverse(back)
	return append(slices.Clone(a.Prompt), back...)
}

// beginning returns the length of the common beginning of the prompts of all questions; 0 for one question.
func beginning(answers []*Answer) int {
	all := map[int]bool{}
	for _, a := range answers {
		if first := answers[0].Prompt; !slices.Equal(a.Prompt, first) {
			all[terms.CommonPrefix(a.Prompt, first)] = true
		}
	}
	if len(all) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Keys(all)))
}

// summarise computes the medians.
func (p *Player) summarise() {
	var lead, prefill, tail, lag, way, gaps []time.Duration
	for _, a := range p.Answers {
		if a.largeAlone() {
			continue
		}
		lead, prefill, tail = append(lead, a.Lead), append(prefill, a.Prefill), append(tail, a.Tail)
	}
	for _, q := range p.asks[""] {
		lag, way = append(lag, q.Lag), append(way, q.wire()-p.RTT)
		for i := range q.Ahead[min(1, len(q.Ahead)):] {
			gaps = append(gaps, q.Ahead[i+1].At-q.Ahead[i].At)
		}
	}
	p.own = overheads{lead: median(lead), prefill: median(prefill), tail: median(tail), lag: median(lag)}
	if p.Loss == 0 && len(p.Traces) == 0 {
		p.own.way = max(0, median(way))
	}
	p.pace = p.CloudPace
	if len(gaps) > 0 {
		p.pace = max(0, median(gaps))
	}
}

// median returns the median, the lower one of two; 0 for none.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return stat.Quantile(all, 0.5)
}

// Modes returns the modes with answers, in the order of the report.
func (p *Player) Modes() (all []string) {
	for _, m := range p.Header.Modes {
		if slices.ContainsFunc(p.Answers, func(a *Answer) bool { return a.Mode == m }) && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

// Asked reports whether the recording has answers of the large model.
func (p *Player) Asked() bool { return len(p.asks[""]) > 0 }

// Found returns the answers to a question in a mode, in the order of their takes, without those of a warm-up.
func (p *Player) Found(mode string, question int) []*Answer { return p.found[take{mode, question}] }

// Questions returns the numbers of the questions, ascending, and a prompt for each.
func (p *Player) Questions() (numbers []int, prompts map[int][]int32) {
	prompts = map[int][]int32{}
	for _, a := range p.Answers {
		if !a.WarmUp {
			prompts[a.Question] = a.Prompt
		}
	}
	return slices.Sorted(maps.Keys(prompts)), prompts
}

// output converts a head to a model's output.
func (h *Head) output() backend.Output {
	out := backend.Output{
		LogSumExp: h.LogSumExp, Entropy: h.Entropy, Top: make([]backend.Candidate, len(h.IDs)),
	}
	if h.Confidence != nil {
		out.Confidence = *h.Confidence
	}
	for i, id := range h.IDs {
		out.Top[i] = backend.Candidate{ID: id, Logit: h.Logits[i]}
	}
	return out
}

// head returns the small model's head after a text at a position of a question, with the router's confidence if sure is
// set, and whether it is known. The caller must not modify it.
func (p *Player) head(question, pos int, text uint64, sure bool) (h *Head, known bool) {
	h = p.heads[text]
	if h != nil && (h.Confidence != nil || !sure) {
		return h, true
	}
	for _, at := range []place{{question, pos, sure}, {question, -1, sure}, {-1, -1, sure}, anywhere()} {
		if all := p.places[at]; len(all) > 0 {
			other := all[pick(text, 1, len(all))]
			if h == nil {
				return other, false
			}
			both := *h
			both.Confidence = other.Confidence
			return &both, false
		}
	}
	panic("replay: a player without heads")
}

// call returns a pass to take the time from, for a forward pass that was not recorded: another one of the mode, or of
// any mode if it has none, with as many rows, or with the nearest number of rows.
func (p *Player) call(mode string, rows int, key uint64) *Call {
	best, distance := (*Call)(nil), 0
	for _, mode := range append([]string{mode}, slices.Sorted(maps.Keys(p.calls))...) {
		for _, n := range slices.Sorted(maps.Keys(p.calls[mode])) {
			d := max(n-rows, rows-n)
			if all := p.calls[mode][n]; best == nil || d < distance {
				best, distance = all[pick(key, 4, len(all))], d
			}
		}
	}
	return cmp.Or(best, &Call{})
}

// ask returns an answered ask to take the times from, for one that was not recorded; nil if there is none.
func (p *Player) ask(mode string, text uint64) *Ask {
	for _, all := range [][]*Ask{p.asks[mode], p.asks[""]} {
		if len(all) > 0 {
			return all[pick(text, 5, len(all))]
		}
	}
	return nil
}

// prefill returns the time that a separate device takes to evaluate the prompt of a question: that of the small model
// alone, or if that was not recorded, of all modes. In these the large model may read the prompt at the same time, on
// the same computer. It is the median of the answers.
func (p *Player) prefill(question int) time.Duration {
	var alone, all []time.Duration
	for of, answers := range p.found {
		for _, a := range answers {
			if of.question != question || a.largeAlone() {
				continue
			}
			all = append(all, a.Prefill)
			if of.mode == LocalMode {
				alone = append(alone, a.Prefill)
			}
		}
	}
	switch {
	case len(alone) > 0:
		return median(alone)
	case len(all) > 0:
		return median(all)
	}
	return p.own.prefill
}

// reading returns the time that a separate server takes to read n tokens of a question's prompt, or of a longer text; 0
// if the large model alone was not recorded.
func (p *Player) reading(question, n int) time.Duration {
	for _, a := range p.found[take{CloudMode, question}] {
		return a.Prefill * time.Duration(n) / time.Duration(len(a.Prompt))
	}
	return 0
}
