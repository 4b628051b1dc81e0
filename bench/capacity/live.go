package capacity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Live is a large model with real devices in this process. They use connections of their own through a gateway, or in
// the mode cloud sessions of the engine, with half a round trip before and after each answer. Their small model only
// waits for its time to pass; texts are random tokens.
type Live struct {
	Large    *engine.Engine
	Dial     func(ctx context.Context, device int) (draft.Cloud, func(), error) // connects a device
	Workload Workload
	Mode     Mode

	vocab int32 // 0: that of the model
}

// errOver ends the devices after all answers that count are complete.
var errOver = errors.New("the measurement is over")

// Run measures with a number of devices. After a quarter as many, and at least one of each device, it counts the given
// number of answers, at least 1; the devices continue until these are complete.
func (l *Live) Run(ctx context.Context, devices, answers int) (p Point, err error) {
	all, err := l.connectDevices(ctx, devices)
	defer func() {
		for _, d := range all {
			d.leave()
		}
	}()
	if err != nil {
		return p, err
	}
	r := &liveRun{Live: l, warm: max(answers/4, devices), answers: answers}
	r.ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	var running sync.WaitGroup
	for _, d := range all {
		running.Go(func() { r.end(r.runDevice(d)) })
	}
	running.Wait()
	if err := context.Cause(r.ctx); !errors.Is(err, errOver) {
		return p, err
	}
	return Point{Mode: l.Mode, Devices: devices, Answers: answers, Time: result.Summarise(r.took),
		PerSecond: float64(answers) / r.until.Sub(r.since).Seconds(), BytesUp: r.up, BytesDown: r.down}, nil
}

// liveDevice is a device of this process.
type liveDevice struct {
	user
	script
	cloud  draft.Cloud     // nil in the mode cloud
	alone  *engine.Session // in the mode cloud
	leave  func()
	random *rand.Rand // for its texts
	text   []int32
	vocab  int32
}

// connectDevices returns with an error the devices that are connected.
func (l *Live) connectDevices(ctx context.Context, devices int) (all []*liveDevice, err error) {
	vocab := l.vocab
	if vocab == 0 { // the model may have weights for more ids than the tokenizer
		id, err := l.Large.Identity()
		if err != nil {
			return nil, err
		}
		vocab = int32(id.Vocab)
	}
	for i := range devices {
		d := &liveDevice{
			user:   newUser(&l.Workload, l.Mode, i),
			random: rand.New(rand.NewPCG(1, uint64(i))),
			vocab:  vocab,
		}
		if l.Mode != Cloud {
			d.cloud, d.leave, err = l.Dial(ctx, i)
		} else if d.alone, err = l.Large.NewSession(); err == nil {
			d.leave = func() { d.alone.Close() }
		}
		if err != nil {
			return all, fmt.Errorf("connect device %d of %d: %w", i+1, devices, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// liveRun is one call of [Live.Run].
type liveRun struct {
	*Live
	ctx           context.Context
	end           context.CancelCauseFunc
	warm, answers int // that do not count, and that count

	mu           sync.Mutex
	begun        int             // answers
	since, until time.Time       // the first answer that counts began, and the first one after those that count
	up, down     int             // bytes of answers that count
	took         []time.Duration // of answers that count and are complete
}

func (r *liveRun) runDevice(d *liveDevice) error {
	for {
		d.user.planAnswer(&d.script)
		d.text = d.extendText(nil, r.Workload.Prompt)
		begin, counts := r.startAnswer()
		up, down, err := r.produceAnswer(d)
		if err != nil {
			return err
		}
		if counts {
			r.finishAnswer(begin, up, down)
		}
	}
}

func (r *liveRun) startAnswer() (now time.Time, counts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = time.Now()
	n := r.begun - r.warm
	r.begun++
	switch n {
	case 0:
		r.since = now
	case r.answers:
		r.until = now
	}
	return now, n >= 0 && n < r.answers
}

func (r *liveRun) finishAnswer(begin time.Time, up, down int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.up, r.down = r.up+up, r.down+down
	if r.took = append(r.took, now.Sub(begin)); len(r.took) < r.answers {
		return
	}
	if r.begun == r.warm+r.answers { // no device has begun the answer after them
		r.until = now
	}
	r.end(errOver)
}

func (r *liveRun) produceAnswer(d *liveDevice) (up, down int, err error) {
	if r.Mode == Cloud {
		return 0, 0, r.streamAnswer(d)
	}
	for _, a := range d.asks {
		if err := retry.Wait(r.ctx, r.Workload.edgePassTime(a.passes)); err != nil {
			return up, down, err
		}
		if a.keep > 0 {
			d.text = d.text[:a.keep:a.keep]
		}
		d.text = d.extendText(d.text, a.text)
		q := draft.Question{Context: d.text, K: 1, AuditFrom: a.from}
		if a.from > 0 {
			q.Verify = terms.EachChoice
		}
		got, err := d.cloud.Ask(r.ctx, q)
		if err != nil {
			return up, down, err
		}
		up, down = up+got.BytesUp, down+got.BytesDown
	}
	return up, down, retry.Wait(r.ctx, r.Workload.edgePassTime(d.rest))
}

// extendText returns a text of n tokens that begins with text. It copies, since the receiver may have kept text.
func (d *liveDevice) extendText(text []int32, n int) []int32 {
	all := append(make([]int32, 0, n), text...)
	for len(all) < n {
		all = append(all, d.random.Int32N(d.vocab))
	}
	return all
}

func (r *liveRun) streamAnswer(d *liveDevice) error {
	if err := retry.Wait(r.ctx, r.Workload.RTT/2); err != nil {
		return err
	}
	o := terms.Settings{MaxTokens: r.Workload.Tokens, IgnoreEnd: true, Lookup: -1}
	for _, err := range d.alone.Generate(r.ctx, d.text, o) {
		if err != nil {
			return err
		}
	}
	return retry.Wait(r.ctx, r.Workload.RTT/2)
}
