package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Note Verdict = "note" // usable, but with a disadvantage
	Fail Verdict = "fail" // not usable
)

// Result is the result of one check.
type Result struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`
}

// Check finds out whether an engine is fit for use behind a gateway. It does what [Open] does, then asks some hundred
// questions and compares the answers. It uses one URL of o, and calls tell with each result as it arrives.
func Check(ctx context.Context, o Options, tell func(Result)) error {
	u, err := Open(ctx, o)
	if err != nil {
		tell(Result{"start", Fail, err.Error()})
		return errors.New("the engine cannot be used behind the gateway")
	}
	defer u.Close()
	c := &engineCheck{u: u, m: u.engines[0], salt: u.cacheSalt(1, 0)}
	failed := 0
	for _, one := range []struct {
		name string
		run  func(context.Context) (Verdict, string, error)
	}{
		{"start", c.checkStart}, {"answers", c.checkAnswers}, {"the same again", c.checkRepeats},
		{"probabilities", c.checkProbabilities}, {"audit", c.checkAudit}, {"cache", c.checkCache},
		{"clients apart", c.checkClientSeparation}, {"too long", c.checkTooLong},
	} {
		v, found, err := one.run(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			v, found = Fail, dialect.Said(err) // the questions contain no text of users
		}
		tell(Result{one.name, v, found})
		if v == Fail {
			failed++
			if one.name == "answers" {
				break // the other checks compare with these answers
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d checks failed: the engine must not be used behind the gateway as it is", failed)
	}
	return nil
}

// engineCheck asks one engine, without the cache of answers.
type engineCheck struct {
	u        *Upstream
	m        *managedEngine
	salt     string
	contexts [][]int32       // of the questions
	first    []dialect.Reply // answers to these
}

func (c *engineCheck) newQuestion(context []int32) dialect.Ask {
	return dialect.Ask{
		Name: fmt.Sprintf("%s-%d", c.u.name, c.u.count.Add(1)), Session: 1, Salt: c.salt, Context: context,
		K: min(c.u.most, 5),
	}
}

func (c *engineCheck) checkStart(context.Context) (Verdict, string, error) {
	f, _ := c.m.serviceState()
	return Pass, fmt.Sprintf("%s %s serves %s, contexts of %d tokens (0: unknown), %d questions at a time "+
		"(0: unknown); all %d tokens have the same text", f.Dialect, f.Version, f.Model, f.MaxContext, f.Parallel,
		c.u.o.Vocabulary.Size()), nil
}

func (c *engineCheck) checkAnswers(ctx context.Context) (Verdict, string, error) {
	const questions, each = 100, 10
	var took []time.Duration
	for _, text := range sampleTexts() {
		context := c.u.o.Vocabulary.Encode(text)
		for i := 0; i < each && len(c.first) < questions; i++ {
			began := time.Now()
			r, err := c.m.askEngine(ctx, c.newQuestion(slices.Clone(context)))
			if err != nil {
				return Fail, "", err
			}
			took = append(took, time.Since(began))
			c.contexts, c.first = append(c.contexts, slices.Clone(context)), append(c.first, r)
			context = append(context, r.Token)
		}
	}
	slices.Sort(took)
	at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100].Round(10 * time.Microsecond) }
	return Pass, fmt.Sprintf("%d questions were answered: %s for half of them, %s for 90%%, %s for the slowest",
		len(took), at(50), at(90), at(100)), nil
}

func (c *engineCheck) checkRepeats(ctx context.Context) (Verdict, string, error) {
	const together = 8
	replies := make([]dialect.Reply, len(c.contexts))
	var asks errgroup.Group
	asks.SetLimit(together)
	for i, context := range c.contexts {
		asks.Go(func() (err error) {
			replies[i], err = c.m.askEngine(ctx, c.newQuestion(context))
			return err
		})
	}
	if err := asks.Wait(); err != nil {
		return Fail, "", err
	}
	other, apart := 0, 0.0
	for i, r := range replies {
		if r.Token != c.first[i].Token {
			other++
		}
		if len(r.Top) > 0 && len(c.first[i].Top) > 0 && r.Top[0].ID == c.first[i].Top[0].ID {
			apart = max(apart, math.Abs(float64(r.Top[0].LogProb-c.first[i].Top[0].LogProb)))
		}
	}
	found := fmt.Sprintf("%d of %d answers differ; log-probabilities by up to %.2g", other, len(replies), apart)
	if other > 0 {
		return Note, found + ": the gateway stores the first answer for repeated questions", nil
	}
	return Pass, found, nil
}

func (c *engineCheck) checkProbabilities(context.Context) (Verdict, string, error) {
	if c.u.most == 0 {
		return Note, "it returns none: questions with a temperature above 0 are not possible", nil
	}
	missing := 0
	for _, r := range c.first {
		sum := 0.0
		for _, t := range r.Top {
			sum += math.Exp(float64(t.LogProb))
		}
		switch {
		case len(r.Top) == 0:
			missing++
		case sum > 1.01:
			return Fail, fmt.Sprintf("the probabilities of some tokens sum up to %.3f", sum), nil
		case r.Top[0].ID != r.Token && r.Top[0].LogProb > r.Top[min(1, len(r.Top)-1)].LogProb+1e-3:
			return Fail, "its token is not its most probable one: it samples, or adds a penalty", nil
		}
	}
	found := fmt.Sprintf("tokens are drawn from up to %d", c.u.most)
	if missing > 0 {
		return Note, fmt.Sprintf("%s; they were missing for %d of %d tokens", found, missing, len(c.first)), nil
	}
	return Pass, found, nil
}

// checkAudit requests audits of positions in the engine's cache, as devices that verify do, and compares them with
// questions about these positions.
func (c *engineCheck) checkAudit(ctx context.Context) (Verdict, string, error) {
	if c.u.info.Audit != netproto.ExactAudit {
		return Note, "it cannot audit the tokens before a question: devices cannot verify", nil
	}
	audited, wrong := 0, 0
	for i, context := range c.contexts {
		if len(context) < 3 || i%4 != 0 {
			continue
		}
		a := c.newQuestion(context)
		a.AuditFrom, a.All = max(1, len(context)-6), true
		r, err := c.m.askEngine(ctx, a)
		if err = cmp.Or(err, r.Unheard); err != nil {
			return Fail, "", err
		}
		if want := len(context) - a.AuditFrom; len(r.Rows) != want {
			return Fail, fmt.Sprintf("it audited %d of %d positions", len(r.Rows), want), nil
		}
		audited += len(r.Rows)
		for j, row := range r.Rows {
			direct, err := c.m.askEngine(ctx, c.newQuestion(context[:a.AuditFrom+j]))
			if err != nil {
				return Fail, "", err
			}
			if row.Top[0].ID != direct.Token {
				wrong++
			}
		}
	}
	found := fmt.Sprintf("%d positions; %d differ from single questions", audited, wrong)
	if wrong > 0 {
		return Note, found, nil
	}
	return Pass, found, nil
}

// longContext returns a long context that differs from those of all previous questions.
func (c *engineCheck) longContext(salt int32) []int32 {
	n := 400
	if most := c.u.info.MaxContext; most > 0 {
		n = min(n, most)
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = (int32(i)*7 + int32(i*i)%11 + salt) % int32(min(c.u.o.Vocabulary.Size(), 200))
	}
	return ids
}

func (c *engineCheck) checkCache(ctx context.Context) (Verdict, string, error) {
	text := c.longContext(1)
	if _, err := c.m.askEngine(ctx, c.newQuestion(text[:len(text)-1])); err != nil {
		return Fail, "", err
	}
	r, err := c.m.askEngine(ctx, c.newQuestion(text))
	switch {
	case err != nil:
		return Fail, "", err
	case r.Cached < 0:
		return Note, "it does not report its use of the cache", nil
	}
	found := fmt.Sprintf("of %d repeated tokens, its cache had %d", len(text)-1, r.Cached)
	if r.Cached < len(text)/2 {
		return Note, found + ": is prefix caching off?", nil
	}
	return Pass, found, nil
}

func (c *engineCheck) checkClientSeparation(ctx context.Context) (Verdict, string, error) {
	a := c.newQuestion(c.longContext(2))
	if _, err := c.m.askEngine(ctx, a); err != nil {
		return Fail, "", err
	}
	a.Salt, a.Session, a.Name = c.u.cacheSalt(2, 0), a.Session+1, a.Name+"-2"
	r, err := c.m.askEngine(ctx, a)
	switch {
	case err != nil:
		return Fail, "", err
	case r.Cached < 0:
		return Note, "it does not report its use of the cache", nil
	case r.Cached > 0:
		return Note, fmt.Sprintf("another client found %d tokens in the cache: by timing, clients can learn what "+
			"others asked", r.Cached), nil
	}
	return Pass, "another client finds none of it in the cache", nil
}

// checkTooLong asks about more tokens than fit. The engine must report that and continue to work.
func (c *engineCheck) checkTooLong(ctx context.Context) (Verdict, string, error) {
	most := c.u.info.MaxContext
	if most == 0 || most > 65536 {
		return Note, "not tried: its maximum context is unknown or very large", nil
	}
	if _, err := c.m.askEngine(ctx, c.newQuestion(make([]int32, most+64))); !errors.Is(err, netproto.TooLarge) {
		return Note, fmt.Sprintf("%d tokens were not refused as too long, but: %v", most+64, err), nil
	}
	if _, err := c.m.askEngine(ctx, c.newQuestion(c.contexts[0])); err != nil {
		return Fail, "", fmt.Errorf("after a context that was too long: %w", err)
	}
	return Pass, fmt.Sprintf("%d tokens are refused", most+64), nil
}
