package draft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// weather is how the cloud behaves for a time.
type weather int

const (
	fair     weather = iota // it answers after 20 to 120 ms
	slow                    // it answers around the deadline, sometimes late
	failing                 // it returns an error, after some time or at once
	babbling                // it answers with invalid tokens
	dead                    // it never answers
	deaf                    // it never answers, and takes seconds to notice that a question is cancelled
	weathers
)

// change is the start of different weather.
type change struct {
	at time.Time
	to weather
}

// stormy is a cloud with changing weather that records its questions. No two of its calls return at the same time, nor
// when a forward call begins or ends, nor at a deadline, so that the order of events never depends on chance. For that,
// forward calls take whole milliseconds, deadlines a nanosecond more, and each call returns in a unique tenth of a
// microsecond of its millisecond.
type stormy struct {
	*world
	deadline time.Duration
	sky      []change // by time; fair before

	mu     sync.Mutex
	random *rand.Rand
	used   map[int64]bool // tenths of microseconds in use
	asked  []*asking
	warmed []*warmed
	busy   int // calls that have not returned
}

// asking is a recorded call of Ask.
type asking struct {
	Question
	text       uint64 // of its context
	sent, back time.Time
	answer     Answer // BytesUp is its number, from 1
	err        error
}

// warmed is a recorded call of Warm.
type warmed struct {
	text       []int32
	sent, back time.Time
	up, down   int
	err        error
}

// own returns the first time from at on that no other call uses.
func (c *stormy) own(at time.Time) time.Time {
	at = at.Truncate(100).Add(100)
	for c.used[at.UnixNano()/100%10000] {
		at = at.Add(100)
	}
	c.used[at.UnixNano()/100%10000] = true
	return at
}

func (c *stormy) weather(at time.Time) (w weather, until time.Time) {
	for _, s := range c.sky {
		if at.Before(s.at) {
			return w, s.at
		}
		w = s.to
	}
	return w, at.Add(1000 * time.Hour)
}

// fate returns when a question that arrives now returns unless it is cancelled, and with which error; ok is false if it
// does not return. A cloud that dies in the meantime loses the question.
func (c *stormy) fate(now time.Time) (back time.Time, err error, ok bool) {
	ms := func(from, to int) time.Duration { return time.Duration(from+c.random.IntN(to-from)) * time.Millisecond }
	w, until := c.weather(now)
	took := ms(20, 120)
	switch w {
	case slow:
		took = c.deadline/2 + time.Duration(c.random.Int64N(int64(c.deadline)))
	case failing:
		took, err = ms(0, 120)*time.Duration(c.random.IntN(2)), errFake
	case babbling:
		err = ErrToken
	}
	for back = now.Add(took); back.After(until) && w != dead && w != deaf; {
		at := until
		if w, until = c.weather(until); w == failing {
			back, err = at, errFake
			break
		}
	}
	return back, err, w != dead && w != deaf
}

// gone returns when a call that is cancelled now returns.
func (c *stormy) gone() time.Time {
	now := time.Now()
	if w, _ := c.weather(now); w == deaf {
		now = now.Add(time.Duration(1+c.random.IntN(3)) * time.Second)
	}
	return c.own(now)
}

func (c *stormy) Ask(ctx context.Context, q Question) (Answer, error) {
	a, up := c.enter(q)
	given := c.until(ctx, up)
	c.mu.Lock()
	defer c.mu.Unlock()
	a.back = time.Now()
	c.busy--
	switch {
	case given && len(q.Context)%2 == 0:
		a.err = errors.Join(ctx.Err(), fmt.Errorf("question %d: %w", a.answer.BytesUp, errFake))
	case given:
		a.err = ctx.Err()
	case a.err == ErrToken: // like an answer
		a.answer.Token = []int32{-1, c.vocab, c.vocab + 7}[len(q.Context)%3]
		return a.answer, nil
	}
	if a.err != nil {
		a.answer.Token = -1 // means nothing
	}
	return a.answer, a.err
}

// until waits until a time or, if it is zero, until ctx is done. It reports whether ctx ended first.
func (c *stormy) until(ctx context.Context, then time.Time) (given bool) {
	var answer <-chan time.Time
	if !then.IsZero() {
		answer = time.After(time.Until(then))
	}
	select {
	case <-answer:
		return false
	case <-ctx.Done():
		c.mu.Lock()
		gone := c.gone()
		c.mu.Unlock()
		time.Sleep(time.Until(gone))
		return true
	}
}

