package draft

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// decodeRun is one call of [Decoder.Decode]. Each of its parts has its own state and keeps its own invariants; the run
// decides what follows what: an answer becomes facts and a token, a token moves the tip, a branch that is dropped
// cancels its questions.
type decodeRun struct {
	*rules
	model  Model
	router Router
	cloud  Cloud
	lately *Waits

	sched     *scheduler
	tree      *draftTree
	out       *outputStream
	questions *openQuestions
	streams   *aheadStreams
	audits    *auditor
	warm      *textWarmer
	guesser   *chainGuesser

	fanned escalation // what was evaluated in vain for alternatives
	won    int        // alternatives that took the place of a token
	closed bool       // the draft tree is dropped: answers only cost
}

func newRun(d *Decoder, prompt []int32, emit func(Event) bool) *decodeRun {
	rules, sched, lately := newRules(d.o, len(prompt)), newScheduler(d.o.Clock), cmp.Or(d.o.Waits, new(Waits))
	tree := newDraftTree(rules, sched, d.model, prompt)
	return &decodeRun{
		rules: rules, model: d.model, router: d.router, cloud: d.cloud, lately: lately,
		sched: sched, tree: tree,
		out:       &outputStream{rules: rules, sched: sched, emit: emit, began: sched.currentTime()},
		questions: &openQuestions{rules: rules, cloud: d.cloud, lately: lately},
		streams:   &aheadStreams{rules: rules, tree: tree, lately: lately},
		audits:    &auditor{rules: rules},
		warm:      newTextWarmer(rules, sched, d.cloud),
		guesser:   newChainGuesser(rules, sched, tree),
	}
}

