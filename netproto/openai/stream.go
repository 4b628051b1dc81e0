package openai

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
	"github.com/pilotfish-ai/pilotfish/netproto/openai/request"
)

// buffered is the number of chunks that a stream buffers for a slow reader. A chunk has some hundred bytes, with the
// log-probabilities of 20 tokens some thousand.
const buffered = 256

// stream buffers the chunks for a reader.
type stream struct {
	chunks chan []byte
	left   time.Duration // how long the reader may still block the answer
	place  *place

	mu    sync.Mutex // of the shape
	shape shape
	begun bool // there was a piece of the answer
}

// push adds a chunk. If the buffer is full, it waits for a limited time, while other requests may use the place. If too
// many readers are slow at once, it does not wait.
func (b *stream) push(ctx context.Context, chunk []byte) error {
	select {
	case b.chunks <- chunk:
		return nil
	default:
	}
	if !b.place.stepAside() {
		return request.ErrSlow
	}
	begin, timer := time.Now(), time.NewTimer(b.left)
	defer timer.Stop()
	select {
	case b.chunks <- chunk:
		b.left -= time.Since(begin)
		return b.place.back(ctx)
	case <-timer.C:
		return request.ErrSlow
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// named is an object in an event that has the name of the object's type.
type named map[string]any

// streamEnd is the end of a stream of unnamed events.
const streamEnd = "[DONE]"

// comment is a line that clients ignore.
type comment string

// keepAlive shows proxies that the connection is not dead.
const keepAlive comment = "keep-alive"

// event returns an object as an event of a stream.
func event(v any) []byte {
	var b []byte
	switch v := v.(type) {
	case string:
		b = append(b, "data: "+v...)
	case comment:
		b = append(b, ": "+v...)
	case named:
		b = fmt.Appendf(b, "event: %s\ndata: %s", v["type"], request.Encode(v))
	default:
		b = append(append(b, "data: "...), request.Encode(v)...)
	}
	return append(b, "\n\n"...)
}

// streamed sends an answer piece by piece. The status and the first events are sent before the prompt is read, as that
// may take minutes, and clients give up. The place is free once the answer is generated, even if the reader is slow.
func (t *reply) streamed(ctx context.Context, j *job, prompts [][]int32, in *place) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &stream{chunks: make(chan []byte, buffered), left: t.s.o.Stall, place: in, shape: j.shape}
	first := j.shape.begin()
	failed := make(chan error, 1)
	go func() {
		defer close(b.chunks)
		failed <- t.generate(ctx, j, prompts, in,
			func(i int, p answer.Piece) error {
				return b.pushAll(ctx, func() []any { return j.shape.chunks(i, p) })
			},
			func(i int, e answer.Ending) error {
				return b.pushAll(ctx, func() []any { return j.shape.last(i, e) })
			})
	}()
	if err := t.pump(b, first); err != nil {
		cancel(err)
		for range b.chunks { // until generation has ended
		}
		return err
	}
	if err := <-failed; err != nil {
		return err
	}
	for _, c := range j.shape.end(t.usage()) {
		if err := t.write(event(c)); err != nil {
			return err
		}
	}
	return nil
}

func (b *stream) pushAll(ctx context.Context, chunks func() []any) error {
	b.mu.Lock()
	b.begun = true
	all := chunks()
	b.mu.Unlock()
	for _, c := range all {
		if err := b.push(ctx, event(c)); err != nil {
			return err
		}
	}
	return nil
}

// ping returns an event for a pause.
func (b *stream) ping() any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shape.ping(b.begun)
}

// pump sends the first events, and then chunks as they arrive, until there are no more. During pauses it sends pings,
// so that no proxy and no client considers the connection dead.
func (t *reply) pump(b *stream, first []any) error {
	var out []byte
	for _, e := range first {
		out = append(out, event(e)...)
	}
	t.open()
	if err := t.write(out); err != nil {
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
			out = b.gather(chunk)
		case <-quiet.C:
			out = event(b.ping())
		}
		if err := t.write(out); err != nil {
			return err
		}
		quiet.Reset(t.s.o.KeepAlive)
	}
}

// gather appends the chunks that are waiting.
func (b *stream) gather(out []byte) []byte {
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

// open sends the status of a stream.
func (t *reply) open() {
	h := t.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // for nginx
	t.sent = true
	t.w.WriteHeader(http.StatusOK)
}
