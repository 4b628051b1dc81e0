package replay

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Player replaces both models, as far as a recording has their outputs. It is safe for concurrent use.
type Player struct {
	*Recording
	found    map[questionKey][]*Answer
	heads    map[uint64]*Head
	others   map[int][]*Head                  // by question, to take the place of missing ones; -1: all
	said     map[uint64]int32                 // the large model's choices, by the text before them
	gaps     map[scoreKey]float32             // of its scores for its choice and for another token
	calls    map[string]map[int]*durationMean // by mode and rows; those of all modes under ""
	prefills map[questionKey]*durationMean    // without the large model alone; those of all modes under ""
	asks     map[askKey]Ask                   // of a text the first, of text 0 the mean; those of all modes under ""
	pace     time.Duration                    // between tokens ahead
	shared   int                              // length of the common beginning of all prompts; 0 for one
	own      time.Duration                    // of the program itself on the way of an ask
}

// questionKey is a question in a mode.
type questionKey struct {
	mode     string
	question int
}

// scoreKey is a token after a text to which the large model prefers another one, by scores of one kind.
type scoreKey struct {
	text  uint64
	token int32
	kind  terms.Verify
}

// askKey is a text in a mode, asked about or sent early.
type askKey struct {
	mode string
	text uint64
	warm bool
}

// durationMean is the mean of some times.
type durationMean struct {
	sum time.Duration
	n   int
}

func (m *durationMean) meanTime() time.Duration { return m.sum / time.Duration(max(1, m.n)) }

func addToMean[K comparable](all map[K]*durationMean, key K, d time.Duration) {
	if all[key] == nil {
		all[key] = new(durationMean)
	}
	all[key].sum += d
	all[key].n++
}

// NewPlayer prepares a recording for replays.
func NewPlayer(r *Recording) (*Player, error) {
	p := &Player{
		Recording: r, found: map[questionKey][]*Answer{}, heads: map[uint64]*Head{}, others: map[int][]*Head{},
		said: map[uint64]int32{}, gaps: map[scoreKey]float32{}, calls: map[string]map[int]*durationMean{"": {}},
		prefills: map[questionKey]*durationMean{},
		asks:     map[askKey]Ask{}, pace: r.CloudPace,
	}
	for _, a := range r.Answers {
		of := questionKey{a.Mode, a.Question}
		p.found[of] = append(p.found[of], a)
		p.learnHeads(a)
		p.learnTimes(a)
		for i := range a.Asks {
			if q := &a.Asks[i]; !q.Warm {
				p.learnAsk(a, q)
			}
		}
	}
	for _, a := range r.Answers {
		if a.largeAlone() {
			p.learnText(a)
		}
	}
	if len(p.heads) == 0 {
		return nil, errors.New("the recording has no answers of the small model: record a mode that uses it")
	}
	p.shared = commonPromptLength(r.Answers)
	p.learnAskTimes()
	return p, nil
}

// Special modes of a recording: the large model alone, streamed and at once, and the small model alone.
const (
	CloudMode     = "cloud"
	ReferenceMode = "reference"
	LocalMode     = "local"
)

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

// nodePositions returns the positions of the tokens of the nodes; for node 0 that of the prompt's last token.
func (a *Answer) nodePositions() []int {
	pos := []int{len(a.Prompt) - 1}
	for _, parent := range a.Parents {
		pos = append(pos, pos[parent]+1)
	}
	return pos
}

func (p *Player) learnHeads(a *Answer) {
	for i := range a.Heads {
		h := &a.Heads[i]
		text := a.texts[h.Node]
		p.heads[text] = mergeHeads(p.heads[text], h)
		if h.Confidence != nil || p.Router == "" {
			p.others[a.Question] = append(p.others[a.Question], h)
			p.others[-1] = append(p.others[-1], h)
		}
	}
}

