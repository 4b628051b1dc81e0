package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/event"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// runOutput prints the output of `pilotfish run`.
type runOutput struct {
	a       *cli.App
	f       *runFlags
	load    time.Duration // from opening the model file until a session could start, without waiting for a prompt
	context int           // maximum length of a text, in tokens
	about   record.Run
	model   *pilotfish.Model
	session *pilotfish.Session
	gateway *pilotfish.Gateway // nil without a cloud
	watch   *cloudWatch        // nil without a cloud
	plan    *routingPlan       // which tokens may come from the cloud; nil without a cloud
	route   pilotfish.Route    // without a cloud, if there is none
	explain *explainer         // nil without explanations
	write   func(pilotfish.Token) error
	preview *previewer // nil if text is only shown after verification
	ids     []int32
	printed int // bytes of text
	// of the last token: when it was shown, since the start of decoding, and how long after it was drafted
	shown, delay time.Duration
	broken       error // error of stdout
}

func newRunOutput(a *cli.App, f *runFlags, load time.Duration, m *pilotfish.Model) *runOutput {
	o := &runOutput{
		a: a, f: f, load: load, context: m.Context(), model: m, session: m.NewSession(),
		write: cli.NewTokenPrinter(a, a.Stdout),
	}
	if f.explain {
		o.explain = new(explainer)
	}
	if f.show && !f.json {
		o.preview = newPreviewer(a)
		o.write = cli.NewTokenPrinter(a, o.preview)
	}
	return o
}

func (o *runOutput) printToken(t pilotfish.Token) error {
	o.ids = append(o.ids, t.ID)
	if o.f.json {
		e := event.Token{
			Pos: t.Pos, ID: t.ID, Text: t.Text, Kind: string(t.Kind), Origin: string(t.Origin),
			Confidence: t.Confidence, Unverified: t.Unverified, MS: cli.Ms(o.shown), CommitDelayMS: cli.Ms(o.delay),
		}
		if o.explain != nil {
			if why := o.explain.rowAt(t.Pos); why != nil {
				e.Decision = &event.Decision{Margin: why.Margin, Entropy: why.Entropy, Threshold: why.Threshold}
			}
		}
		var err error
		if e.LogProbs, err = o.tokenLogProbs(t); err != nil {
			return err
		}
		return o.a.PrintJSON(e)
	}
	o.printed += len(t.Text)
	if o.f.raw {
		t.Kind = pilotfish.KindAnswer // all of the text is what was asked for
	}
	return o.write(t)
}

// finishRun prints the rest of the text and the summary, and returns err or an error of printing. After an error of
// stdout it prints nothing, and as text also if the prompt was not processed.
func (o *runOutput) finishRun(ctx context.Context, err error) error {
	o.storeBalance()
	s := o.session.Stats()
	if o.broken != nil || s.PromptTime == 0 && !o.f.json {
		return err
	}
	e := o.newSummary(ctx, err)
	if o.f.json {
		return errors.Join(err, o.printSummary(e))
	}
	if o.preview != nil {
		err = errors.Join(err, o.preview.showText(""))
	}
	if _, full := fmt.Fprintln(o.a.Stdout, e.Text[min(o.printed, len(e.Text)):]); full != nil {
		return errors.Join(err, full)
	}
	o.printReport(s, e)
	return err
}

func (o *runOutput) newSummary(ctx context.Context, err error) event.Summary {
	s := o.session.Stats()
	e := newSummaryEvent(s)
	e.IDs, e.LoadMS, e.KVBytes = append([]int32{}, o.ids...), cli.Ms(o.load), o.session.KVLimit()
	switch {
	case e.Stop == "" && ctx.Err() != nil:
		e.Stop = "interrupted"
	case e.Stop == "":
		e.Stop = "failed"
	}
	if o.f.answer.Temperature > 0 {
		e.Seed = &o.f.answer.Seed
	}
	if w := o.watch; w != nil {
		e.Routed = &event.Routed{Verified: s.Verified}
		if v := o.f.route.Verify; v.On {
			e.Verify = &v.Nats
		}
		if o.gateway != nil {
			e.Audit = o.gateway.Audit()
		}
		o.addPromise(e.Routed, s)
		if err == nil {
			err = w.unansweredCause()
		}
	}
	if err != nil {
		e.Error = new(err.Error())
	}
	return e
}

