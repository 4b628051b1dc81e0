// Package upstream connects a gateway to inference engines that speak HTTP: SGLang, vLLM and llama-server. It chooses
// an engine for each question, draws tokens from the returned probabilities, stores the answers so that a repeated
// question gets the same answer, and takes failing engines out of service. Package dialect has the engines' interfaces.
package upstream

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// Options configure an Upstream. URLs, Vocabulary, Identity and Draw are required.
type Options struct {
	URLs  []string        // of engines that serve the same model
	Model string          // the engines' name for the model, if they serve several
	Key   netproto.Secret // required by the engines; "" means none

	Vocabulary dialect.Vocabulary // of the devices' model
	Identity   netproto.Identity  // of the devices' model
	Ends       []int32            // tokens of the model that end a text

	// Draw returns the token at position pos, drawn from the most probable ones with the same noise as on devices. The
	// scores that decided the draw are those of the drawn token and of the token in the text: log-probabilities
	// divided by the temperature plus the noise, and -Inf for a token that cannot be drawn.
	Draw func(s terms.Sampling, pos int, top []terms.Candidate, stands int32) (
		choice int32, score, standing float32, err error)

	Patience time.Duration // at the start, for the first engine to answer; 0 means no wait

	// Transport carries the requests; nil means one over TCP for each engine.
	Transport http.RoundTripper

	Log *slog.Logger // logs when engines go out of service and come back; nil means no log
}

func (o Options) checkRequired() error {
	switch {
	case len(o.URLs) == 0:
		return errors.New("upstream: no engine is given")
	case o.Vocabulary == nil || o.Draw == nil:
		return errors.New("upstream: Vocabulary and Draw are required")
	}
	return nil
}

// Upstream is one large model, served by one engine or several. It implements gateway.Upstream, gateway.Warmer and
// gateway.Decoder.
type Upstream struct {
	o       Options
	engines []*managedEngine
	info    gateway.Info
	most    int // probabilities that every engine returns
	cache   *answerCache
	saltKey [32]byte // key for the salts of clients
	name    string   // prefix of the names of its requests
	count   atomic.Uint64
	stop    context.CancelFunc
	watched sync.WaitGroup

	printed sync.Mutex
	print   fingerprint // of the first engine in service
	printOf string      // its URL
}

// Open checks what the engines can do and whether they have the vocabulary. It returns when each has answered or
// failed, and at least one is in service. An engine that does not answer yet joins later; an engine that answers but is
// not suitable is an error. Close the Upstream when the gateway has ended.
func Open(ctx context.Context, o Options) (*Upstream, error) {
	if err := o.checkRequired(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	const answers = 65536 // that are stored for repeated questions
	u := &Upstream{o: o, cache: newAnswerCache(answers), name: "pf-" + rand.Text()[:8]}
	_, _ = rand.Read(u.saltKey[:]) // always returns nil
	for i, address := range o.URLs {
		m, err := newManagedEngine(u, address)
		if err != nil {
			return nil, fmt.Errorf("upstream %d: %w", i+1, err) // the address may contain a password
		}
		if slices.ContainsFunc(u.engines, func(x *managedEngine) bool { return x.hostPath == m.hostPath }) {
			return nil, fmt.Errorf("upstream %d: %s is given twice", i+1, m.url)
		}
		u.engines = append(u.engines, m)
	}
	if err := u.joinEngines(ctx); err != nil {
		u.closeEngines()
		return nil, err
	}
	u.info = u.mergeInfo()
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	u.stop = stop
	for _, m := range u.engines {
		u.watched.Go(func() { m.monitorEngine(watch) })
	}
	return u, nil
}

// joinEngines tries all engines until at least one is in service.
func (u *Upstream) joinEngines(ctx context.Context) error {
	due := time.Now().Add(u.o.Patience)
	for {
		errs := make([]error, len(u.engines))
		var done sync.WaitGroup
		for i, m := range u.engines {
			done.Go(func() { errs[i] = m.putInService(ctx) })
		}
		done.Wait()
		served := false
		for i, m := range u.engines {
			if errs[i] == nil {
				served = true
			} else if isUnsuitable(errs[i]) || ctx.Err() != nil {
				return fmt.Errorf("%s: %w", m.url, errs[i])
			}
		}
		switch {
		case served:
			return nil
		case !time.Now().Before(due):
			return fmt.Errorf("%s: %w", u.engines[0].url, errs[0])
		}
		u.o.Log.Info("waiting for an engine", "error", errs[0].Error())
		if err := retry.Wait(ctx, min(2*time.Second, time.Until(due))); err != nil {
			return err
		}
	}
}

func (u *Upstream) mergeInfo() (info gateway.Info) {
	first := true
	for _, m := range u.engines {
		f, ok := m.serviceState()
		if !ok {
			info.Parallel += maxParallel(dialect.Facts{})
			continue
		}
		info.Parallel += maxParallel(f)
		if first {
			info.Model, info.MaxContext, info.Choices, info.Audit = f.Model, f.MaxContext, f.Choices, f.Audit
		}
		first = false
		if f.MaxContext > 0 && (info.MaxContext == 0 || f.MaxContext < info.MaxContext) {
			info.MaxContext = f.MaxContext
		}
		info.Choices, info.Audit = min(info.Choices, f.Choices), min(info.Audit, f.Audit)
	}
	// some engines crash if more are requested than there are
	u.most = min(info.Choices, u.o.Vocabulary.Size())
	info.Choices = max(info.Choices, 1) // with one probability, drawing is choosing the best
	info.Identity, info.Ends = u.o.Identity, u.o.Ends
	return info
}

// Close stops the monitoring of the engines. There must be no open requests.
func (u *Upstream) Close() {
	u.stop()
	u.watched.Wait()
	u.closeEngines()
}

func (u *Upstream) closeEngines() {
	for _, m := range u.engines {
		m.closeEngine()
	}
}

// Info implements gateway.Upstream.
func (u *Upstream) Info() gateway.Info { return u.info }

// Ask implements gateway.Upstream. A repeated question gets the same token, as long as the answer is stored: an engine
// may round differently in another batch.
func (u *Upstream) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	key := u.cache.answerKey(q)
	if a, ok := u.cache.lookupAnswer(key, q); ok {
		return a, nil
	}
	if q.Verify != terms.AsItComes {
		if err := u.info.Audit.CannotVerify(); err != nil {
			return terms.Reply{}, err
		}
	}
	ask, drops := u.newEngineAsk(q), u.cache.drops.Load()
	r, err := u.askEngines(ctx, q.Session, ask)
	if err != nil {
		return terms.Reply{}, err
	}
	a := terms.Reply{Token: r.Token, Top: r.Top, Compute: r.Compute}
	if !q.Sampling.Greedy() {
		if a.Token, err = u.drawToken(q, r.Top); err != nil {
			return terms.Reply{}, err
		}
	}
	a.Top = a.Top[:min(q.K, len(a.Top))]
	if ask.AuditFrom > 0 {
		if a.Audit, err = u.auditRows(q, r); err != nil {
			return terms.Reply{}, err
		}
		a.Audited = len(r.Rows)
	}
	return u.cache.storeAnswer(key, drops, q, a), nil
}

