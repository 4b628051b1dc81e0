package draft

import (
	"context"
	"time"
)

// textWarmer sends settled text without a question: the prompt at once, while the small model computes it, and later
// the text that does not fit into one packet of a question. One such text is sent at a time.
type textWarmer struct {
	*rules
	sched   *scheduler
	cloud   Warmer // nil: it takes no text
	sent    int    // length of the part of the text that the cloud was sent, also with answered questions
	warming bool
	warmed  chan Warming
}

func newTextWarmer(o *rules, s *scheduler, c Cloud) *textWarmer {
	cloud, _ := c.(Warmer)
	return &textWarmer{rules: o, sched: s, cloud: cloud, warmed: make(chan Warming, 1)}
}

// warmCloud sends text if the cloud lacks at least unknown tokens of it. began is when the run began.
func (w *textWarmer) warmCloud(ctx context.Context, text []int32, unknown int, began time.Time) {
	if w.cloud == nil || w.Warm < 0 || w.warming || len(text)-w.sent < unknown || w.Deadline > 0 && w.Breaker.Open() {
		return
	}
	text, before := text[:len(text):len(text)], w.sent
	w.warming, w.sent = true, len(text)
	start := w.sched.currentTime()
	w.sched.startGoroutine(func() {
		up, down, err := w.cloud.Warm(ctx, text)
		w.warmed <- Warming{
			Tokens: len(text), New: len(text) - before, Began: start.Sub(began), Took: w.sched.elapsedSince(start),
			BytesUp: up, BytesDown: down, Err: err,
		}
	})
}

func (w *textWarmer) markSent(length int) { w.sent = max(w.sent, length) }

// emitWarming emits the text that the cloud has taken, if any since the last call.
func (w *textWarmer) emitWarming(o *outputStream) {
	select {
	case done := <-w.warmed:
		w.warming = false
		o.emitEvent(Event{Warming: &done})
	default:
	}
}
