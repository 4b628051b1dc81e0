package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// rankEngines returns the engines in service, in the order of preference for a session. It uses rendezvous hashing
// (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998): a session stays with the engine
// that has its cache, and when an engine fails only its own sessions move. Engines that are full or have reported it
// come last.
func (u *Upstream) rankEngines(session uint64) []*managedEngine {
	var free, full []*managedEngine
	for _, m := range u.engines {
		if _, ok := m.serviceState(); ok && m.isAtCapacity() {
			full = append(full, m)
		} else if ok {
			free = append(free, m)
		}
	}
	weight := func(m *managedEngine) uint64 { return maphash.Comparable(u.cache.seed, rendezvousKey{m.url, session}) }
	for _, all := range [][]*managedEngine{free, full} {
		slices.SortFunc(all, func(a, b *managedEngine) int { return cmp.Compare(weight(b), weight(a)) })
	}
	return append(free, full...)
}

// rendezvousKey is an engine for a session.
type rendezvousKey struct {
	url     string
	session uint64
}

// askEngines asks the session's engine, and if that fails the next one: a question may be repeated.
func (u *Upstream) askEngines(ctx context.Context, session uint64, a dialect.Ask) (r dialect.Reply, err error) {
	order := u.rankEngines(session)
	if len(order) == 0 {
		return r, u.noEngineError()
	}
	for _, m := range order {
		if r, err = m.askEngine(ctx, a); err == nil || ctx.Err() != nil || !canRetryElsewhere(err) {
			break
		}
	}
	return r, errorForClient(err)
}

// canRetryElsewhere reports whether another engine may answer a question that failed with err: unless it is too long
// for all.
func canRetryElsewhere(err error) bool {
	code, _ := errors.AsType[netproto.Code](err)
	return code != netproto.TooLarge
}

func (u *Upstream) noEngineError() error {
	wait := longestPause
	for _, m := range u.engines {
		wait = min(wait, m.timeToNextTry())
	}
	return netproto.Refusal{
		Code: netproto.Failed, RetryAfter: max(wait, 100*time.Millisecond),
		Detail: "no engine of the large model is in service",
	}
}

// errorForClient converts an engine's error for the client: whether, and when, it should ask again.
func errorForClient(err error) error {
	s, ok := errors.AsType[*dialect.StatusError](err)
	r := netproto.Refusal{Detail: "the large model's engine takes no more questions"}
	switch r.Code, _ = errors.AsType[netproto.Code](err); {
	case ok && (r.Code == netproto.TooFast || r.Code == netproto.Busy):
		r.RetryAfter = s.RetryAfter
	case ok && r.Code == netproto.TooLarge:
		r.Detail = "the context is longer than the large model's engine takes"
	default:
		return err
	}
	return fmt.Errorf("%w: %w", r, err)
}