func newSummaryEvent(s pilotfish.Stats) event.Summary {
	return event.Summary{
		Text: s.Text, Stop: s.Stop, Shortened: s.Shortened, Ignored: s.Ignored, GeneratedTokens: s.Tokens,
		Routing: s.Routing, PromptTPS: cli.PerSecond(s.PromptTokens, s.PromptTime),
		GenerationTPS: cli.PerSecond(s.Tokens-1, s.DecodeTime), // the first token belongs to the prompt
	}
}

// storeBalance stores the balance of the budget for the next run, even if the answer was cut off. An error is only a
// warning.
func (o *runOutput) storeBalance() {
	a := o.session.Stats().Spent
	if o.plan == nil || o.plan.kept == nil || len(a.Confidences) == 0 && a.Escalations == 0 {
		return
	}
	if err := o.plan.kept.addAnswer(o.plan.options, a); err != nil {
		fmt.Fprintf(o.a.Stderr, "\npilotfish: what the budget spent in this run is not kept: %v\n", err)
	}
}

// addPromise adds the promise about the share, and the values that decisions were based on.
func (o *runOutput) addPromise(r *event.Routed, s pilotfish.Stats) {
	if p := o.plan; p != nil {
		r.Policy, r.Promise = string(p.options.Policy), p.kind
		if p.kind != "" {
			r.Budget = p.budget
		}
		r.Threshold = p.options.Threshold
		if p.kind == certified {
			r.Certificate = p.certificate
			if r.Doubts = p.doubtsAfterRun(o.gateway, len(o.ids), s.Routing.Timeouts); s.Unlike {
				r.Doubts = append(r.Doubts, group.UnlikeText)
			}
		}
		if k := p.kept; k != nil {
			r.BalanceBefore, r.Balance = &k.before, &k.after
		}
	}
	if o.explain != nil {
		r.Explain = o.explain.shownRows()
	}
}

func (o *runOutput) printReport(s pilotfish.Stats, e event.Summary) {
	out := o.a.Stderr
	if o.explain != nil {
		o.explain.printTable(out, o.model, e.Routed != nil)
	}
	var why error
	if o.watch != nil {
		why = o.watch.failureCause()
	}
	line := group.AnswerLine(s, o.route, why, o.context)
	if e.Seed != nil {
		line = strings.TrimPrefix(fmt.Sprintf("%s; drawn with --seed %d", line, *e.Seed), "; ")
	}
	if line != "" {
		fmt.Fprintln(out, line)
	}
	group.TellIgnored(out, e.Ignored)
	if o.f.stats {
		if e.Routed != nil {
			o.printLargeStats(s, e.Routed)
		}
		o.printSmallStats(s, e)
	}
}

func (o *runOutput) printSmallStats(s pilotfish.Stats, e event.Summary) {
	rate := ""
	if e.GenerationTPS > 0 { // more than one token
		rate = fmt.Sprintf(" at %.1f/s", e.GenerationTPS)
	}
	fmt.Fprintf(o.a.Stderr, "%s of prompt in %.0f ms (%.1f/s), %d generated%s, %s; model loaded in %.0f ms\n",
		english.Plural(s.PromptTokens, "token", ""), cli.Ms(s.PromptTime), e.PromptTPS, s.Tokens, rate,
		o.stopReasonText(e.Stop), e.LoadMS)
	if o.f.model.Large != "" {
		const all = "%d of %d tokens that the small model drafted were accepted, k = %.1f in %d passes; " +
			"%.2f passes over the large model a token\n"
		fmt.Fprintf(o.a.Stderr, all, s.DraftsAccepted, s.Drafts, float64(s.Drafts)/float64(max(1, s.DraftPasses)),
			s.DraftPasses, s.PassesPerToken())
	}
	if s.Proposed > 0 && !s.Verified { // verification evaluates the large model's tokens in the same way
		fmt.Fprintf(o.a.Stderr,
			"%d of %d tokens guessed from the text were right: %.2f passes over the model a token\n",
			s.Accepted, s.Proposed, s.PassesPerToken())
	}
}