// enter records a question. The time is zero if it is never answered.
func (c *stormy) enter(q Question) (a *asking, back time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a = &asking{Question: q, text: hashOf(q.Context), sent: time.Now()}
	a.answer, a.err = c.reply(q)
	back, err, ok := c.fate(a.sent)
	back = c.own(back)
	if !ok {
		back = time.Time{}
	}
	c.busy++
	c.asked = append(c.asked, a)
	if a.err = cmp.Or(err, a.err); a.err == errFake {
		a.err = fmt.Errorf("question %d: %w", len(c.asked), errFake)
	}
	a.answer.BytesUp, a.answer.BytesDown = len(c.asked), 3*len(c.asked)+1
	a.answer.Queue = time.Duration(c.random.IntN(30)) * time.Millisecond
	a.answer.Compute = time.Duration(c.random.IntN(60)) * time.Millisecond
	return a, back
}

// Warm accepts text early, unless the weather is bad; every third call fails anyway.
func (c *stormy) Warm(ctx context.Context, text []int32) (up, down int, err error) {
	c.mu.Lock()
	_ = append(text, -1) // must not change what is decoded
	w := &warmed{text: text, sent: time.Now(), up: 2 * len(text), down: 3}
	c.warmed = append(c.warmed, w)
	back, err, ok := c.fate(w.sent)
	if back = c.own(back); !ok {
		back = time.Time{}
	}
	if w.err = err; len(c.warmed)%3 == 0 {
		w.err = errFake
	}
	c.busy++
	c.mu.Unlock()
	if c.until(ctx, back) {
		w.err = ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	w.back = time.Now()
	return w.up, w.down, w.err
}

// session is one random case of several texts with one cloud and one breaker.
type session struct {
	*schedule
	texts []text
	sky   []change // times since the start
}

// text is one call of Decode.
type text struct {
	prompt []int32
	pause  time.Duration // before the text
	stop   int           // emit stops after this token; 0: never
}

// newSession returns a random case. Half of the skies have a single kind of bad weather.
func newSession(seed uint64) *session {
	r := rand.New(rand.NewPCG(seed, 4))
	s := &session{schedule: newSchedule(seed)}
	ms := func(n int) time.Duration { return time.Duration(r.IntN(n)) * time.Millisecond }
	s.Deadline, s.speed, s.rude = 30*time.Millisecond+ms(600)+1, time.Millisecond+ms(40), 0
	s.world.failures, s.world.share = 0, max(s.world.share, 0.05)
	if r.IntN(4) == 0 {
		s.world.failures = 0.1
	}
	if r.IntN(3) == 0 {
		s.speed += ms(400)
	}
	s.Sampling = terms.Sampling{Temperature: r.Float64(), Seed: r.Uint64()} // the fake edge ignores it
	if r.IntN(8) == 0 {
		s.Warm = -s.Warm
	}
	for range 2 + r.IntN(3) {
		t := text{pause: ms(1500) * time.Duration(r.IntN(3))}
		for range 1 + r.IntN(6) {
			t.prompt = append(t.prompt, int32(r.IntN(int(s.world.vocab))))
		}
		if r.IntN(4) == 0 {
			t.stop = 1 + r.IntN(s.MaxTokens)
		}
		s.texts = append(s.texts, t)
	}
	s.sky = s.weather(r)
	return s
}

// weather returns random changes of the weather: to a bad one, and perhaps back; or many changes.
func (s *session) weather(r *rand.Rand) []change {
	at := func() time.Time {
		return time.Now().Add(time.Duration(r.Int64N(int64(len(s.texts)*s.MaxTokens) * int64(s.speed))))
	}
	bad := []weather{slow, slow, failing, babbling, dead, dead, deaf}
	sky := []change{{at(), bad[r.IntN(len(bad))]}}
	if r.IntN(2) == 0 {
		return append(sky, change{sky[0].at.Add(time.Until(at())), fair})
	}
	for range r.IntN(8) {
		sky = append(sky, change{at(), weather(r.IntN(int(weathers)))})
	}
	slices.SortFunc(sky, func(a, b change) int { return a.at.Compare(b.at) })
	return sky
}

func (s *session) cloud() *stormy {
	return &stormy{
		world: &s.world, deadline: s.Deadline, sky: s.sky, random: rand.New(rand.NewPCG(s.seed, 5)),
		used: map[int64]bool{0: true},
	}
}
