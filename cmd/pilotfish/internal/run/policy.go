package run

import (
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Kinds of promises about the share of tokens from the cloud.
const (
	certified = "certified" // a proven bound, for texts like those of the certificate
	balanced  = "balance"   // a bound on the share of all answers so far
)

// routingPlan selects the tokens that a run asks the cloud for, and has the promise about their share.
type routingPlan struct {
	options     router.Options
	file        *router.File // the router file; nil if the policy has none
	kind        string       // kind of promise; "" if there is none
	budget      float64      // the promised share
	certificate *router.Certificate
	doubts      []string       // why the certificate may not apply
	kept        *storedBalance // for the kind balanced
}

func (f *runFlags) newPlan() (*routingPlan, error) {
	o, err := f.route.Router(nil)
	if err != nil {
		return nil, err
	}
	p := &routingPlan{options: o, file: f.route.File, certificate: f.route.Certificate, budget: f.route.Budget}
	if o.Budget > 0 && f.route.Given("budget") { // a certificate of a smaller budget promises more
		o.Budget = 0
		if o, by, err := p.file.Complete(o); err == nil && by != nil && by.Budget <= p.budget {
			p.options, p.certificate = o, by
		}
	}
	switch {
	case p.certificate != nil:
		p.kind, p.budget = certified, p.certificate.Budget
	case p.options.Budget > 0:
		p.kind = balanced
	}
	if p.kind == certified && p.options.Fallback == 0 && f.set.Changed("budget-state") {
		return nil, cli.Usagef("--budget-state and the fixed threshold of the router's certificate exclude each " +
			"other: leave it out, or give a smaller --budget")
	}
	return p, nil
}

// prepareRouter creates the router for a model, which must have the width of the router file.
func (p *routingPlan) prepareRouter(a *cli.App, f *runFlags, m *pilotfish.Model) (made pilotfish.Router, err error) {
	if p.file != nil && p.options.Policy == router.Learned {
		group.WarnForeign(a, "router", p.file.About, m)
	}
	if p.kind == certified {
		p.doubts = f.certificateDoubts(p.certificate, m)
	}
	if p.options.Bound() > 0 {
		if p.kept, err = openBalance(f, p, m); err != nil {
			return nil, err
		}
	}
	if made, err = f.route.RouterOf(p.options, p.certificate); err != nil {
		return nil, err
	}
	if err := m.Fits(made); err != nil {
		return nil, fmt.Errorf("--router %s: %w", f.route.RouterFile, err)
	}
	if p.kept != nil {
		p.kept.before = newBalanceEvent(p.options.Balance, made.(interface{ Threshold() float64 }).Threshold())
		p.kept.after = p.kept.before
	}
	return made, nil
}

// certificateDoubts returns the differences between the run and those of the certificate that are known before the
// start.
func (f *runFlags) certificateDoubts(c *router.Certificate, m *pilotfish.Model) (all []string) {
	doubt := func(here bool, format string, args ...any) {
		if here {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	own, err := m.Fingerprint()
	doubt(err != nil || own != c.Model, "it was made with another small model")
	doubt(f.answer.MaxTokens > 0 && f.answer.MaxTokens < c.MaxTokens,
		"it is for answers of up to %d tokens, which -n %d cuts short", c.MaxTokens, f.answer.MaxTokens)
	switch {
	case f.set.Changed("tokens"):
		doubt(true, "it is for texts, not for token ids (--tokens)")
	case f.set.Changed("system"):
		doubt(true, "it is for chats without a system message (--system)")
	default:
		doubt(group.PromptKind(f.raw) != c.Prompt, "its prompts have the format %.20q, this one has %s", c.Prompt,
			group.PromptKind(f.raw))
	}
	doubt(f.answer.Temperature > 0, "it is for greedy decoding (--temp)")
	doubt(f.answer.IgnoreEnd, "its answers ended at end tokens (--ignore-eos)")
	return all
}

// doubtsAfterRun returns further differences from the certificate, which are known after a run of so many tokens.
func (p *routingPlan) doubtsAfterRun(g *pilotfish.Gateway, tokens, timeouts int) []string {
	if p.kind != certified {
		return nil
	}
	all := slices.Clone(p.doubts)
	name := ""
	if g != nil {
		name = g.Model()
	}
	if name != "" && p.certificate.LargeName != "" && name != p.certificate.LargeName {
		all = append(all, fmt.Sprintf("it was made with another large model%s, this one is%s",
			group.Named(p.certificate.LargeName), group.Named(name)))
	}
	if most := p.certificate.MaxTokens; tokens > most {
		all = append(all, fmt.Sprintf("it is for answers of at most %d tokens, this one has %d", most, tokens))
	}
	if timeouts > 0 {
		all = append(all, fmt.Sprintf("%d tokens had no answer", timeouts))
	}
	return all
}