// Decode runs prompt and emits the tokens that follow, in order, and statistics, until the text ends, ctx is done, or
// emit returns false. When it returns, the model holds only settled text: the prompt and the tokens shown, of which the
// last may be missing. No question is open then, and no goroutine is left. The error is that of the model, or the cause
// of ctx; a cloud that fails is no error. If the model, the router, [Options.Pick] or emit panic, no goroutine is left
// either, but the model may hold any part of a draft.
func (d *Decoder) Decode(ctx context.Context, prompt []int32, emit func(Event) bool) (sum Summary, err error) {
	if len(prompt) == 0 {
		return sum, errors.New("an empty prompt is given: a text needs at least one token to go on from")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := newRun(d, prompt, emit)
	over := false
	defer func() {
		d.verified = r.Verify
		cancel(errDecodeOver)
		if !over { // a panic of the caller's: the tree may be incomplete
			r.sched.waitForGoroutines()
			return
		}
		r.closeRun()
		sum = r.out.summary
	}()
	err = r.decodeText(ctx)
	over = true
	return sum, err
}

func (r *decodeRun) decodeText(ctx context.Context) error {
	r.warmCloud(ctx, 1)
	r.maybeStartCheck(ctx, r.tree.tip)
	start := r.sched.currentTime()
	head, err := r.model.Prefill(ctx, r.tree.text)
	if err != nil {
		return err
	}
	if r.Trace {
		p := Prompt{Tokens: r.prompt, Began: start.Sub(r.out.began), Took: r.sched.elapsedSince(start)}
		r.out.emitEvent(Event{Prompt: &p})
	}
	r.settleDial(r.cloud)
	r.decideNextToken(r.tree.tip, &head)
	if r.Mode == Serial {
		return r.decodeSerial(ctx)
	}
	return r.decodePipelined(ctx)
}

// warmCloud sends the text to a cloud that will be asked, if that lacks at least unknown tokens.
func (r *decodeRun) warmCloud(ctx context.Context, unknown int) {
	if r.router != nil || r.Verify {
		r.warm.warmCloud(ctx, r.tree.text, unknown, r.out.began)
	}
}

// decodeSerial is the definition of routed decoding: at each position the small model's token, or a question and a
// wait.
func (r *decodeRun) decodeSerial(ctx context.Context) error {
	for {
		if r.streams.hasLiveStream() {
			r.processResults() // tokens ahead that came during the pass save asks
		}
		over := r.commitTokens() // guesses that hold, before the next question
		if !over {
			r.sendPendingQuestions(ctx)
		}
		for !over && r.tree.lastCertain().hasOpenEscalation() {
			if err := r.waitForAnswer(ctx); err != nil {
				return err
			}
			r.sendPendingQuestions(ctx)
		}
		r.processResults()
		if over || r.commitTokens() {
			return nil
		}
		r.warmCloud(ctx, r.Warm)
		if checked, err := r.checkSerially(ctx); err != nil {
			return err
		} else if checked {
			continue
		}
		if n := r.tree.lastCertain(); !n.evaluated {
			if err := r.evaluateLeaves(ctx, []*node{n}); err != nil {
				return err
			}
		}
	}
}

func (r *decodeRun) decodePipelined(ctx context.Context) error {
	for {
		r.processResults()
		r.sendPendingQuestions(ctx)
		if r.commitTokens() {
			return nil
		}
		r.warmCloud(ctx, r.Warm)
		var err error
		leaves := r.chooseLeaves()
		r.checkAhead(ctx, len(leaves) == 0)
		if len(leaves) > 0 {
			err = r.evaluateLeaves(ctx, leaves)
		} else {
			err = r.waitForAnswer(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (r *decodeRun) evaluateLeaves(ctx context.Context, leaves []*node) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	chains := r.guesser.guessChains(ctx, leaves)
	rows := slices.Concat(append([][]*node{leaves}, chains...)...)
	nodes := r.tree.modelNodes(rows)
	start := r.sched.currentTime()
	heads, err := r.model.Extend(ctx, nodes)
	if err != nil {
		return err
	}
	took := r.sched.elapsedSince(start)
	r.guesser.cost.Learn(len(rows), took.Seconds())
	r.growTree(leaves, chains, heads, Pass{
		Rows: len(rows), Began: start.Sub(r.out.began), Took: took, Nodes: r.out.traceRows(rows, len(leaves)),
	})
	return nil
}

// growTree adds the results of a forward call to the draft tree: its leaves, and the guesses after them that were
// accepted. The model drops the others. heads are those of the leaves, then of the chains one after the other.
func (r *decodeRun) growTree(leaves []*node, chains [][]*node, heads []backend.Output, report Pass) {
	p := &pass{took: report.Took}
	var dead []ID
	after := heads[len(leaves):]
	for i, n := range leaves {
		if chains == nil {
			r.acceptChain(n, nil, heads[i:i+1], p)
			continue
		}
		chain := chains[i]
		accepted := r.acceptChain(n, chain, append(heads[i:i+1:i+1], after[:len(chain)]...), p)
		for _, g := range chain[accepted:] {
			dead = append(dead, g.id)
		}
		after = after[len(chain):]
		report.Proposed, report.Accepted = report.Proposed+len(chain), report.Accepted+accepted
	}
	if len(dead) > 0 {
		r.model.Drop(dead...)
	}
	r.guesser.acceptDrafts(leaves[0], &report)
	r.out.emitEvent(Event{Pass: &report})
}

func (r *decodeRun) decideNextToken(n *node, head *backend.Output) {
	var confidence float32
	escalate := false
	local := r.pickToken(n, head)
	n.local = local
	var why Why
	if r.router != nil {
		before := n.state
		confidence, escalate, n.state = r.router.Decide(before, n.pos+1, head)
		if r.Dial != nil {
			escalate, n.state = false, before
		}
		n.reason = r.explainDecision(before, n.pos+1, head, local)
	} else {
		confidence = tokenProbability(head, local)
	}
	if !escalate {
		why, escalate = r.verificationDue(n, local)
	}
	r.lately.recordDecision(escalate)
	if says := r.headLogProbs(head, local); !escalate {
		c := r.tree.addChild(n, local, confidence)
		if c.probs = says; r.checksEnabled() {
			r.recordAlternatives(n, c, r.likelyTokens(c.pos, local, head))
		}
	} else {
		n.esc = &escalation{at: n, wanted: r.sched.currentTime(), guesses: r.answerGuesses(n, local, head), local: says}
		n.esc.Escalation = Escalation{
			Pos: n.pos + 1, Decided: r.sched.elapsedSince(r.out.began), Outcome: waiting, Why: why, Local: local,
			Confidence: confidence,
		}
		r.questions.unsent = append(r.questions.unsent, n.esc)
	}
	r.applyFact(n)
}

func (r *decodeRun) explainDecision(path uint64, pos int, head *backend.Output, local int32) *Reason {
	e, ok := r.router.(Explainer)
	if !r.Explain || !ok {
		return nil
	}
	why := Reason{Local: local}
	if why.Margin, why.Entropy, why.Threshold = e.Explain(path, pos, head); r.Dial != nil {
		why.Threshold = 0 // the router asks for nothing
	}
	return &why
}

// tokenProbability returns the probability of a token under the small model, before temperature.
func tokenProbability(head *backend.Output, id int32) float32 {
	return float32(math.Exp(float64(tokenLogProb(head, id))))
}

func tokenLogProb(head *backend.Output, id int32) float32 {
	logit := float32(math.Inf(-1))
	if len(head.Logits) > 0 {
		logit = head.Logits[id]
	}
	for _, c := range head.Top {
		if c.ID == id {
			logit = c.Logit
		}
	}
	return logit - head.LogSumExp
}

// The context of the asks is done.
func (r *decodeRun) closeRun() {
	defer r.drainAsks()
	if d := r.guesser.drafter; d != nil {
		r.out.summary.Err = d.cause // there is no cloud then
	}
	r.closed = true
	for _, s := range r.streams.all {
		s.live = false // only count what still comes
	}
	for _, c := range slices.Concat(r.tree.tip.children, r.tree.tip.alts) {
		r.dropBranch(c, new(escalation))
	}
	if e := r.tree.tip.esc; e != nil {
		r.dropEscalation(e, new(escalation))
	}
	r.tree.settleShown()
}
