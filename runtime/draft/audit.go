package draft

import "github.com/pilotfish-ai/pilotfish/netproto/terms"

// auditor counts which of the small model's tokens the large one has compared with its own choice. Each token of the
// text counts once: with verification when it is shown, and otherwise with the first answer that compared it.
type auditor struct {
	*rules
	audited int             // position up to which answers have compared tokens
	looks   []int           // positions of tokens shown as verified since the last answer in the text
	within  []terms.Finding // of these, where the large model chooses another token
}

// auditFrom returns the position from which the tokens before a question that follows at are compared, 0 for none, and
// how. unverified is the first without verification.
func (a *auditor) auditFrom(at *node, unverified int) (from int, how terms.Verify) {
	switch from = max(a.prompt, a.audited); {
	case !a.Verify && (!a.Audit || from > at.pos), a.Verify && unverified == 0:
		return 0, terms.AsItComes
	case !a.Verify:
		return from, terms.AsItComes
	case a.Judge != "":
		return unverified, terms.EachJudged
	case a.Margin > 0 || a.Dial != nil:
		return unverified, terms.EachScore
	}
	return unverified, terms.EachChoice
}

// auditEscalation counts what the answer to an escalation in the text shows about the tokens before it. Each token
// counts once, with the first answer that compared it.
func (a *auditor) auditEscalation(e *escalation, origins []Origin) {
	if a.Verify {
		a.auditVerified(e)
	}
	if a.Verify || !e.isAnswered() {
		return
	}
	stands := func(pos int) bool { return pos >= a.audited && origins[pos-a.prompt] == Edge }
	first, end := max(e.Pos-e.audited, a.prompt), e.Pos
	for pos := first; pos < end; pos++ {
		if stands(pos) {
			if e.Audited++; e.Audited == 1 {
				e.AuditedFrom = pos
			}
			e.AuditedTo = pos + 1
		}
	}
	for _, f := range e.findings {
		if f.Pos >= first && f.Pos < end && stands(f.Pos) {
			e.Missed = append(e.Missed, f)
		}
	}
	if e.audited > 0 {
		a.audited = e.Pos
	}
}

func (a *auditor) auditVerified(e *escalation) {
	if !e.isAnswered() && e.Outcome != Known || len(a.looks) == 0 {
		return
	}
	e.Audited, e.AuditedFrom, e.AuditedTo = len(a.looks), a.looks[0], a.looks[len(a.looks)-1]+1
	e.Missed = a.within
	a.looks, a.within = nil, nil
}

// recordComparison notes that next follows tip in the text.
func (a *auditor) recordComparison(tip, next *node) {
	if !a.Verify || next.origin != Edge || next.unverified || tip.esc != nil {
		return // the escalation has a token that was asked for
	}
	a.looks = append(a.looks, next.pos)
	f := tip.fact
	if found, ok := f.found[next.token]; ok {
		a.within = append(a.within, found)
	} else if f.known && f.token != next.token { // it may not stand there
		a.within = append(a.within, terms.Finding{Pos: next.pos, Token: f.token})
	}
}