// mergeHeads combines two heads after one text: it returns the second if it has more candidates or a confidence.
func mergeHeads(old, h *Head) *Head {
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
	if a.largeAlone() {
		return
	}
	if p.calls[a.Mode] == nil {
		p.calls[a.Mode] = map[int]*durationMean{}
	}
	for _, mode := range []string{a.Mode, ""} {
		addToMean(p.prefills, questionKey{mode, a.Question}, a.Prefill)
		for _, c := range a.Calls {
			addToMean(p.calls[mode], c.Rows, c.Took)
		}
	}
}

func (p *Player) learnAsk(a *Answer, q *Ask) {
	context := a.nodeContext(q.Node)
	text := a.texts[q.Node]
	p.said[text] = q.Token
	text = extendHash(text, q.Token)
	p.learnAudit(q, context)
	if terms.Verify(q.Verify) == terms.EachChoice && len(q.Audit) > 0 {
		// tokens ahead follow the first token that is replaced
		first := slices.MinFunc(q.Audit, func(a, b Finding) int { return a.Pos - b.Pos })
		text = extendHash(hashTokens(context[:first.Pos]), first.Token)
	}
	for _, l := range q.Ahead {
		p.said[text] = l.Token
		text = extendHash(text, l.Token)
	}
}

func (p *Player) learnAudit(q *Ask, context []int32) {
	turned := map[int]Finding{}
	for _, f := range q.Audit {
		turned[f.Pos] = f
	}
	first, end := max(0, len(context)-q.Audited), len(context)
	if q.Audited == 0 || first >= end {
		return
	}
	text := hashTokens(context[:first])
	for pos := first; pos < end; pos++ {
		p.said[text] = context[pos]
		if f, other := turned[pos]; other {
			p.said[text] = f.Token
			p.gaps[scoreKey{text, context[pos], terms.Verify(q.Verify)}] = f.Gap
		}
		text = extendHash(text, context[pos])
	}
}

func (p *Player) learnText(a *Answer) {
	text := hashTokens(a.Prompt)
	for _, id := range a.IDs {
		p.learnChoice(text, id)
		text = extendHash(text, id)
	}
	if a.Ended && len(p.Ends) == 1 {
		p.learnChoice(text, p.Ends[0])
	}
}

// learnChoice records the large model's choice after a text, unless it is known from an answer that was requested for
// that text.
func (p *Player) learnChoice(text uint64, token int32) {
	if _, known := p.said[text]; !known {
		p.said[text] = token
	}
}

func (a *Answer) nodeContext(node int32) []int32 {
	var back []int32
	for n := node; n > 0; n = a.Parents[n-1] {
		back = append(back, a.Tokens[n-1])
	}
	slices.Reverse(back)
	return append(slices.Clone(a.Prompt), back...)
}

// commonPromptLength returns the length of the common beginning of the prompts of all questions; 0 for one question.
func commonPromptLength(answers []*Answer) int {
	shortest := -1
	for _, a := range answers {
		if first := answers[0].Prompt; !slices.Equal(a.Prompt, first) {
			n := terms.CommonPrefix(a.Prompt, first)
			if shortest < 0 || n < shortest {
				shortest = n
			}
		}
	}
	return max(0, shortest)
}

func (p *Player) learnAskTimes() {
	sums, counts, gaps := map[askKey]Ask{}, map[askKey]int{}, durationMean{}
	for _, a := range p.Answers {
		for _, q := range a.Asks {
			of := askKey{a.Mode, a.texts[q.Node], q.Warm}
			if _, had := p.asks[of]; !had {
				p.asks[of] = q
			}
			for _, of := range []askKey{{a.Mode, 0, q.Warm}, {"", 0, q.Warm}} {
				sum := sums[of]
				sum.Took, sum.Queue, sum.Cloud = sum.Took+q.Took, sum.Queue+q.Queue, sum.Cloud+q.Cloud
				sum.BytesUp, sum.BytesDown = sum.BytesUp+q.BytesUp, sum.BytesDown+q.BytesDown
				sums[of] = sum
				counts[of]++
			}
			if n := len(q.Ahead); n > 1 {
				gaps.sum, gaps.n = gaps.sum+q.Ahead[n-1].At-q.Ahead[0].At, gaps.n+n-1
			}
		}
	}
	for of, q := range sums {
		n := time.Duration(counts[of])
		p.asks[of] = Ask{Warm: of.warm, Took: q.Took / n, Queue: q.Queue / n, Cloud: q.Cloud / n,
			BytesUp: q.BytesUp / int(n), BytesDown: q.BytesDown / int(n)}
	}
	if gaps.n > 0 {
		p.pace = max(0, gaps.meanTime())
	}
	if p.Loss == 0 && len(p.Traces) == 0 {
		q := p.asks[askKey{}]
		p.own = max(0, q.Took-q.Queue-q.Cloud-p.RTT)
	}
}

