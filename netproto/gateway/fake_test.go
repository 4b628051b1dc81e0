package gateway_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const vocab = 768

func identity() netproto.Identity {
	return netproto.Identity{Tokenizer: netproto.Digest{1}, Vocab: vocab, Template: netproto.Digest{2}}
}

// fake is a large model that answers with a hash of the context, so that a wrong context is detected.
type fake struct {
	delay    time.Duration
	parallel int
	mu       sync.Mutex
	asked    []terms.Job
	warmed   []terms.Job
	forgot   []uint64
	dropped  int
	hold     chan struct{} // if set, asks wait until it is closed
	// if set, only asks about contexts that begin with this token
	holdOnly int32
	change   func(terms.Job, *terms.Reply) error          // if set, changes answers
	warm     func(ctx context.Context, q terms.Job) error // if set, replaces Warm
}

func tokenAfter(context []int32) int32 {
	return int32(netproto.RootHash.Over(context) % vocab)
}

func (f *fake) Info() gateway.Info {
	return gateway.Info{Model: "fake", Identity: identity(), MaxContext: 4096, Parallel: f.parallel}
}

func (f *fake) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	f.mu.Lock()
	f.asked = append(f.asked, q)
	hold, delay := f.hold, f.delay
	if f.holdOnly != 0 && q.Context[0] != f.holdOnly {
		hold = nil
	}
	f.mu.Unlock()
	var expired <-chan time.Time
	switch {
	case hold != nil:
	case delay > 0:
		timer := time.NewTimer(delay)
		defer timer.Stop()
		expired = timer.C
	default:
		return f.answerTo(q)
	}
	select {
	case <-hold:
	case <-expired:
	case <-ctx.Done():
		f.mu.Lock()
		f.dropped++
		f.mu.Unlock()
		return terms.Reply{}, ctx.Err()
	}
	return f.answerTo(q)
}

func (f *fake) answerTo(q terms.Job) (terms.Reply, error) {
	a := answerTo(q)
	if f.change == nil {
		return a, nil
	}
	err := f.change(q, &a)
	return a, err
}

func answerTo(q terms.Job) terms.Reply {
	a := terms.Reply{Token: tokenAfter(q.Context), Compute: 3 * time.Millisecond}
	for i := range q.K {
		a.Top = append(a.Top, terms.Candidate{ID: (a.Token + int32(i)) % vocab, LogProb: -0.01 - 1.7*float32(i)})
	}
	if q.AuditFrom > 0 && q.AuditFrom < len(q.Context) {
		a.Audited = len(q.Context) - q.AuditFrom
		a.Audit = []terms.Finding{{Pos: q.AuditFrom, Token: 5, LogProb: -0.25}}
	}
	return a
}

func (f *fake) Warm(ctx context.Context, q terms.Job) error {
	f.mu.Lock()
	f.warmed = append(f.warmed, q)
	warm := f.warm
	f.mu.Unlock()
	if warm != nil {
		return warm(ctx, q)
	}
	return nil
}

func (f *fake) Forget(session uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = append(f.forgot, session)
}

// gone returns the forgotten sessions.
func (f *fake) gone() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.forgot)
}

func (f *fake) question(i int) terms.Job {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[i]
}

func (f *fake) get(what func(*fake) int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return what(f)
}

// running is a gateway that serves on loopback.
type running struct {
	*gateway.Gateway
	addr string
	stop func()
}

// start serves an upstream at an address ("" means a free one) until stop or the end of the test.
func start(t *testing.T, addr string, opt gateway.Options, up gateway.Upstream) running {
	t.Helper()
	g, err := gateway.New(opt, up)
	require.NoError(t, err)
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	socket, err := net.ListenPacket("udp4", addr)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()
	stop := sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-done)
		assert.NoError(t, socket.Close())
	})
	t.Cleanup(stop)
	return running{g, socket.LocalAddr().String(), stop}
}

func dial(t *testing.T, g running, change func(*client.Options)) *client.Client {
	t.Helper()
	opt := client.Options{Identity: identity(), Pin: g.Fingerprint()}
	if change != nil {
		change(&opt)
	}
	c, err := client.Dial(t.Context(), g.addr, opt)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func session(t *testing.T, c *client.Client) *client.Session {
	t.Helper()
	s, err := c.NewSession(t.Context())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// path returns n ids that depend on a seed.
func path(n int, seed int32) []int32 {
	p := make([]int32, n)
	h := netproto.RootHash.Next(seed)
	for i := range p {
		h = h.Next(int32(i))
		p[i] = int32(h % vocab)
	}
	return p
}

// patience is the longest deadline that is encoded in as few bytes as 800 ms.
const patience = 16 * time.Second

func ask(t *testing.T, s *client.Session, p []int32) terms.Answer {
	t.Helper()
	r, err := s.Ask(t.Context(), terms.Question{Context: p, K: 4, Within: patience})
	require.NoError(t, err)
	require.Equal(t, tokenAfter(p), r.Token)
	return r
}
