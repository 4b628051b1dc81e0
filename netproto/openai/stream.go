package openai

import (
	"context"
	"fmt"
	"net/http"
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

// event returns an object as an event of a stream.
func event(v any) []byte {
	var b []byte
	switch v := v.(type) {
	case string:
		b = append(b, "data: "+v...)
	case named:
		b = fmt.Appendf(b, "event: %s\ndata: %s", v["type"], request.Encode(v))
	default:
		b = append(append(b, "data: "...), request.Encode(v)...)
	}
	return append(b, "\n\n"...)
}

// streamed sends an answer piece by piece. Its place is free once the answer is generated, even if the reader is slow.
func (t *reply) streamed(ctx context.Context, j *job, prompts [][]int32, in *place) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &stream{chunks: make(chan []byte, buffered), left: t.s.o.Stall, place: in}
	failed := make(chan error, 1)
	go func() {
		defer close(b.chunks)
		defer in.leave()
		failed <- t.generate(ctx, j, prompts,
			func(i int, p answer.Piece) error { return b.pushAll(ctx, j.shape.chunks(i, p)) },
			func(i int, e answer.Ending) error { return b.pushAll(ctx, j.shape.last(i, e)) })
	}()
	if err := t.pump(b); err != nil {
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

func (b *stream) pushAll(ctx context.Context, chunks []any) error {
	for _, c := range chunks {
		if err := b.push(ctx, event(c)); err != nil {
			return err
		}
	}
	return nil
}

// pump sends chunks as they arrive, until there are no more. During pauses it sends comments, so that no proxy
// considers the connection dead. The status is sent with the first chunk or comment, so that an error before it can
// have its own status.
func (t *reply) pump(b *stream) error {
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
			out = []byte(": keep-alive\n\n")
		}
		t.open()
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
	if t.sent {
		return
	}
	h := t.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // for nginx
	t.sent = true
	t.w.WriteHeader(http.StatusOK)
}
