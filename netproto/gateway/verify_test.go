package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestVersions: a Hello of another version is refused, with the version that the gateway speaks.
func TestVersions(t *testing.T) {
	inWorld(t, gateway.Options{}, &decoder{fake: &fake{}}, func(t *testing.T, w *world) {
		assert.Equal(t, netproto.MaxAhead, w.enter(guest{}).welcome.Ahead)
		for _, version := range []int{0, netproto.Version + 1} {
			refusal := w.turned(guest{hello: func(h *netproto.Hello) { h.Version = version }}, netproto.WrongVersion)
			assert.Equal(t, "it speaks version 1", refusal.Detail)
		}
	})
}

// TestCannotVerify: if the audit is not exact, an ask for verification is refused with the reason, before the upstream
// is asked.
func TestCannotVerify(t *testing.T) {
	up := &decoder{fake: &fake{}, audit: netproto.NoAudit}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		r := w.enter(guest{})
		for _, verify := range []terms.Verify{terms.EachChoice, terms.EachScore, terms.EachJudged} {
			a := whole(t, 1, path(20, 1))
			a.Verify = verify
			refusal := r.refused(a.Append(nil), netproto.CannotVerify)
			assert.Contains(t, refusal.Detail, "looks at no tokens")
		}
		assert.Empty(t, up.fake.asked)
		a := whole(t, 1, path(20, 1))
		a.AuditFrom = 12
		r.answered(a)
		settle()
		assert.Equal(t, terms.AsItComes, w.eventsOf(gateway.Answered)[0].Verify)
	})
}

// TestNoJudge: an ask for a judge's verification is refused where there is none, before the upstream is asked.
func TestNoJudge(t *testing.T) {
	up := &decoder{fake: &fake{}, audit: netproto.ExactAudit}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		a := whole(t, 1, path(20, 1))
		a.AuditFrom, a.Verify = 12, terms.EachJudged
		refusal := w.enter(guest{}).refused(a.Append(nil), netproto.CannotVerify)
		assert.Contains(t, refusal.Detail, "has no judge")
		assert.Empty(t, up.fake.asked)
	})
}

// TestVerified: an incomplete verification is an error of the upstream, never an answer with a gap. A correct one
// arrives unchanged. Where there is nothing to verify, nothing is asked.
func TestVerified(t *testing.T) {
	const n, from = 20, 12
	p := path(n, 1)
	found := []terms.Finding{{Pos: 15, Token: (p[15] + 1) % vocab, LogProb: -1, Score: 0.5, Stands: -2}}
	for name, c := range map[string]struct {
		from, audited int
		findings      []terms.Finding
		good          bool
	}{
		"all": {from, 8, found, true}, "nothing to verify": {n, 0, nil, true}, "beyond the end": {n + 5, 0, nil, true},
		"no audit": {0, 0, nil, true}, "fewer": {from, 7, nil, false},
		"no scores": {from, 8, []terms.Finding{{Pos: 15, Token: found[0].Token}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			up := &decoder{fake: &fake{}, audit: netproto.ExactAudit}
			up.change = func(_ terms.Job, a *terms.Reply) error {
				a.Audited, a.Audit = c.audited, c.findings
				return nil
			}
			inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
				r := w.enter(guest{})
				a := whole(t, 1, p)
				a.AuditFrom, a.Verify = c.from, terms.EachScore
				if !c.good {
					refusal := r.refused(a.Append(nil), netproto.Failed)
					assert.Empty(t, refusal.Detail, "the reason is not sent")
					settle()
					assert.ErrorContains(t, w.eventsOf(gateway.Refused)[0].Err, "it")
					return
				}
				answer := r.answered(a)
				q := up.question(0)
				if c.from == from {
					assert.Equal(t, terms.EachScore, q.Verify)
					assert.Equal(t, from, q.AuditFrom)
				} else {
					assert.Equal(t, terms.AsItComes, q.Verify)
					assert.Zero(t, q.AuditFrom)
				}
				assert.Equal(t, c.audited, answer.Audited)
				assert.Equal(t, c.findings, answer.Audit)
				settle()
				assert.Equal(t, terms.EachScore, w.eventsOf(gateway.Answered)[0].Verify)
			})
		})
	}
}
