package draft

// auditEscalation counts what the answer to an escalation in the text shows about the tokens before it. Each token
// counts once, with the first answer that compared it.
func (r *decodeRun) auditEscalation(e *escalation) {
	if e.isAnswered() {
		r.sent = max(r.sent, e.Pos)
	}
	if r.Verify {
		r.auditVerified(e)
	}
	if r.Verify || !e.isAnswered() {
		return
	}
	stands := func(pos int) bool { return pos >= r.audited && r.tree.origins[pos-r.prompt] == Edge }
	first, end := max(e.Pos-e.audited, r.prompt), e.Pos
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
		r.audited = e.Pos
	}
}