func (o *runOutput) printLargeStats(s pilotfish.Stats, r *event.Routed) {
	out := o.a.Stderr
	o.printPromise(r)
	if s.Asks > 0 {
		fmt.Fprintf(out, "%s, %d bytes up, %d down\n", english.Plural(s.Asks, "question", ""), s.BytesUp, s.BytesDown)
	}
	if asked := s.Escalations - s.Known - s.Unasked; asked > 0 && !s.Verified {
		fmt.Fprintf(out, "of the questions about the text and its end, %d of %d were answered\n", s.Answered, asked)
	}
	if s.Answered > 0 && !s.Verified {
		fmt.Fprintf(out, "answers took %.0f ms in all; drafts of use took %.0f ms of that, waiting and other drafts "+
			"%.0f ms\n", cli.Ms(s.Wait), cli.Ms(s.Hidden), cli.Ms(s.Exposed))
	}
	if s.Verified && s.Unverified < s.Tokens {
		margin := "that follows the budget"
		if r.Verify != nil {
			margin = fmt.Sprintf("of %v nats", *r.Verify)
		}
		fmt.Fprintf(out, "verified with a margin %s: %s replaced before they were shown\n", margin,
			english.Plural(s.Turned, "token", ""))
	}
}

func (o *runOutput) printPromise(r *event.Routed) {
	switch {
	case r.Verify != nil: // what it replaces is not the router's choice
	case r.Promise == certified && len(r.Doubts) == 0:
		fmt.Fprintln(o.a.Stderr, group.CertificateText(o.plan.certificate))
	case r.Promise == certified:
		fmt.Fprintf(o.a.Stderr, "%s\nhere that is a target, not a bound: %s\n",
			group.CertificateText(o.plan.certificate), strings.Join(r.Doubts, "; "))
	case r.Promise == balanced:
		what := "question"
		if r.Policy == string(router.Verify) {
			what = "replacement"
		}
		fmt.Fprintf(o.a.Stderr, "budget %s: %s for %d tokens of all answers so far (%.1f%%)\n", group.Share(r.Budget),
			english.Plural(r.Balance.Escalations, what, ""), r.Balance.Tokens, 100*min(1, r.Balance.Share))
	}
}

func (o *runOutput) stopReasonText(why string) string {
	switch {
	case why == "end":
		return "stopped at the end token"
	case why == "stop":
		return "stopped at a text of --stop"
	case why == "length" && o.f.answer.MaxTokens > 0:
		return fmt.Sprintf("stopped at the limit of %s (-n)", english.Plural(o.f.answer.MaxTokens, "token", ""))
	case why == "length" || why == "context":
		return fmt.Sprintf("stopped: the context of %d tokens is full (-c)", o.context)
	}
	return why // for interrupted and failed
}

func (o *runOutput) describeRun() (record.Run, error) {
	about, err := group.Describe(o.about, o.model.File(), nil)
	if err == nil && o.gateway != nil {
		about.Large = &record.Model{Name: o.gateway.Model()}
	}
	return about, err
}

func (o *runOutput) printSummary(e event.Summary) error {
	about, err := o.describeRun()
	if err != nil {
		return err
	}
	return group.PrintResult(o.a, struct {
		Summary event.Summary `json:"summary"`
	}{e}, about)
}

// tokenLogProbs returns the fields of --logprobs for a token; nil without the flag.
func (o *runOutput) tokenLogProbs(t pilotfish.Token) (*event.LogProbs, error) {
	if o.f.answer.Top == 0 {
		return nil, nil
	}
	p := &event.LogProbs{Top: []event.TopLogProb{}}
	if v := t.LogProb; !math.IsNaN(float64(v)) {
		p.LogProb = &v
	}
	for _, c := range t.Top {
		text, err := o.model.Detokenize([]int32{c.ID})
		if err != nil {
			return nil, err
		}
		p.Top = append(p.Top, event.TopLogProb{ID: c.ID, Text: text, LogProb: c.LogProb})
	}
	return p, nil
}
