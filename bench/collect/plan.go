package collect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// defaultParallel is the number of concurrent texts.
const defaultParallel = 32

type auditor interface {
	Audit() string
	Choices() int
	Context() int
	Model() string
}

// NewPlan checks options. Its errors say what to do.
func NewPlan(o Options) (*Plan, error) {
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	p := &Plan{o: o}
	if err := p.chooseReference(); err != nil {
		return nil, err
	}
	if err := p.checkLabels(); err != nil {
		return nil, err
	}
	t, err := o.Edge.Tokenizer()
	if err != nil {
		return nil, err
	}
	if end, ok := t.EOS(); ok {
		p.end = end
	} else {
		p.end = -1
	}
	return p, p.fillSettings()
}

func (p *Plan) chooseReference() error {
	o := &p.o
	lacking := slices.IndexFunc(o.Data.Questions, func(q task.Question) bool { return q.Reference == "" })
	if o.Reference == "" {
		if o.Reference = Given; lacking >= 0 {
			o.Reference = Large
		}
	}
	switch o.Reference {
	case Given:
		if lacking >= 0 {
			return fmt.Errorf("reference given: question %s of %s has none: add \"reference\" to it, or take answers "+
				"of the large model", o.Data.Questions[lacking].ID, o.Data.Name)
		}
	case Sampled:
		if o.Temperature == 0 {
			return errors.New("reference sampled: the temperature is 0: give one above 0")
		}
	case Judged:
		if o.Large == nil {
			return errors.New("reference judged: the states of the large model are recorded, which no gateway sends: " +
				"run the large model here")
		}
	}
	return nil
}

func (p *Plan) checkLabels() error {
	o := &p.o
	usual := []string{RuleDisagreement}
	if o.Reference == Judged {
		usual = []string{RuleMismatch}
	}
	if o.Labels == nil {
		o.Labels = usual
	}
	if judged := slices.Contains(o.Labels, RuleMismatch); o.Reference == Judged && !slices.Equal(o.Labels, usual) ||
		o.Reference != Judged && judged {
		return fmt.Errorf("label rule %s is that of the reference judged, which has no other: leave --label out",
			RuleMismatch)
	}
	ungraded := slices.IndexFunc(o.Data.Questions, func(q task.Question) bool { return q.Grade == nil })
	for _, rule := range []string{RuleCiter, RuleConsequence, RuleMismatch} {
		if ungraded >= 0 && slices.Contains(o.Labels, rule) {
			return fmt.Errorf("label rule %[3]s compares final answers, and question %[1]s of %[2]s has no right one: "+
				"add \"answer\" to it, or leave %[3]s out", o.Data.Questions[ungraded].ID, o.Data.Name, rule)
		}
	}
	return nil
}

func (p *Plan) fillSettings() error {
	o, s := &p.o, &p.settings
	var err error
	if s.Small.Fingerprint, err = o.Edge.Fingerprint(); err != nil {
		return err
	}
	s.Small.Name, s.Small.Context, s.Small.Compute = o.Edge.Name(), o.Edge.Context(), o.Compute
	if err := p.fillLargeSettings(); err != nil {
		return err
	}
	p.limit = s.Small.Context
	if s.Large.Context > 0 {
		p.limit = min(p.limit, s.Large.Context)
	}
	if s.Tap, s.Width = router.TapFinalNorm, o.Edge.Width(); o.Reference == Judged {
		s.Tap, s.Width = router.TapMismatch, 2*o.Large.Width()
	}
	s.Data, s.Task, s.Shots = o.Data.Hash, o.Data.Prompts, len(o.Data.Shots)
	s.Prompts, s.Raw = len(o.Data.Questions), o.Raw
	s.Reference, s.MaxTokens = string(o.Reference), o.MaxTokens
	s.Labels = append([]string{}, o.Labels...)
	switch o.Reference {
	case Sampled:
		s.Sampling = &trace.Sampling{Temperature: o.Temperature, Seed: o.Seed}
	case Routed:
		threshold := o.Router.Policy.DefaultThreshold()
		if o.Router.Threshold != nil {
			threshold = *o.Router.Threshold
		}
		s.Routing = &trace.Routing{Router: o.RouterHash, Threshold: threshold}
	}
	return nil
}

// fillLargeSettings describes the large model. A gateway must support exact audits and the sampling.
func (p *Plan) fillLargeSettings() (err error) {
	o, m := &p.o, &p.settings.Large
	if o.Large != nil {
		if m.Fingerprint, err = o.Large.Fingerprint(); err != nil {
			return err
		}
		m.Name, m.Context = o.Large.Name(), o.Large.Context()
		return nil
	}
	g, ok := o.Far.(auditor)
	if !ok {
		return errors.New("there is no large model")
	}
	if kind := g.Audit(); kind != "exact" {
		return fmt.Errorf("the gateway's model %s audits %s of the tokens before a question, and traces need all: use "+
			"a gateway with an exact audit (see docs/operate/engines.md), or run the large model here", g.Model(), kind)
	}
	if most := g.Choices(); most > 0 && o.Reference == Sampled {
		return fmt.Errorf("reference sampled: the gateway's model can draw from its %d best tokens only: "+
			"use a gateway with the built-in engine, or another reference", most)
	}
	m.Name, m.Context = g.Model(), g.Context()
	return nil
}
