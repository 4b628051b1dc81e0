package draft

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// weatherStream is a stormy cloud that decodes ahead while the weather is fair or slow.
type weatherStream struct{ *stormy }

func (c weatherStream) Ask(ctx context.Context, q Question) (Answer, error) {
	if q.Within > 0 { // a cloud may use Within for nothing else
		var cancel context.CancelFunc
		asked := ctx
		ctx, cancel = context.WithTimeoutCause(ctx, q.Within, ErrDeadline)
		defer cancel()
		a, err := c.stormy.Ask(ctx, q)
		if err == nil && q.Ahead > 0 && a.Token >= 0 {
			tokens := make(chan int32)
			a.Ahead = tokens
			go c.feed(asked, c.onward(q, a), tokens, q.Ahead)
		}
		return a, err
	}
	return c.stormy.Ask(ctx, q)
}

func (c weatherStream) feed(ctx context.Context, text uint64, tokens chan<- int32, limit int) {
	defer close(tokens)
	for range limit {
		c.mu.Lock()
		w, _ := c.weather(time.Now())
		wait := time.Duration(1+c.random.IntN(40)) * time.Millisecond
		c.mu.Unlock()
		if w == failing || w == babbling {
			return
		}
		if w == dead || w == deaf {
			<-ctx.Done() // no token arrives, without an error
			return
		}
		if sleep(ctx, wait) != nil {
			return
		}
		t, _ := c.answer(text)
		select {
		case tokens <- t:
		case <-ctx.Done():
			return
		}
		text = then(text, t)
	}
}

// TestVerifiedPromise2: with deadlines and any behavior of the cloud, each verified text is complete, each token that
// is not marked was verified and accepted, and the wait for a cloud that does not answer is bounded.
func TestVerifiedPromise2(t *testing.T) {
	batches := 20
	if testing.Short() {
		batches = 2
	}
	var total verifiedSums
	for _, seeds := range randomCases(t, batches, 100) {
		bubble.Test(t, func(t *testing.T) {
			for _, seed := range seeds {
				for _, mode := range []Mode{Serial, Pipelined} {
					sum, err := newVerifiedSession(seed).weathered(mode)
					require.NoError(t, err, "mode %d, %s=%d", mode, oneSeed, seed)
					total.add(sum)
				}
			}
		})
	}
	t.Logf("%+v", total)
	assert.Positive(t, total.Unverified)
	assert.Positive(t, total.Turned)
	assert.Positive(t, total.Known)
}

func newVerifiedSession(seed uint64) *session {
	s := newSession(seed)
	r := rand.New(rand.NewPCG(seed, 7))
	s.Verify, s.Margin, s.VerifyEvery = true, []float64{0, 0, 1.5}[r.IntN(3)], 1+r.IntN(20)
	s.Audit, s.Ahead, s.world.failures = false, 1+r.IntN(2)*r.IntN(10), 0
	s.world.agree = 1 - r.Float64()*r.Float64()
	s.world.ranks = []float64{s.world.agree}
	return s
}

// weathered decodes the texts one after the other.
func (s *session) weathered(mode Mode) (all Summary, err error) {
	cloud := s.cloud()
	s.Breaker, s.Mode = new(Breaker), mode
	for i, text := range s.texts {
		time.Sleep(text.pause)
		began, asked := time.Now(), len(cloud.asked)
		got, sum, err := s.decodeVerified(weatherStream{cloud}, text.prompt)
		if err == nil {
			err = s.truthful(text.prompt, got, sum)
		}
		if err == nil && cloud.busy > 0 {
			err = fmt.Errorf("%d calls of the cloud have not returned", cloud.busy)
		}
		// a wait for an answer takes max one deadline, and for a token ahead max half of one
		limit := time.Duration(len(cloud.asked)-asked+sum.Known) * 3 * s.Deadline / 2
		limit += time.Duration(sum.Passes) * (s.speed + 20*time.Millisecond)
		if took := got.last.Sub(began); err == nil && took > limit {
			err = fmt.Errorf("it took %v of %v, with %d asks", took, limit, len(cloud.asked)-asked)
		}
		if err != nil {
			return all, fmt.Errorf("text %d: %w", i+1, err)
		}
		all.Turned += sum.Turned
		all.Known += sum.Known
		all.Unverified += sum.Unverified
	}
	return all, nil
}

func (s *session) decodeVerified(c Cloud, prompt []int32) (got shown, sum Summary, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Hour, errors.New("a hang"))
	defer cancel()
	m := s.schedule.fakes().model
	m.slots, m.window, m.last = len(prompt)+s.MaxTokens+s.slots, nil, len(prompt)+s.MaxTokens-1
	m.time = func(rows int) time.Duration { return s.speed + time.Duration(rows)*time.Millisecond }
	d, err := New(m, &s.world, c, s.Options)
	if err != nil {
		return got, sum, err
	}
	screen := &screen{prompt: len(prompt)}
	sum, err = d.Decode(ctx, prompt, func(e Event) bool {
		got.collect(e)
		if e.Token != nil {
			got.last = time.Now()
		}
		m.wrong = errors.Join(m.wrong, screen.take(e))
		return true
	})
	if err == nil {
		err = errors.Join(m.wrong, screen.over(sum, s.Options))
	}
	if err == nil && len(m.nodes) > 0 {
		err = fmt.Errorf("%d slots are still in use", len(m.nodes))
	}
	got.Stop = sum.Stop
	return got, sum, err
}

// truthful checks the mark of each token.
func (s *session) truthful(prompt []int32, got shown, sum Summary) error {
	text, marked := hashOf(prompt), 0
	for i, t := range got.Tokens {
		choice, _ := s.world.answer(text)
		stands := choice == t.ID || s.Margin > 0 && float64(s.world.gap(text, t.ID)) <= s.Margin
		switch {
		case t.Unverified:
			marked++
		case t.Origin == EdgeTimeout:
			return fmt.Errorf("token %d has no answer and is not marked", i)
		case t.Origin == FromCloud && choice != t.ID:
			return fmt.Errorf("token %d is not from the cloud", i)
		case !stands:
			return fmt.Errorf("token %d is rejected and not marked", i)
		}
		text = then(text, t.ID)
	}
	if got.Stop == "" || marked != sum.Unverified || marked > 0 && sum.Late+sum.Failed+sum.Unasked == 0 {
		return fmt.Errorf("%d tokens are marked in a text that stops for %q: %+v", marked, got.Stop, sum)
	}
	return nil
}
