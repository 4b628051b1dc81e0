package draft

import (
	"context"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

// Drafter is a smaller model with the same vocabulary that drafts the tokens of the text: speculative decoding
// (Leviathan et al., arXiv 2211.17192) where both models share the processors. [Model] evaluates the drafts after a
// token in the forward call of that token, and a draft is accepted if it is the token that [Model] is followed by. So
// drafts never change the text. It is called by the goroutine of [Decoder.Decode].
type Drafter interface {
	// Known returns the number of tokens at the beginning of text that are not computed again.
	Known(text []int32) int
	// Read makes text the drafter's text and returns the heads that follow its last tokens, heads of them. They hold at
	// least [Options.Want], and may be overwritten by the next call.
	Read(ctx context.Context, text []int32, heads int) ([]backend.Output, error)
	// Context is the max length of a text.
	Context() int
}

// Drafts is what is known of a drafter: the time of its calls and how often its drafts are accepted. The zero value is
// ready for use, and one value may serve many texts, one after the other.
type Drafts struct {
	cost   lookup.Cost
	accept lookup.Drafts
	token  float64 // seconds for each token of a long call; 0: unknown
}

const (
	// draftWindow is the max number of tokens that a drafter reads at a time. Where it lacks more, its text begins anew
	// with the last ones: reading a long prompt would cost more than the drafts save.
	draftWindow = 128
	// followed is the max number of tokens that a drafter reads for its next draft without asking whether that pays.
	followed = 8
	// compared is the max number of tokens of the answer whose drafts are compared when a drafter reads them.
	compared = 32
	// probing is the max share of the time for finding out whether drafts have become worth their time.
	probing = 0.01
	// Before a drafter is measured: the time of a draft, in tokens of the model, and of each token of a long call, in
	// drafts.
	assumedDraft, assumedRead = 0.4, 0.15
)

// drafter is the drafter of a run.
type drafter struct {
	Drafter
	*Drafts
	base    int       // position in the text of the first token of the drafter's text
	read    time.Time // of the last long call
	failed  bool
	cause   error   // of the failure; nil: the text was over
	pending []draft // after the leaf of the forward call
}

// draft is a token of the chain after a leaf, or the one after the chain that was not worth a row.
type draft struct {
	token int32
	p     float64 // under the drafter; negative: a guess from the text
	row   bool    // it is evaluated
}

func newDrafter(o Options, now time.Time) *drafter {
	if o.Drafter == nil {
		return nil
	}
	d := &drafter{Drafter: o.Drafter, Drafts: o.Drafts, read: now}
	if d.Drafts == nil {
		d.Drafts = new(Drafts)
	}
	return d
}

// unreadTokens returns the number of tokens that the drafter has to read before its next draft, and the position at
// which its text then begins.
func (d *drafter) unreadTokens(text []int32) (lag, base int) {
	base = d.base
	if len(text)-base+lookup.MostRows <= d.Context() {
		lag = len(text) - base - d.Known(text[base:])
	} else {
		lag = len(text)
	}
	if most := max(1, min(draftWindow, d.Context()/2)); lag > most {
		return most, len(text) - most
	}
	return lag, base
}

// readSeconds returns the seconds for reading the given number of tokens; one is the time of a token of the model.
func (d *drafter) readSeconds(tokens int, one float64) float64 {
	single := d.cost.One()
	if single == 0 {
		single = assumedDraft * one
	}
	if tokens <= followed {
		return single * d.cost.Curve(tokens)[tokens-1]
	}
	if d.token > 0 {
		return d.token * float64(tokens)
	}
	return assumedRead * single * float64(tokens)
}

// draftChain returns the tokens that are evaluated after a leaf, at most most: those of the drafter, and those from the
// text where they are the better ones. nil means that no drafts are worth their time, or fewer tokens a second than
// rival.
func (g *chainGuesser) draftChain(ctx context.Context, leaf *node, most int, rival float64) []*node {
	d, one := g.drafter, g.cost.One()
	d.pending = d.pending[:0]
	if d.failed || one == 0 || most < 1 {
		return nil
	}
	calls := g.cost.Curve(most + 1)
	for i := range calls {
		calls[i] *= one
	}
	text := g.tree.contextTokens(leaf)
	lag, _ := d.unreadTokens(text)
	n, rate := d.chainLength(lag, one, calls)
	if lag > followed && rate > rival && g.shouldCatchUp(lag, n, rate*one) && g.catchUp(ctx, text) {
		lag, _ = d.unreadTokens(text)
		n, rate = d.chainLength(lag, one, calls)
	}
	if n == 0 || rate <= rival || lag > followed {
		return nil
	}
	return g.buildDraftChain(ctx, leaf, text, calls, rate)
}

// chainLength is [lookup.Length] for a drafter that has to read lag tokens first, or has caught up if these are many.
func (d *drafter) chainLength(lag int, one float64, calls []float64) (n int, rate float64) {
	draft := d.readSeconds(1, one)
	if calls = slices.Clone(calls); lag <= followed {
		for i := range calls[1:] {
			calls[i+1] += d.readSeconds(lag, one) - draft
		}
	}
	return lookup.Length(d.accept.Next(), draft, calls)
}

// shouldCatchUp reports whether a long call is worth its time. With drafts that are expected to make the text faster,
// the answer is assumed to become four times as long as it is. Otherwise the call finds out whether they would, and is
// one of few.
func (g *chainGuesser) shouldCatchUp(lag, n int, faster float64) bool {
	cost := g.drafter.readSeconds(lag, g.cost.One())
	if n == 0 {
		return cost <= probing*g.sched.elapsedSince(g.drafter.read).Seconds()
	}
	shown := len(g.tree.text) - g.prompt
	return cost <= g.cost.One()*(1-1/faster)*float64(min(3*shown, g.limit-len(g.tree.text)))
}

// catchUp makes the drafter read all but the last token of text, and compares its drafts with the tokens of the answer
// among them. The last of these is read alone, for the time of a draft. It reports whether it succeeded.
func (g *chainGuesser) catchUp(ctx context.Context, text []int32) bool {
	d, end := g.drafter, len(text)-2
	lag, base := d.unreadTokens(text)
	heads := min(compared, lag-2, end+1-g.prompt)
	if g.Place != nil {
		heads = 0 // what may follow is only known after the last token
	}
	outs, ok := g.callDrafter(ctx, text[:end], base, lag-2, heads)
	for i, head := range outs {
		pos := end + 1 - heads + i
		token := g.Pick(pos, &head)
		d.accept.Learn(float64(tokenProbability(&head, token)), token == text[pos])
	}
	if ok {
		_, ok = g.callDrafter(ctx, text[:end+1], base, 1, 1)
	}
	d.read = g.sched.currentTime()
	return ok
}

// callDrafter measures the time of the call. After an error there are no more drafts.
func (g *chainGuesser) callDrafter(ctx context.Context, text []int32, base, lag, heads int) ([]backend.Output, bool) {
	d, start := g.drafter, g.sched.currentTime()
	d.base = base
	outs, err := d.Read(ctx, text[base:], heads)
	if err != nil {
		d.failed = true
		if ctx.Err() == nil {
			d.cause = err
		}
		return nil, false
	}
	if took := g.sched.elapsedSince(start).Seconds(); lag <= followed {
		d.cost.Learn(lag, took)
	} else {
		d.token = took / float64(lag)
	}
	return outs, true
}

// buildDraftChain returns the tokens that are evaluated after leaf. Another one is added while it is expected to yield
// more tokens for its time than rate, that of the whole: a guess from the text costs a row, a draft also a call of the
// drafter. calls[i] is the time of a forward call with i of them.
func (g *chainGuesser) buildDraftChain(
	ctx context.Context, leaf *node, text []int32, calls []float64, rate float64,
) (chain []*node) {
	d, at, chance := g.drafter, leaf, 1.0
	for len(chain) < len(calls)-1 {
		row := calls[len(chain)+1] - calls[len(chain)]
		lag, base := d.unreadTokens(text)
		next := draft{p: -1}
		length, likely := g.findRepeat(text)
		accept := 0.0
		if length > 0 {
			accept = chance * g.repeats.Rate().Of(length)
		}
		draws := chance * d.accept.Next()
		took := d.readSeconds(min(lag, followed), calls[0])
		if length == 0 || accept*(row+took) < draws*row {
			if draws < rate*(row+took) || lag > followed {
				break
			}
			outs, ok := g.callDrafter(ctx, text, base, lag, 1)
			if !ok {
				break
			}
			next.token = g.pickToken(at, &outs[0])
			next.p = float64(tokenProbability(&outs[0], next.token))
			accept = chance * d.accept.Of(next.p)
		} else {
			next.token = likely
		}
		next.row = accept >= rate*row && !g.End(next.token)
		if next.row || next.p >= 0 {
			d.pending = append(d.pending, next)
		}
		if !next.row {
			break
		}
		place := at.place
		if at = g.tree.newRow(at, next.token); place != nil {
			at.place = place.Behind(next.token)
		}
		chain, text, chance = append(chain, at), append(text, next.token), accept
	}
	return chain
}

func (g *chainGuesser) findRepeat(text []int32) (length int, next int32) {
	if g.repeats == nil {
		return 0, 0
	}
	length, tokens := g.repeats.Find(text[g.repeats.Len():], 1)
	if length == 0 {
		return 0, 0
	}
	return length, tokens[0]
}

func (g *chainGuesser) acceptDrafts(leaf *node, report *Pass) {
	if g.drafter == nil {
		return
	}
	n := leaf
	for _, d := range g.drafter.pending {
		next := n.children[0]
		right := next.token == d.token
		if d.p >= 0 {
			g.drafter.accept.Learn(d.p, right)
		}
		if !right || !next.evaluated {
			break
		}
		if n = next; d.p >= 0 {
			n.drafted = true
			report.DraftsAccepted++
		}
	}
	for _, d := range g.drafter.pending {
		if d.p >= 0 && d.row {
			report.Drafts++
		}
	}
	report.Proposed -= report.Drafts
	report.Accepted -= report.DraftsAccepted
	g.drafter.pending = g.drafter.pending[:0]
}
