// Package misuse uses the root package in wrong ways from many goroutines.
package misuse_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
)

// rounds is the number of models that are opened and used; `make misuse` uses 1000.
var rounds = flag.Int("misuse.rounds", 12, "models to open, use in wrong ways, and close")

// small is the model that is part of the program.
const small = "../demo/small.gguf"

// errWhy is the cause of ended contexts, and errPanic the value of panics.
var (
	errWhy   = errors.New("the caller's own reason")
	errPanic = errors.New("the caller's own panic")
)

// bad implements interfaces of the caller. It panics, hangs, ends its goroutine or works correctly.
type bad struct {
	mu     sync.Mutex
	after  int  // calls before it panics; -1: never
	hangs  bool // clouds: until their context ends
	leaves bool // clouds: end their goroutine
}

func (b *bad) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.after--; b.after == 0 {
		panic(errPanic)
	}
}

func (b *bad) Ask(ctx context.Context, q pilotfish.Question) (pilotfish.Answer, error) {
	b.step()
	if b.leaves {
		runtime.Goexit()
	}
	if b.hangs {
		<-ctx.Done()
		return pilotfish.Answer{}, context.Cause(ctx)
	}
	return pilotfish.Answer{Token: q.Context[len(q.Context)-1]}, nil
}

func (b *bad) Decide(h pilotfish.Head) pilotfish.Decision {
	b.step()
	return pilotfish.Decision{Confidence: 0.5, Ask: h.Pos%5 == 0}
}

func (b *bad) Pick(h pilotfish.Head) int32 {
	b.step()
	return h.Best[len(h.Best)-1].ID
}

// options returns random options for an answer; one part may panic.
func (b *bad) options(r *rand.Rand) []pilotfish.Option {
	good := &bad{after: -1}
	part := func(chance float64) *bad {
		if r.Float64() < chance {
			return b
		}
		return good
	}
	all := []pilotfish.Option{pilotfish.Settings{MaxTokens: 1 + r.IntN(30), IgnoreEnd: true}}
	if r.IntN(3) == 0 {
		all = []pilotfish.Option{pilotfish.MaxTokens(1 + r.IntN(30)), pilotfish.SampleBy(part(0.5))}
	}
	if r.IntN(2) == 0 {
		cloud := &bad{after: -1, hangs: r.IntN(3) == 0}
		switch r.IntN(6) {
		case 0, 1:
			cloud.after = 1 + r.IntN(3)
		case 2:
			cloud.leaves = true
		}
		all = append(all, pilotfish.Route{
			Cloud: cloud, Router: part(0.3), Serial: r.IntN(3) == 0,
			Deadline: time.Duration(1+r.IntN(30)) * time.Millisecond, Branches: r.IntN(4) - 1,
		})
	}
	if r.IntN(3) == 0 {
		watch := part(0.5)
		all = append(all, pilotfish.Watch(func(pilotfish.Event) { watch.step() }))
	}
	if r.IntN(3) == 0 {
		heads := part(0.5)
		all = append(all, pilotfish.WatchHeads(func(pilotfish.Head) { heads.step() }))
	}
	return all
}

// known reports whether misuse may return an error. An error of a context contains both how it ended and the cause.
func known(err error) bool {
	switch {
	case err == nil, errors.Is(err, pilotfish.ErrClosed), errors.Is(err, pilotfish.ErrBusy):
		return true
	case errors.Is(err, context.Canceled):
		return errors.Is(err, errWhy)
	case strings.Contains(err.Error(), "runtime.Goexit"):
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// answer requests an answer in a random way and returns its error.
func answer(t *testing.T, r *rand.Rand, m *pilotfish.Model, s *pilotfish.Session, c *pilotfish.Chat) (err error) {
	defer func() {
		if why := recover(); why != nil {
			e, ok := why.(error)
			if !ok || !errors.Is(e, errPanic) {
				panic(why)
			}
		}
	}()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if r.IntN(6) == 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(r.IntN(8))*time.Millisecond)
		defer stop()
	}
	b := &bad{after: 1 + r.IntN(20)}
	options, end := b.options(r), 1+r.IntN(40)
	do, n := r.IntN(8), 0
	stream := s.Generate(ctx, "One day", options...)
	if r.IntN(2) == 0 {
		stream = c.Send(ctx, "and then?", options...)
	}
	for _, e := range stream {
		if err = e; err != nil {
			break
		}
		if n++; n < end {
			continue
		}
		switch do {
		case 0:
			cancel(errWhy)
		case 1:
			panic(errPanic)
		case 2:
			assert.NoError(t, s.Close())
		case 3:
			assert.NoError(t, c.Close())
		case 4:
			assert.NoError(t, m.Close())
		case 5:
			return nil
		case 6:
			return answer(t, r, m, s, c) // often from the same session, which is busy
		}
	}
	return err
}

// TestMisuse opens models in a loop. Several goroutines use and close everything at random moments, with callbacks that
// panic or hang. There is no fault, all errors are documented, a model works after a panic, and at the end no
// goroutine, mapping or memory is left.
func TestMisuse(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed: %d", seed)
	before := runtime.NumGoroutine()
	var heap uint64
	for round := range *rounds {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		m, err := pilotfish.Open(small, pilotfish.Options{Threads: 1 + r.IntN(2), Context: 256 + r.IntN(257)})
		require.NoError(t, err)
		var all sync.WaitGroup
		shared := m.NewSession()
		for range 1 + r.IntN(4) {
			r := rand.New(rand.NewPCG(r.Uint64(), 1))
			all.Go(func() {
				s, c := m.NewSession(), m.NewChat(pilotfish.ChatOptions{System: "Be brief."})
				if r.IntN(3) == 0 {
					s = shared
				}
				for range 1 + r.IntN(4) {
					err := answer(t, r, m, s, c)
					assert.True(t, known(err), "%v", err)
					s.Stats()
				}
				if r.IntN(2) == 0 {
					assert.NoError(t, s.Close())
					assert.NoError(t, c.Close())
				}
			})
		}
		all.Wait()
		works(t, m)
		assert.NoError(t, m.Close())
		if round == *rounds/2 {
			heap = inUse()
		}
	}
	assert.LessOrEqual(t, inUse(), heap+4<<20, "memory")
	left := 0
	for range 1000 { // cancelled goroutines may need a moment
		if left = runtime.NumGoroutine() - before; left <= 0 {
			break
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	if left > 0 {
		stacks := make([]byte, 1<<20)
		assert.Fail(t, "goroutines are left", "%d: %s", left, stacks[:runtime.Stack(stacks, true)])
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		assert.NotContains(t, string(maps), "small.gguf")
	}
}

// works checks that a new session of m answers, unless m is closed.
func works(t *testing.T, m *pilotfish.Model) {
	s := m.NewSession()
	var text strings.Builder
	n := 0
	for tok, err := range s.Generate(t.Context(), "One day", pilotfish.MaxTokens(5)) {
		if errors.Is(err, pilotfish.ErrClosed) {
			return
		}
		require.NoError(t, err)
		n++
		fmt.Fprint(&text, tok.Text)
	}
	assert.Equal(t, 5, n, "%q", text.String())
}

// inUse returns the memory in use after a collection.
func inUse() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
