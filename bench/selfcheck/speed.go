package selfcheck

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/metalplan"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
)

// decodeOn decodes with the last model for a while, text after text, and compares the memory.
func (c *checker) decodeOn(ctx context.Context) (err error) {
	m, r := c.o.Models[len(c.o.Models)-1], &c.r.Minute
	d, err := gpu.New(c.p, gpu.Options{Mapped: m.File.Mappings()})
	if err != nil {
		r.Error = err.Error()
		return nil
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	t, err := startText(m.File, d, promptLength+textLength)
	if err == nil {
		err = c.decodeTexts(ctx, t)
	}
	r.Error, err = errorText(ctx, err)
	return err
}

func (c *checker) decodeTexts(ctx context.Context, t *text) error {
	r := &c.r.Minute
	next := t.prompt()
	began := time.Now()
	for time.Since(began) < c.o.Minute && (c.o.Tokens == 0 || r.Tokens < c.o.Tokens) || r.Tokens < 2*textLength {
		out, err := t.feed(ctx, next)
		if err != nil {
			return err
		}
		next = []int32{out.Top[0].ID}
		if t.c.Len() == t.c.Slots() {
			t.c.Clear()
			next = t.prompt()
		}
		if r.Tokens++; r.Tokens == textLength {
			r.BuffersBefore, r.HeapBefore = c.p.bufferBytes(), liveHeap()
		}
	}
	r.Took = time.Since(began)
	r.BuffersAfter, r.HeapAfter = c.p.bufferBytes(), liveHeap()
	return nil
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// speedContext is the context of measured passes, of which a half is before them.
const speedContext = 256

// measureSpeed measures the last model on the device itself: single tokens, and a prompt.
func (c *checker) measureSpeed(ctx context.Context) (err error) {
	m := c.o.Models[len(c.o.Models)-1]
	d, err := gpu.New(c.o.Device, gpu.Options{Mapped: m.File.Mappings()})
	if err != nil {
		return nil // the kernels say why
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	const prompt = 128
	t, failed := startText(m.File, d, speedContext)
	_ = d.CompileKernels() // its error is with the kernels
	for _, rows := range []int{1, prompt} {
		s := Speed{Model: m.Name, Rows: rows}
		if failed == nil {
			failed = s.measure(ctx, d, t)
		}
		if s.Error, err = errorText(ctx, failed); err != nil {
			return err
		}
		if g, ok := findGPU(c.r.GPU); ok {
			if s.Predicted, err = predictSpeed(ctx, g, m, rows); err != nil {
				return err
			}
		}
		c.r.Speed = append(c.r.Speed, s)
	}
	return nil
}

// predictSpeed predicts tokens per second: of a prompt at most so many.
func predictSpeed(ctx context.Context, g metalplan.GPU, m Model, rows int) (float64, error) {
	if rows > 1 {
		return metalplan.PromptBound(g, m.File), nil
	}
	plan, err := metalplan.PredictFile(ctx, g, m.File, speedContext/2)
	return plan.Tokens, err
}

// measure takes the best of some passes of rows after half of the context: others are disturbed, or the first. A slow
// device has fewer.
func (s *Speed) measure(ctx context.Context, d *gpu.Device, t *text) error {
	const passes, patience = 8, 20 * time.Second
	t.c.Clear()
	if _, err := t.feed(ctx, t.tokens(t.c.Slots()/2-1)); err != nil {
		return err
	}
	before, first, best := t.c.Len(), time.Now(), time.Duration(0)
	for pass := 0; pass < passes && (pass == 0 || time.Since(first) < patience); pass++ {
		t.c.Truncate(before)
		began := time.Now()
		if _, err := t.feed(ctx, t.tokens(s.Rows)); err != nil {
			return err
		}
		if took := time.Since(began); best == 0 || took < best {
			best = took
		}
	}
	pass := d.LastPass()
	s.Levels = pass.Levels
	s.Tokens = float64(s.Rows) / best.Seconds()
	s.Bandwidth = float64(pass.WeightBytes) / 1e9 / best.Seconds()
	s.Level = float64(best) / float64(time.Microsecond) / float64(pass.Levels)
	return nil
}
