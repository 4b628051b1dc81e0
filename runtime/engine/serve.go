package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shirou/gopsutil/v4/mem"

	"github.com/pilotfish-ai/pilotfish/internal/freemem"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// ServeOptions limit an engine that answers questions of other devices. The zero value works.
type ServeOptions struct {
	// Slots is the number of tokens in memory, of all sessions together; 0 means what fits into half of the memory that
	// the weights leave free, 1 to 256 contexts: see [Service.Slots].
	Slots int
	Rows  int // max new tokens of one step; 0 means 128

	// Lookup is the max number of tokens of one forward call with guesses from the text: 2 to 8. A device that asks for
	// one token after the other then gets some answers without a call. 0 means 8, negative: no guesses. The answers
	// are the same with any value.
	Lookup int

	// Apart means that sessions share nothing. Otherwise a common beginning of the sessions of one domain, such as a
	// system prompt, is computed once and kept once. In that case a client that tries texts token by token can find
	// out, from the times of answers, what others of its domain asked lately; see package batch. The answers are the
	// same.
	Apart bool

	// Judge verifies tokens as [terms.EachJudged]; nil: there is none.
	Judge *router.Judge

	// min time of an answer, and of each token ahead, to stand in for a larger model; 0 means none
	AnswerTime time.Duration
}

// Service answers with one engine which token follows a context, for many sessions at once. Questions that wait
// together are computed together. [Service.Local] makes it the cloud of a draft in the same process.
type Service struct {
	*batch.Service
	e     *Engine
	kv    backend.KVConfig
	least time.Duration
	judge string // fingerprint; "" for none

	ahead    aheadDecoders
	sessions atomic.Uint64 // given by Session
}

// Serve starts a service. Close it before the engine.
func (e *Engine) Serve(o ServeOptions) (*Service, error) {
	if o.Slots == 0 {
		free, err := freemem.Bytes()
		if err != nil {
			return nil, fmt.Errorf("%w; say how many tokens to keep", err)
		}
		kv := e.kvConfig(1)
		o.Slots = fitSlots(free, uint64(e.file.Size())+uint64(kv.FixedBytes()), kv.SlotBytes(), e.o.Context)
	}
	if o.Slots < e.o.Context {
		return nil, fmt.Errorf("memory for %d tokens is less than one context of %d tokens: "+
			"give more, or a shorter context", o.Slots, e.o.Context)
	}
	if o.Judge != nil {
		if err := o.Judge.Fits(e.Width()); err != nil {
			return nil, err
		}
	}
	if err := checkSlotMemory(o.Slots, e.kvConfig(1).SlotBytes()); err != nil {
		return nil, err
	}
	done, err := e.acquireModel(context.Background())
	if err != nil {
		return nil, e.withFileName(context.Background(), err)
	}
	kv, err := e.model.NewKV(o.Slots, e.kvType)
	done()
	if err != nil {
		return nil, err
	}
	bounds := batch.Options{Context: e.o.Context, Rows: o.Rows, Lookup: o.Lookup, Apart: o.Apart}
	service := &Service{e: e, kv: kv.Config(), least: o.AnswerTime}
	if o.Judge != nil {
		bounds.Judge, service.judge = o.Judge.Confidence, o.Judge.Fingerprint()
	}
	service.Service, err = batch.New(serviceModel{e}, kv, bounds)
	return service, err
}

// Slots returns the number of tokens that the service keeps in memory, of all sessions together.
func (s *Service) Slots() int { return s.kv.Slots }

// Context is the longest context of a question, in tokens.
func (s *Service) Context() int { return s.e.o.Context }

// KVBytes returns the memory for keys and values when all slots are in use.
func (s *Service) KVBytes() int64 { return s.kv.Bytes() }

// askPaced answers q, but not before the min time.
func (s *Service) askPaced(ctx context.Context, q terms.Job) (batch.Answer, error) {
	soonest := time.NewTimer(s.least)
	defer soonest.Stop()
	a, err := s.Ask(ctx, q)
	if err != nil || s.least == 0 {
		return a, err
	}
	select {
	case <-soonest.C:
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
	a.Compute = max(a.Compute, s.least-a.Queue)
	return a, nil
}

// serviceModel is the model of an engine for a service. Sessions may use it as well.
type serviceModel struct{ e *Engine }

func (m serviceModel) Forward(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	ctx, release := m.e.bindContext(ctx)
	defer release()
	return m.e.withFileName(ctx, m.e.forwardExclusive(ctx, kv, rows, out, want))
}

// localCloud is the cloud of one session in the same process.
type localCloud struct {
	s       *Service
	session uint64
}

// Local returns a cloud that needs no network: it passes the questions of the given session to the service. Tokens
// ahead are decoded after the answer, while no question waits, until the context of the question ends, the session is
// forgotten or the service is closed. Prefilled counts tokens that were not in memory, or had to be computed again to
// verify what follows them, but not those that another question of the same step needs first.
func (s *Service) Local(session uint64) draft.Cloud { return localCloud{s, session} }

func (l localCloud) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	job := l.newJob(q)
	a, err := l.s.askPaced(ctx, job)
	if err != nil {
		return draft.Answer{}, err
	}
	answer := draft.Answer{Reply: a.Reply, Prefilled: a.Computed}
	if most := min(q.Ahead, l.s.Context()-len(q.Context)); most > 0 {
		text, token := terms.Behind(q.Context, a.Token, q.Verify, a.Audit)
		job.Question = terms.Question{Context: text, Sampling: q.Sampling}
		answer.Ahead = l.s.decodeAhead(ctx, job, token, most)
	}
	return answer, nil
}

// CannotVerify implements [draft.Verifier].
func (l localCloud) CannotVerify(_ terms.Sampling, judge string) error {
	return netproto.CannotJudge(l.s.judge, judge)
}

// Each session counts as a device.
func (l localCloud) newJob(q terms.Question) terms.Job {
	return terms.Job{Question: q, Device: l.session, Session: l.session}
}

// fitSlots returns the default number of tokens that a service keeps: as many as fit into half of the memory that the
// weights leave free, but at least one context and at most 256 contexts.
func fitSlots(free, weights uint64, bytesPerToken int64, context int) int {
	const maxContexts = 256
	left := (free - min(free, weights)) / 2
	return int(min(max(left/uint64(bytesPerToken), uint64(context)), uint64(maxContexts*context)))
}

// checkSlotMemory returns an error if the machine has less memory than slots tokens need. It does not check free
// memory, because memory is allocated as it is used.
func checkSlotMemory(slots int, bytesPerToken int64) error {
	v, err := mem.VirtualMemory()
	if err != nil {
		return nil // unknown
	}
	if most := v.Total / uint64(bytesPerToken); slots > 0 && uint64(slots) > most {
		return fmt.Errorf("keys and values of %d tokens are more than this machine has memory for: give at most %d",
			slots, most)
	}
	return nil
}
