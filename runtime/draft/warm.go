package draft

import "context"

// warmCloud sends settled text without a question if the cloud lacks at least unknown tokens of it: the prompt at once,
// while the small model computes it, and later the text that does not fit into one packet of a question. One such text
// is sent at a time.
func (r *decodeRun) warmCloud(ctx context.Context, unknown int) {
	w, ok := r.cloud.(Warmer)
	if !ok || r.router == nil && !r.Verify || r.Warm < 0 || r.warming || len(r.tree.text)-r.sent < unknown ||
		r.Deadline > 0 && r.Breaker.Open() {
		return
	}
	text, before := r.tree.text[:len(r.tree.text):len(r.tree.text)], r.sent
	r.warming, r.sent = true, len(text)
	start := r.sched.currentTime()
	r.sched.startGoroutine(func() {
		up, down, err := w.Warm(ctx, text)
		r.warmed <- Warming{
			Tokens: len(text), New: len(text) - before, Began: start.Sub(r.out.began), Took: r.sched.elapsedSince(start),
			BytesUp: up, BytesDown: down, Err: err,
		}
	})
}

func (r *decodeRun) emitWarming() {
	select {
	case w := <-r.warmed:
		r.warming = false
		r.out.emitEvent(Event{Warming: &w})
	default:
	}
}
