package timeline

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/timelinetest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// world is a small model, a router and a large model that take virtual time. Their outputs depend on position and seed.
type world struct {
	seed            uint64
	prompt, forward time.Duration // time of the prompt and of a forward call
	rest            time.Duration // between a forward call and the decoder's next step
	escalates       func(pos int) bool
	ask             func(ctx context.Context, q draft.Question) (draft.Answer, error)
	op              func(backend.Op) // called with one operation for each call

	began time.Time
	calls time.Duration // time spent in calls
}

func (w *world) head(pos int) backend.Output {
	h := uint64(pos)*0x9e3779b97f4a7c15 ^ w.seed
	first := int32(h >> 32 % 40)
	first = max(first, -first) % 40
	out := backend.Output{}
	for i := range int32(8) {
		out.Top = append(out.Top, backend.Candidate{ID: first + i, Logit: float32(-i)})
	}
	return out
}

// local returns the small model's token at a position.
func (w *world) local(pos int) int32 { return w.head(pos).Top[0].ID }

func (w *world) Prefill(_ context.Context, prompt []int32) (backend.Output, error) {
	w.spend(backend.OpEmbed, w.prompt)
	return w.head(len(prompt)), nil
}

func (w *world) Extend(_ context.Context, nodes []draft.Node) (out []backend.Output, err error) {
	w.spend(backend.OpHead, w.forward)
	for _, n := range nodes {
		out = append(out, w.head(n.Pos+1))
	}
	return out, nil
}

// spend lets virtual time pass in a call.
func (w *world) spend(kind backend.OpKind, d time.Duration) {
	begin := time.Since(w.began)
	time.Sleep(d)
	w.calls += d
	w.op(backend.Op{Kind: kind, Layer: -1, Rows: 1, Begin: begin, End: time.Since(w.began)})
}

func (w *world) Settle(...draft.ID) { time.Sleep(w.rest) }
func (w *world) Drop(...draft.ID)   {}
func (w *world) Room() int          { return 1000 }

// Decide implements [draft.Router].
func (w *world) Decide(path uint64, pos int, _ *backend.Output) (float32, bool, uint64) {
	return 0.5, w.escalates(pos), path
}

// Ask implements [draft.Cloud].
func (w *world) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	return w.ask(ctx, q)
}

// errAway is the error of an ask that failed.
var errAway = errors.New("away")

// travels returns an ask that takes the given times, and reports them with a correct clock or with none.
func travels(
	ctx context.Context, q draft.Question, up, queue, cloud, down time.Duration, clock bool, token int32,
) (draft.Answer, error) {
	left := time.Now()
	t := time.NewTimer(up + queue + cloud + down)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return draft.Answer{}, context.Cause(ctx)
	}
	a := draft.Answer{BytesUp: 10, BytesDown: 20, Reply: terms.Reply{Token: token, Queue: queue, Compute: cloud}}
	if clock && q.Times {
		received := left.Add(up)
		a.Times = terms.Times{
			Left: left, Received: received, Sent: received.Add(queue + cloud), Arrived: time.Now(),
			Within: time.Millisecond,
		}
	}
	return a, nil
}

// random returns a world with random times.
func random(r *rand.Rand) *world {
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most*1000)) * time.Microsecond }
	w := &world{seed: r.Uint64(), prompt: ms(30) + 1, forward: ms(20) + 1, rest: ms(2)}
	share := r.IntN(100)
	w.escalates = func(pos int) bool { return int(w.head(pos + 7).Top[0].ID*5)%100 < share }
	slow, failing, clock := 1+r.IntN(100), r.IntN(30), r.IntN(2) == 0
	w.ask = func(ctx context.Context, q draft.Question) (draft.Answer, error) {
		r := rand.New(rand.NewPCG(w.seed, uint64(len(q.Context))))
		ms := func(most int) time.Duration { return time.Duration(r.IntN(most*1000)) * time.Microsecond }
		if r.IntN(100) < failing {
			time.Sleep(ms(slow))
			return draft.Answer{}, errAway
		}
		return travels(ctx, q, ms(slow), ms(slow)/2, ms(slow), ms(slow), clock,
			w.local(len(q.Context))+int32(r.IntN(4)))
	}
	return w
}

// decode decodes with a world and returns the file, and the time.
func decode(t *testing.T, w *world, o draft.Options) (*timelinetest.File, draft.Summary, time.Duration) {
	t.Helper()
	line := new(Timeline)
	text := line.Begin("")
	w.began, w.op = time.Now(), text.addOperation
	o.Trace = true
	d, err := draft.New(w, w, w, o)
	require.NoError(t, err)
	start := time.Now()
	sum, err := d.Decode(t.Context(), []int32{1, 2, 3}, func(e draft.Event) bool {
		text.Observe(e)
		return true
	})
	require.NoError(t, err)
	text.End()
	took := time.Since(start)
	return written(t, line), sum, took
}

// written returns the checked file of a timeline.
func written(t *testing.T, line *Timeline) *timelinetest.File {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, line.Write(&b, map[string]string{"of": "a test"}))
	f, err := timelinetest.Read(b.Bytes())
	require.NoError(t, err, "%s", b.Bytes())
	return f
}
