package upstream

import (
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// auditRows compares each audited position with the choice there: the most probable token, or for verification the one
// that is drawn. When verifying, missing rows are an error, since a device would take a missing finding for agreement.
func (u *Upstream) auditRows(q terms.Job, r dialect.Reply) (all []terms.Finding, err error) {
	if wanted := len(q.Context) - q.AuditFrom; len(r.Rows) != wanted && q.Verify != terms.AsItComes {
		err := fmt.Errorf("%w: it audited %d of the %d positions to be verified",
			netproto.Failed, len(r.Rows), wanted)
		if r.Unheard != nil {
			err = fmt.Errorf("%w: %w", err, r.Unheard)
		}
		return nil, err
	}
	first := len(q.Context) - len(r.Rows)
	for i, row := range r.Rows {
		pos := first + i
		f, err := u.chooseToken(q, pos, row)
		if err != nil {
			return nil, err
		}
		if f.Token == q.Context[pos] {
			continue
		}
		if !q.Verify.Scored() {
			f.Score, f.Stands = 0, 0
		}
		all = append(all, f)
	}
	return all, nil
}

func (u *Upstream) chooseToken(q terms.Job, pos int, row dialect.Row) (f terms.Finding, err error) {
	best := row.Top[0]
	f = terms.Finding{Pos: pos, Token: best.ID, LogProb: best.LogProb, Score: best.LogProb, Stands: row.Stands}
	if q.Sampling.Greedy() || q.Verify == terms.AsItComes {
		return f, nil
	}
	most := min(q.Sampling.TopK, u.o.Vocabulary.Size())
	if most < 1 || len(row.Top) < most {
		return f, fmt.Errorf("%w: the engine returned %d probabilities for position %d, drawing needs %d",
			netproto.Failed, len(row.Top), pos, most)
	}
	top := row.Top[:most]
	if f.Token, f.Score, f.Stands, err = u.o.Draw(q.Sampling, pos, top, q.Context[pos]); err != nil {
		return f, err
	}
	at := slices.IndexFunc(top, func(c terms.Candidate) bool { return c.ID == f.Token })
	if at < 0 {
		return f, fmt.Errorf("%w: token %d was drawn at position %d, which is not a candidate",
			netproto.Failed, f.Token, pos)
	}
	f.LogProb = top[at].LogProb
	return f, nil
}
