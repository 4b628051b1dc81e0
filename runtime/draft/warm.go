package draft

import "context"

// warm sends the settled text before a question does, when the cloud does not know so much of it: the prompt as soon as
// it is there, as it leaves while the small model is at work on it; and later what a question could not carry in one
// packet, and would wait for the keys and values of. One such text is under way at a time.
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

// tellWarmed passes on what became of text that was sent early.
func (r *run) tellWarmed() {
	select {
	case w := <-r.warmed:
		r.warming = false
		r.tell(Event{Warming: &w})
	default:
	}
}
