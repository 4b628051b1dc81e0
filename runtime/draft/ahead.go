package draft

import "context"

// warm sends the settled text ahead when the cloud does not know so much of it: the prompt as soon as it is there, as
// it leaves while the small model is at work on it; and later what a question could not carry in one packet, and would
// wait for the keys and values of. One such text is under way at a time.
func (r *run) warm(ctx context.Context, unknown int) {
	w, ok := r.cloud.(Warmer)
	if !ok || r.router == nil && !r.Verify || r.Warm < 0 || r.warming || len(r.text)-r.told < unknown ||
		r.Deadline > 0 && r.Breaker.Open() {
		return
	}
	text, before := r.text[:len(r.text):len(r.text)], r.told
	r.warming, r.told = true, len(text)
	start := r.now()
	r.beside(func() {
		up, down, err := w.Warm(ctx, text)
		r.warmed <- Warming{
			Tokens: len(text), New: len(text) - before, Began: start.Sub(r.began), Took: r.since(start),
			BytesUp: up, BytesDown: down, Err: err,
		}
	})
}

// tellWarmed passes on what became of text that was sent ahead.
func (r *run) tellWarmed() {
	select {
	case w := <-r.warmed:
		r.warming = false
		r.tell(Event{Warming: &w})
	default:
	}
}

// audit counts, for an escalation that the text passes, what its answer says of the tokens before it. Each token counts
// once, with the first answer that compared it: later ones compare it with the same model.
func (r *run) audit(e *escalation) {
	if e.answer() {
		r.told = max(r.told, e.Pos)
	}
	if r.Verify {
		r.auditVerified(e)
	}
	if r.Verify || !e.answer() {
		return
	}
	stands := func(pos int) bool { return pos >= r.audited && r.origins[pos-r.prompt] == Edge }
	first, end := max(e.Pos-e.audited, r.prompt), e.Pos
	if e.sampled > 0 { // by the inverse of its chance to be drawn, it stands for all that the audit is about
		e.AuditWeight = e.audited
		first, end = max(e.sampled, first), min(e.sampled+1, end)
	}
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