// recordedAsk returns an ask to take the time and the bytes from: the first of the text in the mode, or else the mean
// of the mode, or of all.
func (p *Player) recordedAsk(of askKey) Ask {
	for _, of := range []askKey{of, {of.mode, 0, of.warm}, {"", 0, of.warm}} {
		if q, ok := p.asks[of]; ok {
			return q
		}
	}
	return Ask{Warm: of.warm}
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
func (p *Player) Asked() bool {
	_, ok := p.asks[askKey{}]
	return ok
}

// Found returns the answers to a question in a mode, in the order of their takes.
func (p *Player) Found(mode string, question int) []*Answer {
	return p.found[questionKey{mode, question}]
}

// Questions returns the numbers of the questions, ascending, and a prompt for each. Those that lack an answer in a
// recorded mode, as the recording was stopped, are partial.
func (p *Player) Questions() (numbers, partial []int, prompts map[int][]int32) {
	prompts = map[int][]int32{}
	for _, a := range p.Answers {
		prompts[a.Question] = a.Prompt
	}
	modes := p.Modes()
	for _, n := range slices.Sorted(maps.Keys(prompts)) {
		if slices.ContainsFunc(modes, func(m string) bool { return len(p.Found(m, n)) == 0 }) {
			partial = append(partial, n)
		} else {
			numbers = append(numbers, n)
		}
	}
	return numbers, partial, prompts
}

func (h *Head) toOutput() backend.Output {
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

// findHead returns the small model's head after a text of a question, with the router's confidence if sure is set, and
// whether it is known. The caller must not modify it.
func (p *Player) findHead(question int, text uint64, sure bool) (h *Head, known bool) {
	h = p.heads[text]
	if h != nil && (h.Confidence != nil || !sure) {
		return h, true
	}
	all := p.others[question]
	if len(all) == 0 {
		all = p.others[-1]
	}
	if len(all) == 0 { // no head has a confidence
		return cmp.Or(h, p.heads[slices.Min(slices.Collect(maps.Keys(p.heads)))]), false
	}
	other := all[router.Draw(text, 1)%uint64(len(all))]
	if h == nil {
		return other, false
	}
	both := *h
	both.Confidence = other.Confidence
	return &both, false
}

// callTime returns the time of a forward pass: the mean of those of the mode, or of all modes if it has none, with as
// many rows, or with the nearest number of rows.
func (p *Player) callTime(mode string, rows int) time.Duration {
	all := p.calls[mode]
	if len(all) == 0 {
		all = p.calls[""]
	}
	best := 0
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if best == 0 || max(n-rows, rows-n) < max(best-rows, rows-best) {
			best = n
		}
	}
	if best == 0 {
		return 0
	}
	return all[best].meanTime()
}

// prefillTime returns the time that a mode takes to evaluate the prompt of a question, or else the small model alone,
// or all modes. In these the large model may read the prompt at the same time, on the same computer.
func (p *Player) prefillTime(mode string, question int) time.Duration {
	for _, of := range []questionKey{{mode, question}, {LocalMode, question}, {"", question}} {
		if m := p.prefills[of]; m != nil {
			return m.meanTime()
		}
	}
	return 0
}

// readingTime returns the time that a separate server takes to read n tokens of a question's prompt, or of a longer
// text; 0 if the large model alone was not recorded.
func (p *Player) readingTime(question, n int) time.Duration {
	for _, a := range p.found[questionKey{CloudMode, question}] {
		return a.Prefill * time.Duration(n) / time.Duration(len(a.Prompt))
	}
	return 0
}
