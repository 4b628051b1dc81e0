package upstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
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
	c := &check{u: u, m: u.members[0], salt: u.salt(1, 0)}
	failed := 0
	for _, one := range []struct {
		name string
		run  func(context.Context) (Verdict, string, error)
	}{
		{"start", c.start}, {"vocabulary", c.vocabulary}, {"answers", c.answers}, {"the same again", c.again},
		{"the same in company", c.company}, {"probabilities", c.probabilities}, {"audit", c.audit},
		{"verification", c.verification}, {"cache", c.cache}, {"clients apart", c.apart},
		{"cancel", c.cancel}, {"too long", c.tooLong}, {"time", c.time},
	} {
		v, found, err := one.run(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case errors.Is(err, dialect.ErrPiece):
			v, found = Note, err.Error()
		case err != nil:
			v, found = Fail, dialect.Said(err) // the questions contain no text of users
		}
		if v == Fail {
			failed++
		}
		tell(Result{one.name, v, found})
		if one.name == "answers" && len(c.first) == 0 {
			break // the other checks compare with these answers
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d checks failed: the engine must not be used behind the gateway as it is", failed)
	}
	return nil
}

// check asks one engine, without the cache of answers.
type check struct {
	u        *Upstream
	m        *member
	salt     string
	contexts [][]int32       // of the questions
	first    []dialect.Reply // answers to these
}

const questions = 100

func (c *check) question(context []int32) dialect.Ask {
	a := dialect.Ask{
		Name: fmt.Sprintf("%s-%d", c.u.name, c.u.count.Add(1)), Session: 1 + uint64(len(context)%4), Salt: c.salt,
		Context: context, K: min(c.u.most, 5),
	}
	return a
}

func (c *check) ask(ctx context.Context, a dialect.Ask) (dialect.Reply, error) {
	return c.m.ask(ctx, a)
}

func (c *check) start(context.Context) (Verdict, string, error) {
	f, _ := c.m.serves()
	return Pass, fmt.Sprintf("%s %s serves %s, contexts of %d tokens (0: unknown), "+
		"%d questions at a time (0: unknown)", f.Dialect, f.Version, f.Model, f.MaxContext, f.Parallel), nil
}

func (c *check) vocabulary(ctx context.Context) (Verdict, string, error) {
	f, _ := c.m.serves()
	v := c.u.o.Vocabulary
	if err := checkVocabulary(ctx, c.m.engine(), f, v, false); err != nil && c.u.o.TrustVocabulary {
		return Note, "not compared (--engine trust-vocabulary)", nil
	} else if err != nil {
		return Fail, "", err
	}
	if _, err := c.m.engine().Detokenize(ctx, []int32{0}); errors.Is(err, dialect.ErrAbsent) {
		return Note, "it cannot detokenize; " +
			"the tokens that it repeats or generates have the same text", nil
	}
	return Pass, fmt.Sprintf("all %d tokens have the same text", v.Size()), nil
}

// answers continues some texts token by token.
func (c *check) answers(ctx context.Context) (Verdict, string, error) {
	lost := 0
	for _, text := range texts() {
		context := c.u.o.Vocabulary.Encode(text)
		for range 10 {
			if len(c.contexts) == questions {
				break
			}
			r, err := c.ask(ctx, c.question(slices.Clone(context)))
			if errors.Is(err, dialect.ErrPiece) {
				lost++
				break
			}
			if err != nil {
				return Fail, "", err
			}
			c.contexts, c.first = append(c.contexts, slices.Clone(context)), append(c.first, r)
			context = append(context, r.Token)
		}
	}
	if len(c.first) == 0 {
		return Fail, fmt.Sprintf("none of %d tokens could be identified by their text", lost), nil
	}
	if lost > 0 {
		return Note, fmt.Sprintf("%d questions were answered; %d tokens could not be identified by their text",
			len(c.first), lost), nil
	}
	return Pass, fmt.Sprintf("%d questions were answered", len(c.first)), nil
}

