package replay

import (
	"context"
	"math"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Cloud wraps the large model and records its answers. The result is a [draft.Warmer] if c is.
func (t *Take) Cloud(c draft.Cloud) draft.Cloud {
	if w, ok := c.(draft.Warmer); ok {
		return recordingWarmer{recordingCloud{c, t}, w}
	}
	return recordingCloud{c, t}
}

// recordingCloud is a cloud with a recorder.
type recordingCloud struct {
	draft.Cloud
	t *Take
}

// recordingWarmer can also prefill text early.
type recordingWarmer struct {
	recordingCloud
	to draft.Warmer
}

func (c recordingCloud) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	t := c.t
	start := time.Now()
	got, err := c.Cloud.Ask(ctx, q)
	if err != nil {
		return got, err
	}
	one := Ask{
		Took: time.Since(start), Verify: int(q.Verify), Token: got.Token, Audited: got.Audited,
		Queue: got.Queue, Cloud: got.Compute, BytesUp: got.BytesUp, BytesDown: got.BytesDown,
	}
	for _, f := range got.Audit {
		one.Audit = append(one.Audit, Finding{f.Pos, f.Token, min(f.Score-f.Stands, math.MaxFloat32)})
	}
	number := t.recordAsk(q.Context, one)
	if got.Ahead != nil {
		got.Ahead = t.forwardAhead(ctx, got.Ahead, number, start, max(q.Ahead, cap(got.Ahead)))
	}
	return got, nil
}

func (t *Take) recordAsk(text []int32, one Ask) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, token := range text[min(len(text), len(t.a.Prompt)):] {
		one.Node = t.childNode(one.Node, token)
	}
	t.a.Asks = append(t.a.Asks, one)
	return len(t.a.Asks) - 1
}

func (t *Take) forwardAhead(ctx context.Context, from <-chan int32, ask int, start time.Time, room int) <-chan int32 {
	to := make(chan int32, room)
	t.passes.Go(func() {
		defer close(to)
		for token := range from {
			t.mu.Lock()
			a := &t.a.Asks[ask]
			a.Ahead = append(a.Ahead, Later{token, time.Since(start)})
			t.mu.Unlock()
			select {
			case to <- token:
			case <-ctx.Done():
			}
		}
	})
	return to
}

func (c recordingWarmer) Warm(ctx context.Context, text []int32) (up, down int, err error) {
	start := time.Now()
	up, down, err = c.to.Warm(ctx, text)
	if err == nil {
		c.t.recordAsk(text, Ask{Warm: true, Took: time.Since(start), BytesUp: up, BytesDown: down})
	}
	return up, down, err
}
