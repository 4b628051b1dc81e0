package serve

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// buffered is the number of chunks that a stream buffers for a slow reader. A chunk has some hundred bytes, with the
// log-probabilities of 20 tokens some thousand.
const buffered = 256

// stream buffers the chunks for a reader.
type stream struct {
	chunks chan []byte
	left   time.Duration // how long the reader may still block the answer
	slot   *requestSlot

	mu        sync.Mutex // of the formatter
	formatter formatter
	begun     bool // there was a piece of the answer
}

// pushChunk adds a chunk. If the buffer is full, it waits for a limited time, while other requests may use the slot. If
// too many readers are slow at once, it does not wait.
func (b *stream) pushChunk(ctx context.Context, chunk []byte) error {
	select {
	case b.chunks <- chunk:
		return nil
	default:
	}
	if !b.slot.yieldSlot() {
		return request.ErrSlow
	}
	begin, timer := time.Now(), time.NewTimer(b.left)
	defer timer.Stop()
	select {
	case b.chunks <- chunk:
		b.left -= time.Since(begin)
		return b.slot.reacquireSlot(ctx)
	case <-timer.C:
		return request.ErrSlow
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// namedEvent is an object in an event that has the name of the object's type.
type namedEvent map[string]any

// streamEnd is the end of a stream of unnamed events.
const streamEnd = "[DONE]"

// comment is a line that clients ignore.
type comment string

// keepAlive shows proxies that the connection is not dead.
const keepAlive comment = "keep-alive"

func encodeEvent(v any) []byte {
	var b []byte
	switch v := v.(type) {
	case string:
		b = append(b, "data: "+v...)
	case comment:
		b = append(b, ": "+v...)
	case namedEvent:
		b = fmt.Appendf(b, "event: %s\ndata: %s", v["type"], request.Encode(v))
	default:
		b = append(append(b, "data: "...), request.Encode(v)...)
	}
	return append(b, "\n\n"...)
}

// streamAnswers sends an answer piece by piece. The status and the first events are sent before the prompt is read, as
// that may take minutes, and clients give up. The slot is free once the answer is generated, even if the reader is
// slow.
func (t *reply) streamAnswers(ctx context.Context, j *job, prompts [][]int32, in *requestSlot) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &stream{chunks: make(chan []byte, buffered), left: t.s.o.Stall, slot: in, formatter: j.formatter}
	first := j.formatter.firstEvents()
	failed := make(chan error, 1)
	go func() {
		defer close(b.chunks)
		failed <- t.generateAnswers(ctx, j, prompts, in,
			func(i int, p answer.Piece) error {
				return b.pushEvents(ctx, func() []any { return j.formatter.pieceEvents(i, p) })
			},
			func(i int, e answer.Ending) error {
				return b.pushEvents(ctx, func() []any { return j.formatter.answerEndEvents(i, e) })
			})
	}()
	if err := t.forwardChunks(b, first); err != nil {
		cancel(err)
		for range b.chunks { // until generation has ended
		}
		return err
	}
	if err := <-failed; err != nil {
		return err
	}
	for _, c := range j.formatter.streamEndEvents(t.currentUsage()) {
		if err := t.writeAndFlush(encodeEvent(c)); err != nil {
			return err
		}
	}
	return nil
}

func (b *stream) pushEvents(ctx context.Context, chunks func() []any) error {
	b.mu.Lock()
	b.begun = true
	all := chunks()
	b.mu.Unlock()
	for _, c := range all {
		if err := b.pushChunk(ctx, encodeEvent(c)); err != nil {
			return err
		}
	}
	return nil
}

func (b *stream) pingEvent() any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.formatter.pingEvent(b.begun)
}

// forwardChunks sends the first events, and then chunks as they arrive, until there are no more. During pauses it sends
// pings, so that no proxy and no client considers the connection dead.
func (t *reply) forwardChunks(b *stream, first []any) error {
	var out []byte
	for _, e := range first {
		out = append(out, encodeEvent(e)...)
	}
	t.sendStreamHeader()
	if err := t.writeAndFlush(out); err != nil {
		return err
	}
	quiet := time.NewTimer(t.s.o.KeepAlive)
	defer quiet.Stop()
	for {
		var out []byte
		select {
		case chunk, more := <-b.chunks:
			if !more {
				return nil
			}
			out = b.gatherChunks(chunk)
		case <-quiet.C:
			out = encodeEvent(b.pingEvent())
		}
		if err := t.writeAndFlush(out); err != nil {
			return err
		}
		quiet.Reset(t.s.o.KeepAlive)
	}
}

func (b *stream) gatherChunks(out []byte) []byte {
	for {
		select {
		case chunk, more := <-b.chunks:
			if more {
				out = append(out, chunk...)
				continue
			}
		default:
		}
		return out
	}
}

func (t *reply) sendStreamHeader() {
	h := t.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // for nginx
	t.sent = true
	t.w.WriteHeader(http.StatusOK)
}