// same asks all questions again, some at a time, and compares the answers.
func (c *check) same(ctx context.Context, together int) (Verdict, string, error) {
	replies, errs := make([]dialect.Reply, len(c.contexts)), make([]error, len(c.contexts))
	var done sync.WaitGroup
	places := make(chan struct{}, together)
	for i, context := range c.contexts {
		places <- struct{}{}
		done.Go(func() {
			defer func() { <-places }()
			replies[i], errs[i] = c.ask(ctx, c.question(context))
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
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

func (c *check) again(ctx context.Context) (Verdict, string, error)   { return c.same(ctx, 1) }
func (c *check) company(ctx context.Context) (Verdict, string, error) { return c.same(ctx, 8) }

// probabilities checks the most probable tokens of the answers.
func (c *check) probabilities(context.Context) (Verdict, string, error) {
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

// audit compares audits of positions with questions about these positions.
func (c *check) audit(ctx context.Context) (Verdict, string, error) {
	kind := c.u.info.Audit
	if kind == netproto.NoAudit {
		return Note, "it cannot audit the tokens before a question", nil
	}
	looked, wrong, extra := 0, 0, 0
	for i, context := range c.contexts {
		if len(context) < 3 || i%4 != 0 {
			continue
		}
		from := max(1, len(context)-6)
		a := c.question(context)
		if kind == netproto.ExactAudit {
			a.AuditFrom = from
		} else {
			a.Sample = from + i%(len(context)-from)
		}
		r, err := c.ask(ctx, a)
		if err == nil {
			err = r.Unheard
		}
		if err != nil {
			return Fail, "", err
		}
		looked, extra = looked+r.Audited, extra+r.Extra
		different, err := c.differs(ctx, a, r, from)
		if err != nil {
			return Fail, "", err
		}
		wrong += different
	}
	found := fmt.Sprintf("%s: %d positions, with %d extra tokens computed; %d differ from single questions",
		kind, looked, extra, wrong)
	switch {
	case looked == 0:
		return Fail, found, nil
	case wrong > 0:
		return Note, found, nil
	}
	return Pass, found, nil
}

// differs counts the positions after from where the audit in r differs from a question about that position.
func (c *check) differs(ctx context.Context, a dialect.Ask, r dialect.Reply, from int) (wrong int, err error) {
	for pos := from; pos < len(a.Context); pos++ {
		if pos < len(a.Context)-r.Audited && a.Sample == 0 || a.Sample > 0 && pos != a.Sample {
			continue
		}
		direct, err := c.ask(ctx, c.question(a.Context[:pos]))
		if err != nil {
			return 0, err
		}
		at := slices.IndexFunc(r.Audit, func(f terms.Finding) bool { return f.Pos == pos })
		if (direct.Token != a.Context[pos]) != (at >= 0) || at >= 0 && r.Audit[at].Token != direct.Token {
			wrong++
		}
	}
	return wrong, nil
}

// verification requests audits of positions in the engine's cache, as devices that verify do, and compares them with
// questions about these positions.
func (c *check) verification(ctx context.Context) (Verdict, string, error) {
	if c.u.info.Audit.CannotVerify() != nil {
		return Note, "it cannot verify: this requires an exact audit", nil
	}
	looked, wrong, requests := 0, 0, 0
	for i, context := range c.contexts {
		if len(context) < 3 || i%4 != 0 {
			continue
		}
		a := c.question(context)
		a.AuditFrom, a.Rows = max(1, len(context)-6), 1
		r, err := c.ask(ctx, a)
		if err == nil {
			err = r.Unheard
		}
		if err != nil {
			return Fail, "", err
		}
		if want := len(context) - a.AuditFrom; len(r.Rows) != want {
			return Fail, fmt.Sprintf("it audited %d of %d positions", len(r.Rows), want), nil
		}
		looked, requests = looked+len(r.Rows), requests+r.Requests-1
		for j, row := range r.Rows {
			direct, err := c.ask(ctx, c.question(context[:a.AuditFrom+j]))
			if err != nil {
				return Fail, "", err
			}
			if row.Top[0].ID != direct.Token {
				wrong++
			}
		}
	}
	found := fmt.Sprintf("%d positions, with %d extra requests for cached tokens; "+
		"%d differ from single questions", looked, requests, wrong)
	if wrong > 0 {
		return Note, found, nil
	}
	return Pass, found, nil
}

// long returns a context that differs from those of all previous questions, as long as most audits need.
func (c *check) long(n int, salt int32) []int32 {
	if most := c.u.info.MaxContext; most > 0 {
		n = min(n, most)
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = (int32(i)*7 + int32(i*i)%11 + salt) % int32(min(c.u.o.Vocabulary.Size(), 200))
	}
	return ids
}

// cache asks about a long context twice.
func (c *check) cache(ctx context.Context) (Verdict, string, error) {
	text := c.long(400, 1)
	cold, err := c.ask(ctx, c.question(text[:len(text)-1]))
	if err != nil {
		return Fail, "", err
	}
	a := c.question(text)
	a.Session = 1 + uint64((len(text)-1)%4) // the session of the previous question
	warm, err := c.ask(ctx, a)
	switch {
	case err != nil:
		return Fail, "", err
	case warm.Cached < 0:
		return Note, "it does not report its use of the cache", nil
	case warm.Cached < len(text)/2:
		return Note, fmt.Sprintf("of %d repeated tokens, its cache had %d: is prefix caching off?",
			len(text)-1, warm.Cached), nil
	}
	return Pass, fmt.Sprintf("of %d repeated tokens, its cache had %d (%d before)",
		len(text)-1, warm.Cached, max(cold.Cached, 0)), nil
}

// apart asks about the same context as two clients.
func (c *check) apart(ctx context.Context) (Verdict, string, error) {
	a := c.question(c.long(400, 2))
	if _, err := c.ask(ctx, a); err != nil {
		return Fail, "", err
	}
	a.Salt, a.Session, a.Name = c.u.salt(2, 0), a.Session+1, a.Name+"-2"
	r, err := c.ask(ctx, a)
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

// cancel cancels a question about a long context, and measures how long the next one takes.
func (c *check) cancel(ctx context.Context) (Verdict, string, error) {
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	began := time.Now()
	_, err := c.ask(short, c.question(c.long(4000, 3)))
	cancel()
	returned := time.Since(began)
	if err == nil {
		return Pass, fmt.Sprintf("the longest question took %s: there was nothing to cancel",
			returned.Round(time.Millisecond)), nil
	}
	began = time.Now()
	if _, err := c.ask(ctx, c.question(c.contexts[0])); err != nil {
		return Fail, "", err
	}
	return Pass, fmt.Sprintf("a question cancelled after 5 ms returned after %s, and the next one took %s",
		returned.Round(time.Millisecond), time.Since(began).Round(time.Millisecond)), nil
}

// tooLong asks about more tokens than fit. The engine must report that and continue to work.
func (c *check) tooLong(ctx context.Context) (Verdict, string, error) {
	most := c.u.info.MaxContext
	if most == 0 || most > 65536 {
		return Note, "not tried: its maximum context is unknown or very large", nil
	}
	a := c.question(make([]int32, most+64))
	if _, err := c.ask(ctx, a); !errors.Is(err, netproto.TooLarge) {
		return Note, fmt.Sprintf("%d tokens were not refused as too long, but: %v", most+64, err), nil
	}
	if _, err := c.ask(ctx, c.question(c.contexts[0])); err != nil {
		return Fail, "", fmt.Errorf("after a context that was too long: %w", err)
	}
	return Pass, fmt.Sprintf("%d tokens are refused", most+64), nil
}

// time asks the questions again in order, when all are cached.
func (c *check) time(ctx context.Context) (Verdict, string, error) {
	var took []time.Duration
	for _, context := range c.contexts {
		began := time.Now()
		if _, err := c.ask(ctx, c.question(context)); err != nil {
			return Fail, "", err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[min(len(took)-1, int(share*float64(len(took))))].Round(10 * time.Microsecond)
	}
	return Pass, fmt.Sprintf("%s for half of the answers, %s for 90%%, %s for the slowest of %d", at(0.5), at(0.9),
		at(1), len(took)), nil
}