func (u *Upstream) drawToken(q terms.Job, top []terms.Candidate) (int32, error) {
	want := min(q.Sampling.TopK, u.o.Vocabulary.Size())
	if want < 1 || len(top) < want {
		return 0, fmt.Errorf("%w: the engine returned %d probabilities, drawing needs %d", netproto.Failed,
			len(top), want)
	}
	token, _, _, err := u.o.Draw(q.Sampling, len(q.Context), top[:want], -1)
	return token, err
}

func (u *Upstream) newEngineAsk(q terms.Job) dialect.Ask {
	a := dialect.Ask{
		Name: fmt.Sprintf("%s-%d", u.name, u.count.Add(1)), Session: q.Session, Salt: u.cacheSalt(q.Client, q.Domain),
		Context: q.Context,
		K:       min(q.K, u.most),
	}
	if !q.Sampling.Greedy() {
		a.K = max(a.K, min(q.Sampling.TopK, u.most))
	}
	if u.info.Audit == netproto.ExactAudit && q.AuditFrom > 0 && q.AuditFrom < len(q.Context) {
		a.AuditFrom, a.All = q.AuditFrom, q.Verify != terms.AsItComes
		if a.All && !q.Sampling.Greedy() {
			a.Rows = min(q.Sampling.TopK, u.most)
		}
	}
	return a
}

// cacheSalt returns the salt that separates a client's cache from those of others, if the engine supports that. Each
// domain of a client also has its own cache.
func (u *Upstream) cacheSalt(client, domain uint64) string {
	mac := hmac.New(sha256.New, u.saltKey[:])
	mac.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, client), domain))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// Warm implements gateway.Warmer. It prefills only if there are enough new tokens and the engine has capacity.
func (u *Upstream) Warm(ctx context.Context, q terms.Job) error {
	const least = 128 // new tokens
	if len(q.Context)-q.Base < least {
		return nil
	}
	order := u.rankEngines(q.Session)
	if len(order) == 0 {
		return u.noEngineError()
	}
	return order[0].warmEngine(ctx, u.newEngineAsk(terms.Job{Client: q.Client, Domain: q.Domain, Session: q.Session,
		Question: terms.Question{Context: q.Context}}))
}

// Next implements gateway.Decoder. It asks for one token if the session's engine has capacity. The answer is stored, so
// that a question about the same context gets the same token.
func (u *Upstream) Next(ctx context.Context, q terms.Job) (int32, error) {
	order := u.rankEngines(q.Session)
	if len(order) == 0 {
		return 0, u.noEngineError()
	}
	if !order[0].hasSpareCapacity() {
		return 0, errBusy
	}
	a, err := u.Ask(ctx, q)
	return a.Token, err
}

// Forget implements gateway.Upstream.
func (u *Upstream) Forget(session uint64) {
	for _, m := range u.engines {
		if f, ok := m.currentEngine().(dialect.Forgetter); ok {
			f.Forget(session)
		}
	}
}

var (
	_ gateway.Upstream = (*Upstream)(nil)
	_ gateway.Warmer   = (*Upstream)(nil)
	_ gateway.Decoder  = (*Upstream)(nil)
)
