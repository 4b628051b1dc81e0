package gateway_test

import (
	"math"
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
		for _, verify := range []terms.Verify{terms.EachChoice, terms.EachScore} {
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

// TestVerified: an incomplete or inconsistent verification is an error of the upstream, never an answer with a gap. A
// correct one arrives unchanged, with scores only if requested.
func TestVerified(t *testing.T) {
	const n, from = 20, 12
	p := path(n, 1)
	found := func(position int, token int32, score, stands float32) terms.Finding {
		return terms.Finding{Pos: position, Token: token, LogProb: -1, Score: score, Stands: stands}
	}
	other := (p[15] + 1) % vocab
	never := float32(math.Inf(-1))
	none := float32(math.NaN())
	const choices, scores = terms.EachChoice, terms.EachScore
	good := []terms.Finding{found(12, (p[12]+1)%vocab, -1, -2), found(15, other, 0.5, never),
		found(19, (p[19]+1)%vocab, 0, 0)}
	plain := []terms.Finding{found(12, (p[12]+1)%vocab, 0, 0), found(15, other, 0, 0),
		found(19, (p[19]+1)%vocab, 0, 0)}
	for name, c := range map[string]struct {
		verify   terms.Verify
		from     int
		audited  int
		findings []terms.Finding
		good     bool
	}{
		"all":                   {choices, from, 8, plain, true},
		"with scores":           {scores, from, 8, good, true},
		"nothing found":         {scores, from, 8, nil, true},
		"nothing to verify":     {choices, n, 0, nil, true},
		"beyond the end":        {choices, n + 5, 0, nil, true},
		"no audit":              {choices, 0, 0, nil, true},
		"fewer":                 {choices, from, 7, nil, false},
		"none":                  {choices, from, 0, nil, false},
		"before":                {choices, from, 8, []terms.Finding{found(11, (p[11]+1)%vocab, 0, 0)}, false},
		"after":                 {choices, from, 8, []terms.Finding{found(20, other, 0, 0)}, false},
		"twice":                 {choices, from, 8, []terms.Finding{plain[0], plain[1], plain[1]}, false},
		"out of order":          {choices, from, 8, []terms.Finding{plain[1], plain[0], plain[2]}, false},
		"the token there":       {choices, from, 8, []terms.Finding{found(15, p[15], 0, 0)}, false},
		"outside":               {choices, from, 8, []terms.Finding{found(15, vocab, 0, 0)}, false},
		"below":                 {choices, from, 8, []terms.Finding{found(15, -1, 0, 0)}, false},
		"scores upside down":    {scores, from, 8, []terms.Finding{found(15, other, -2, -1)}, false},
		"a score that is none":  {scores, from, 8, []terms.Finding{found(15, other, none, -1)}, false},
		"another that is none":  {scores, from, 8, []terms.Finding{found(15, other, -1, none)}, false},
		"a score without end":   {scores, from, 8, []terms.Finding{found(15, other, -never, -1)}, false},
		"a choice that cannot":  {scores, from, 8, []terms.Finding{found(15, other, never, never)}, false},
		"no scores":             {scores, from, 8, []terms.Finding{found(15, other, 0, 0)}, false},
		"no scores, not wanted": {choices, from, 8, plain[:1], true},
		"scores, not wanted":    {choices, from, 8, good[:1], false},
	} {
		up := &decoder{fake: &fake{}, audit: netproto.ExactAudit}
		up.change = func(_ terms.Job, a *terms.Reply) error {
			a.Audited, a.Audit = c.audited, c.findings
			return nil
		}
		inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
			r := w.enter(guest{})
			a := whole(t, 1, p)
			a.AuditFrom, a.Verify = c.from, c.verify
			if !c.good {
				refusal := r.refused(a.Append(nil), netproto.Failed)
				assert.Empty(t, refusal.Detail, "the reason is not sent")
				settle()
				assert.ErrorContains(t, w.eventsOf(gateway.Refused)[0].Err, "it", name)
				return
			}
			answer := r.answered(a)
			q := up.question(0)
			if c.from == from {
				assert.Equal(t, []any{c.verify, from}, []any{q.Verify, q.AuditFrom})
			} else {
				assert.Equal(t, []any{terms.AsItComes, 0}, []any{q.Verify, q.AuditFrom}, name)
			}
			assert.Equal(t, c.audited, answer.Audited)
			assert.Equal(t, c.findings, answer.Audit, name)
			settle()
			assert.Equal(t, c.verify, w.eventsOf(gateway.Answered)[0].Verify)
		})
	}
}
