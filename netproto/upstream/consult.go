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

// order returns the engines in service, in the order of preference for a session. It uses rendezvous hashing (Thaler
// and Ravishankar, "Using name-based mappings to increase hit rates", 1998): a session stays with the engine that has
// its cache, and when an engine fails only its own sessions move. Engines that are full or have reported it come last.
func (u *Upstream) order(session uint64) []*member {
	var free, full []*member
	for _, m := range u.members {
		if _, ok := m.serves(); ok && m.full() {
			full = append(full, m)
		} else if ok {
			free = append(free, m)
		}
	}
	weight := func(m *member) uint64 { return maphash.Comparable(u.memory.seed, place{m.url, session}) }
	for _, all := range [][]*member{free, full} {
		slices.SortFunc(all, func(a, b *member) int { return cmp.Compare(weight(b), weight(a)) })
	}
	return append(free, full...)
}

// place is an engine for a session.
type place struct {
	url     string
	session uint64
}

// consult asks the session's engine, and if that fails the next one: a question may be repeated.
func (u *Upstream) consult(ctx context.Context, session uint64, a dialect.Ask) (r dialect.Reply, err error) {
	order := u.order(session)
	if len(order) == 0 {
		return r, u.noEngine()
	}
	for _, m := range order {
		if r, err = m.ask(ctx, a); err == nil || ctx.Err() != nil || !elsewhere(err) {
			break
		}
	}
	return r, refused(err)
}

// elsewhere reports whether another engine may answer a question that failed with err: unless it is too long for all.
func elsewhere(err error) bool {
	code, _ := errors.AsType[netproto.Code](err)
	return code != netproto.TooLarge
}

// noEngine returns the error when no engine is in service.
func (u *Upstream) noEngine() error {
	wait := longestPause
	for _, m := range u.members {
		wait = min(wait, m.nextTry())
	}
	return netproto.Refusal{
		Code: netproto.Failed, RetryAfter: max(wait, 100*time.Millisecond),
		Detail: "no engine of the large model is in service",
	}
}

// refused converts an engine's error for the client: whether, and when, it should ask again.
func refused(err error) error {
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
