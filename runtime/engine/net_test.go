package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// listen serves a gateway on loopback until the test ends, and returns its address.
func listen(t *testing.T, g *gateway.Gateway) string {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
		assert.NoError(t, socket.Close())
	})
	return socket.LocalAddr().String()
}

// call dials a gateway and begins a session.
func call(t *testing.T, e *Engine, addr string, o DialOptions) (*Remote, draft.Cloud) {
	t.Helper()
	r, err := e.Dial(t.Context(), addr, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	cloud, end, err := r.Session(t.Context())
	require.NoError(t, err)
	t.Cleanup(end)
	return r, cloud
}

// recorder is an upstream that records its questions, and answers as set by the test.
type recorder struct {
	id netproto.Identity

	mu     sync.Mutex
	answer terms.Reply
	err    error
	asked  terms.Job     // the last question
	left   time.Duration // its remaining time
}

func (r *recorder) Info() gateway.Info { return gateway.Info{Model: "recorder", Identity: r.id} }

func (r *recorder) Forget(uint64) {}

func (r *recorder) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due, _ := ctx.Deadline()
	r.asked, r.left = q, time.Until(due)
	return r.answer, r.err
}

// last returns the last question and its remaining time.
func (r *recorder) last() (terms.Job, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked, r.left
}

// fail makes it return an error from now on.
func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// recorded dials a gateway with a recorder, and returns a session of it and its address.
func recorded(t *testing.T, up *recorder) (cloud draft.Cloud, addr string) {
	t.Helper()
	e := small(t, Options{}, nil)
	id, err := e.Identity()
	require.NoError(t, err)
	up.id = id
	g, err := gateway.New(gateway.Options{AskTimeout: time.Hour}, up)
	require.NoError(t, err)
	addr = listen(t, g)
	_, cloud = call(t, e, addr, DialOptions{Pin: g.Fingerprint()})
	return cloud, addr
}

// TestRemoteAsks: every field of a question of the edge reaches the upstream of the gateway, and every field of its
// answer comes back. The receipt has what was sent, and to whom.
func TestRemoteAsks(t *testing.T) {
	up := &recorder{answer: terms.Reply{
		Token: 11, Queue: 3 * time.Millisecond, Compute: 7 * time.Millisecond, Audited: 4,
		Top:   []terms.Candidate{{ID: 11, LogProb: -0.5}, {ID: 12, LogProb: -1.5}},
		Audit: []terms.Finding{{Pos: 3, Token: 13, LogProb: -0.25}, {Pos: 5, Token: 14, LogProb: -0.75}},
	}}
	cloud, addr := recorded(t, up)
	assert.Zero(t, cloud.(Receiver).Receipt(), "nothing was sent")
	q := draft.Question{
		Context: []int32{9, 8, 7, 6, 5, 4}, K: 2, AuditFrom: 2,
		Sampling: terms.Sampling{Temperature: 0.75, TopK: 40, TopP: 0.875, Seed: 1<<63 + 5},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	a, err := cloud.Ask(ctx, q)
	require.NoError(t, err)
	got, left := up.last()
	assert.Equal(t, q.Context, got.Context)
	assert.Equal(t, 2, got.K)
	assert.Equal(t, 2, got.AuditFrom)
	assert.Equal(t, terms.Sampling{Temperature: 0.75, TopK: 40, TopP: 0.875, Seed: 1<<63 + 5}, got.Sampling)
	assert.LessOrEqual(t, left, 30*time.Minute, "the deadline of the edge is sent to the cloud")
	assert.Greater(t, left, 29*time.Minute)
	assert.Positive(t, a.BytesUp)
	assert.Positive(t, a.BytesDown)
	assert.Greater(t, a.BytesUp, len(q.Context))
	assert.NotEqual(t, a.BytesUp, a.BytesDown)
	up2, down := a.BytesUp, a.BytesDown
	assert.Equal(t, Receipt{Tokens: 6, Bytes: up2, To: addr}, cloud.(Receiver).Receipt())
	assert.GreaterOrEqual(t, a.Queue, 3*time.Millisecond)
	a.Queue, a.BytesUp, a.BytesDown = 0, 0, 0
	assert.Equal(t, draft.Answer{Prefilled: 6, Reply: terms.Reply{Token: 11, Audited: 4, Compute: 7 * time.Millisecond,
		Top:   []terms.Candidate{{ID: 11, LogProb: -0.5}, {ID: 12, LogProb: -1.5}},
		Audit: []terms.Finding{{Pos: 3, Token: 13, LogProb: -0.25}, {Pos: 5, Token: 14, LogProb: -0.75}}},
	}, a)

	q.Within = 10 * time.Minute
	_, err = cloud.Ask(ctx, q)
	require.NoError(t, err)
	_, left = up.last()
	assert.LessOrEqual(t, left, 10*time.Minute, "of two deadlines the answer's own counts")
	assert.Greater(t, left, 9*time.Minute)
	sent := cloud.(Receiver).Receipt()
	q.Within, q.Ahead = 0, netproto.MaxAhead+1 // as many as a message can ask for
	up.fail(fmt.Errorf("%w: today", netproto.Failed))
	a, err = cloud.Ask(t.Context(), q)
	require.ErrorIs(t, err, netproto.Failed)
	assert.Positive(t, a.BytesUp, "bytes of a failed question count, too")
	assert.Less(t, a.BytesUp, up2, "the gateway has the context")
	assert.Positive(t, a.BytesDown)
	assert.NotEqual(t, down, a.BytesDown)
	assert.Equal(t, Receipt{Tokens: 6, Bytes: sent.Bytes + a.BytesUp, To: addr}, cloud.(Receiver).Receipt())
	assert.Zero(t, a.Token)
	_, left = up.last()
	assert.Greater(t, left, 31*time.Minute, "a question without a deadline has the deadline of the gateway")
	a.BytesUp, a.BytesDown = 0, 0
	assert.Zero(t, a)
}

// sameReply compares two replies, whose log-probabilities may be rounded on the wire.
func sameReply(t *testing.T, want, got terms.Reply, name string) {
	t.Helper()
	const rounding = 1e-3
	assert.Equal(t, want.Token, got.Token, name)
	for i, c := range got.Top {
		assert.Equal(t, want.Top[i].ID, c.ID, name)
		assert.InDelta(t, want.Top[i].LogProb, c.LogProb, rounding, name)
	}
	assert.Equal(t, want.Audited, got.Audited, name)
	assert.Len(t, got.Audit, len(want.Audit), name)
	for i, f := range got.Audit {
		assert.Equal(t, want.Audit[i].Pos, f.Pos, name)
		assert.Equal(t, want.Audit[i].Token, f.Token, name)
		assert.InDelta(t, want.Audit[i].LogProb, f.LogProb, rounding, name)
	}
}

// TestServiceBehindGateway: a service gives the same answers over the network as directly, for each way of choosing.
// Text that was sent early is in memory when a question follows, and a dropped session leaves nothing.
func TestServiceBehindGateway(t *testing.T) {
	const minTime = time.Millisecond // a question that is answered from memory takes no time
	edge := small(t, Options{Context: 48}, nil)
	large := small(t, Options{Context: 48}, func(s *synth.Spec) { s.Layers = 3 })
	service, err := large.Serve(ServeOptions{AnswerTime: minTime})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	g, err := service.Gateway(GatewayOptions{})
	require.NoError(t, err)
	r, cloud := call(t, edge, listen(t, g), DialOptions{Pin: g.Fingerprint()})
	welcome := r.Welcome()
	assert.Equal(t, "random weights, tiny", welcome.Model)
	assert.Equal(t, 48, welcome.Context)
	text := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	up, down, err := cloud.(draft.Warmer).Warm(t.Context(), text)
	require.NoError(t, err)
	assert.Greater(t, up, len(text))
	assert.Positive(t, down)
	computed := func() bool { return service.Stats().Computed >= uint64(len(text)) }
	require.Eventually(t, computed, time.Minute, time.Millisecond)
	for i, o := range []terms.Sampling{
		{}, {Temperature: 1, Seed: 3}, {Temperature: 2, TopK: 3, Seed: 4}, {Temperature: 2, TopP: 0.5, Seed: 5},
	} {
		for _, q := range []draft.Question{
			{Context: text, Sampling: o, K: 3},
			{Context: append([]int32{200 + int32(i)}, text...), Sampling: o, K: 3, AuditFrom: 4},
			{Context: text[:7], Sampling: o},
			{Context: append(text[:8:8], 100, 101), Sampling: o, K: 1},
		} {
			direct, err := service.Local(77).Ask(t.Context(), q)
			require.NoError(t, err)
			plain, err := service.Ask(t.Context(), terms.Job{
				Session:  78,
				Question: terms.Question{Context: q.Context, K: max(1, q.K), AuditFrom: q.AuditFrom, Sampling: o},
			})
			require.NoError(t, err)
			far, err := cloud.Ask(t.Context(), q)
			require.NoError(t, err)
			for name, a := range map[string]draft.Answer{"local": direct, "remote": far} {
				sameReply(t, plain.Reply, a.Reply, name)
				assert.Equal(t, len(a.Top), q.K, name)
				assert.Equal(t, q.AuditFrom > 0, a.Audited > 0, name)
				assert.GreaterOrEqual(t, a.Queue+a.Compute, minTime-2*time.Microsecond,
					"%s: times are truncated to microseconds", name)
			}
		}
	}
	_, err = cloud.Ask(t.Context(), draft.Question{Context: make([]int32, 49)})
	assert.ErrorIs(t, err, netproto.TooLarge)
	_, err = edge.Dial(t.Context(), "nowhere", DialOptions{})
	assert.Error(t, err)
}

// TestManyAsksAtOnce: the gateway passes all questions to a service at the same time, because the service shares its
// work.
func TestManyAsksAtOnce(t *testing.T) {
	const asks = 40
	edge, large := small(t, Options{}, nil), small(t, Options{}, nil)
	service, err := large.Serve(ServeOptions{})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	g, err := service.Gateway(GatewayOptions{})
	require.NoError(t, err)
	_, cloud := call(t, edge, listen(t, g), DialOptions{Pin: g.Fingerprint()})
	done, err := large.acquireModel(t.Context()) // nothing is computed meanwhile
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range asks {
		all.Go(func() {
			_, err := cloud.Ask(t.Context(), draft.Question{Context: []int32{1, int32(i)}})
			assert.NoError(t, err)
		})
	}
	assert.Eventually(t, func() bool { return service.Stats().Waiting == asks }, time.Minute, time.Millisecond)
	done()
	all.Wait()
}

// TestGatewayOptions: options for a gateway and its connection take effect, and a refused client gets the reason.
func TestGatewayOptions(t *testing.T) {
	e := small(t, Options{Context: 32}, nil)
	service, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	certificate, key, err := NewCertificate("127.0.0.1")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	var log strings.Builder
	events := NewGatewayLog(slog.New(slog.NewTextHandler(&log, nil)))
	g, err := service.Gateway(GatewayOptions{
		Tokens: []GatewayToken{{Name: "a", Secret: "0123456789abcdef"}}, Certificate: pair, Events: events.Event,
	})
	require.NoError(t, err)
	assert.Equal(t, netproto.Digest(sha256.Sum256(pair.Certificate[0])), g.Fingerprint())
	addr := listen(t, g)
	_, err = e.Dial(t.Context(), addr, DialOptions{Pin: g.Fingerprint()})
	var why *ConnectError
	require.ErrorAs(t, err, &why)
	assert.ErrorIs(t, err, netproto.WrongSecret)
	_, err = e.Dial(t.Context(), addr, DialOptions{Secret: "0123456789abcdef", Pin: netproto.Digest{1}})
	var pin *PinError
	require.ErrorAs(t, err, &pin)
	r, _ := call(t, e, addr, DialOptions{
		Secret: "0123456789abcdef", Pin: g.Fingerprint(), Identity: netproto.Identity{Vocab: 3},
	})
	assert.Equal(t, 32, r.Context())
	assert.Equal(t, e.Name(), r.Model())
	other := small(t, Options{}, func(s *synth.Spec) { s.Vocab = 301 })
	_, err = other.Dial(t.Context(), addr, DialOptions{Secret: "0123456789abcdef", Pin: g.Fingerprint()})
	assert.ErrorIs(t, err, netproto.WrongTokenizer)
	_, err = service.Gateway(GatewayOptions{MaxConns: -1})
	assert.ErrorContains(t, err, "MaxConns")
	events.Close()
	assert.NotEmpty(t, log.String())

	require.NoError(t, r.Close())
	_, _, err = r.Session(t.Context())
	assert.ErrorIs(t, err, client.ErrClosed)
}

// TestSessionEnds: ending a session of a gateway's client ends its questions.
func TestSessionEnds(t *testing.T) {
	e := small(t, Options{}, nil)
	service, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	g, err := service.Gateway(GatewayOptions{})
	require.NoError(t, err)
	r, err := e.Dial(t.Context(), listen(t, g), DialOptions{Pin: g.Fingerprint()})
	require.NoError(t, err)
	defer r.Close()
	cloud, end, err := r.Session(t.Context())
	require.NoError(t, err)
	_, err = cloud.Ask(t.Context(), draft.Question{Context: []int32{1}})
	require.NoError(t, err)
	end()
	_, err = cloud.Ask(t.Context(), draft.Question{Context: []int32{1}})
	assert.ErrorIs(t, err, client.ErrClosed)
}

// TestUpstream: dropping a session frees its memory in the service. Errors are passed on unchanged, and an answer has
// at most the requested number of candidates.
func TestUpstream(t *testing.T) {
	e := small(t, Options{Context: 32}, nil)
	s, err := e.Serve(ServeOptions{AnswerTime: time.Millisecond})
	require.NoError(t, err)
	u := builtIn{s: s, info: gateway.Info{Model: "a name"}}
	assert.Equal(t, "a name", u.Info().Model)
	a, err := u.Ask(t.Context(), terms.Job{Session: 5, Question: terms.Question{Context: []int32{1, 2}, K: 0}})
	require.NoError(t, err)
	assert.Empty(t, a.Top)
	assert.GreaterOrEqual(t, a.Queue+a.Compute, time.Millisecond, "with the min time of an answer")
	a, err = u.Ask(t.Context(), terms.Job{Session: 5, Question: terms.Question{Context: []int32{1, 2}, K: 256}})
	require.NoError(t, err)
	assert.Len(t, a.Top, 256)
	assert.Equal(t, 1, statsOf(t, s).Sessions)
	u.Forget(5)
	assert.Zero(t, statsOf(t, s).Sessions)
	_, err = u.Ask(t.Context(), terms.Job{Question: terms.Question{Context: make([]int32, 33)}})
	assert.ErrorIs(t, err, batch.ErrContext)
	err = u.Warm(t.Context(), terms.Job{Question: terms.Question{Context: make([]int32, 33)}})
	assert.ErrorIs(t, err, batch.ErrContext)
	assert.NotErrorIs(t, err, netproto.Busy)
	s.Close()
	_, err = u.Ask(t.Context(), terms.Job{Question: terms.Question{Context: []int32{1}}})
	assert.ErrorIs(t, err, batch.ErrClosed)
	u.Forget(5)
}

// TestIdentity: the identity covers the tokenizer, the vocabulary and the chat template, if the file has one.
func TestIdentity(t *testing.T) {
	e := small(t, Options{}, nil)
	id, err := e.Identity()
	require.NoError(t, err)
	tok, err := e.Tokenizer()
	require.NoError(t, err)
	assert.Equal(t, netproto.Digest(tok.Hash()), id.Tokenizer)
	assert.Equal(t, tok.Used(), id.Vocab)
	assert.Equal(t, netproto.Digest(tok.ChatHash()), id.Template)
	assert.NotZero(t, id.Template)
	again, err := small(t, Options{}, func(s *synth.Spec) { s.Layers = 1 }).Identity()
	require.NoError(t, err)
	assert.Equal(t, id, again, "the identity does not depend on the weights")
	e.Close()
	_, err = e.Identity()
	assert.True(t, errors.Is(err, ErrClosed))
}

// TestWarmGivesWay: text that is computed early takes no memory from others, and the call reports that it was given up.
func TestWarmGivesWay(t *testing.T) {
	e := small(t, Options{Context: 40}, nil)
	s, err := e.Serve(ServeOptions{Slots: 40})
	require.NoError(t, err)
	defer s.Close()
	u := builtIn{s: s}
	text := make([]int32, 35)
	require.NoError(t, u.Warm(t.Context(), terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text}}))
	assert.EqualValues(t, 35, statsOf(t, s).Computed)
	_, err = u.Ask(t.Context(), terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text}})
	require.NoError(t, err)
	err = u.Warm(t.Context(), terms.Job{Session: 2, Device: 2, Domain: 2, Question: terms.Question{Context: text}})
	require.ErrorIs(t, err, netproto.Busy)
	require.ErrorIs(t, err, batch.ErrShed)
	assert.EqualValues(t, 1, statsOf(t, s).Shed)
	assert.Zero(t, statsOf(t, s).Ahead+statsOf(t, s).AheadShed, "no tokens ahead")
}

// TestBusy: a device hears why its question was not computed for others, and from when on it may be.
func TestBusy(t *testing.T) {
	late := fmt.Errorf("engine: %w", &batch.Late{After: 1500 * time.Millisecond})
	r, ok := errors.AsType[netproto.Refusal](asBusyRefusal(late))
	require.True(t, ok)
	assert.Equal(t, netproto.Refusal{Code: netproto.Busy, RetryAfter: 1500 * time.Millisecond,
		Detail: "others come first, and the answer would be late: one like it may be in time after 1.5s"}, r)
	assert.NoError(t, asBusyRefusal(nil))
	assert.Equal(t, ErrClosed, asBusyRefusal(ErrClosed))
}

// TestRemoteVerification: verification and tokens ahead in a question reach the upstream of the gateway, and its
// results come back.
func TestRemoteVerification(t *testing.T) {
	e := small(t, Options{}, nil)
	id, err := e.Identity()
	require.NoError(t, err)
	never := float32(math.Inf(-1))
	up := &goesOn{recorder: recorder{id: id, answer: terms.Reply{Token: 11, Audited: 4}}}
	g, err := gateway.New(gateway.Options{}, up)
	require.NoError(t, err)
	r, cloud := call(t, e, listen(t, g), DialOptions{Pin: g.Fingerprint()})
	assert.Equal(t, netproto.MaxAhead, r.Welcome().Ahead)
	for _, verify := range []terms.Verify{terms.AsItComes, terms.EachChoice, terms.EachScore} {
		want := []terms.Finding{{Pos: 3, Token: 13, LogProb: -0.25}, {Pos: 5, Token: 14, LogProb: -0.75}}
		if verify == terms.EachScore {
			want[0].Score, want[0].Stands, want[1].Score, want[1].Stands = 0.5, never, -1, -3
		}
		up.mu.Lock()
		up.answer.Audit = want
		up.mu.Unlock()
		for _, ahead := range []int{0, 1, 3, 1000} {
			a, err := cloud.Ask(t.Context(), draft.Question{
				Context: []int32{9, 8, 7, 6, 5, 4}, AuditFrom: 2, Verify: verify,
				Ahead: ahead, Sampling: terms.Sampling{Seed: 3},
			})
			require.NoError(t, err)
			got, _ := up.last()
			assert.Equal(t, terms.Verify(verify), got.Verify)
			assert.Equal(t, want, a.Audit)
			assert.Equal(t, ahead == 0, a.Ahead == nil)
			n, first := 0, 7
			if verify == terms.EachChoice { // after the token of the first finding
				first = 4
			}
			for ahead > 0 {
				token, ok := <-a.Ahead
				if !ok {
					break
				}
				assert.EqualValues(t, first+n, token)
				n++
			}
			assert.Equal(t, min(ahead, netproto.MaxAhead), n)
		}
	}
	up.mu.Lock()
	up.answer = terms.Reply{Token: 11}
	up.mu.Unlock()
	a, err := cloud.Ask(t.Context(), draft.Question{Context: []int32{9, 8, 7, 6, 5, 4, 3, 2}})
	require.NoError(t, err)
	assert.Equal(t, 2, a.Prefilled, "the others were sent earlier")
	session, end, err := r.Session(t.Context())
	require.NoError(t, err)
	defer end()
	a, err = session.Ask(t.Context(), draft.Question{Context: []int32{9, 8, 7}})
	require.NoError(t, err)
	assert.Equal(t, 3, a.Prefilled)
}

// goesOn is a recorder that decodes ahead: the number of tokens of the context.
type goesOn struct{ recorder }

func (o *goesOn) Info() gateway.Info {
	return gateway.Info{Model: "recorder", Identity: o.id, Audit: netproto.ExactAudit}
}

func (*goesOn) Next(_ context.Context, q terms.Job) (int32, error) {
	return int32(len(q.Context)), nil
}

// able is a recorder with capabilities set by the test.
type able struct {
	recorder
	audit   netproto.Audit
	choices int
	judge   string
}

func (a *able) Info() gateway.Info {
	return gateway.Info{Model: "recorder", Identity: a.id, Audit: a.audit, Choices: a.choices, Judge: a.judge}
}

// about holds what a remote reports about its gateway.
type about struct {
	model         string
	context       int
	audit         string
	choices       int
	otherTemplate bool
}

func aboutOf(r *Remote) about {
	return about{r.Model(), r.Context(), r.Audit(), r.Choices(), r.OtherTemplate()}
}

// TestRemoteVerifies: if a gateway cannot verify, the caller gets the reason before the first question; if there is no
// connection yet, the check connects.
func TestRemoteVerifies(t *testing.T) {
	e := small(t, Options{}, nil)
	id, err := e.Identity()
	require.NoError(t, err)
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	lazy, err := e.Dial(t.Context(), silent.LocalAddr().String(), DialOptions{Pin: netproto.Digest{1}, Lazy: true})
	require.NoError(t, err)
	assert.NoError(t, lazy.CannotVerify(terms.Sampling{}, "j"), "nothing is known before the first connection")
	assert.Zero(t, aboutOf(lazy))
	require.NoError(t, lazy.Close())

	drawn := terms.Sampling{Temperature: 0.8, TopK: 20}
	for _, c := range []struct {
		name     string
		audit    netproto.Audit
		choices  int
		sampling terms.Sampling
		judge    string // wanted
		want     string
	}{
		{"exact", netproto.ExactAudit, 0, terms.Sampling{}, "", ""},
		{"the same judge", netproto.ExactAudit, 0, terms.Sampling{}, "j", ""},
		{"another judge", netproto.ExactAudit, 0, terms.Sampling{}, "k", "give both the same --router"},
		{"drawn, any number of choices", netproto.ExactAudit, 0, terms.Sampling{Temperature: 1}, "", ""},
		{"one choice", netproto.ExactAudit, 1, terms.Sampling{}, "", ""},
		{"drawn from one choice", netproto.ExactAudit, 1, terms.Sampling{Temperature: 1, TopK: 1}, "", ""},
		{"drawn from all choices", netproto.ExactAudit, 20, drawn, "", ""},
		{"drawn from too many", netproto.ExactAudit, 19, drawn, "", "top-k must be 1 to 19"},
		{"drawn from all tokens", netproto.ExactAudit, 20, terms.Sampling{Temperature: 1}, "", "top-k must be 1 to 20"},
		{"no audit", netproto.NoAudit, 0, terms.Sampling{}, "", "looks at no tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := gateway.New(gateway.Options{}, &able{recorder{id: id}, c.audit, c.choices, "j"})
			require.NoError(t, err)
			r, err := e.Dial(t.Context(), listen(t, g), DialOptions{Pin: g.Fingerprint(), Lazy: true})
			require.NoError(t, err)
			if err := r.Verifies(t.Context(), c.sampling, c.judge); c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, netproto.CannotVerify)
				assert.ErrorContains(t, err, c.want)
			}
			assert.Equal(t, about{"recorder", r.Welcome().Context, c.audit.String(), c.choices, false}, aboutOf(r))
			assert.Equal(t, r.Verifies(t.Context(), c.sampling, c.judge), r.CannotVerify(c.sampling, c.judge))
			assert.Zero(t, r.Welcome().Ahead, "it does not decode ahead")
			require.NoError(t, r.Close())
			assert.ErrorIs(t, r.Verifies(t.Context(), c.sampling, ""), client.ErrClosed)
		})
	}
}

// TestVerifiedBehindGateway: over the network the built-in model gives the same verdicts as in the process, and its
// tokens ahead equal its answers.
func TestVerifiedBehindGateway(t *testing.T) {
	edge := small(t, Options{Context: 48}, nil)
	large := small(t, Options{Context: 48}, func(s *synth.Spec) { s.Layers = 3 })
	judge := anyJudge(t, large)
	service, err := large.Serve(ServeOptions{Judge: judge})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	g, err := service.Gateway(GatewayOptions{})
	require.NoError(t, err)
	r, cloud := call(t, edge, listen(t, g), DialOptions{Pin: g.Fingerprint()})
	assert.Equal(t, netproto.MaxAhead, r.Welcome().Ahead)
	require.NoError(t, r.Verifies(t.Context(), terms.Sampling{Temperature: 1}, judge.Fingerprint()))
	text := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	local := service.Local(77)
	for i, o := range []terms.Sampling{
		{}, {Temperature: 1, Seed: 3}, {Temperature: 2, TopK: 3, Seed: 4}, {Temperature: 2, TopP: 0.5, Seed: 5},
	} {
		for _, verify := range []terms.Verify{terms.EachChoice, terms.EachScore, terms.EachJudged} {
			for _, from := range []int{0, 1, 7, 11, 12} {
				q := draft.Question{Context: append([]int32{int32(20 + i)}, text[1:]...), Sampling: o, AuditFrom: from,
					Verify: verify, Ahead: 5}
				far, err := cloud.Ask(t.Context(), q)
				require.NoError(t, err)
				context := append(slices.Clip(q.Context), far.Token)
				if verify == terms.EachChoice && len(far.Audit) > 0 {
					context = append(slices.Clone(q.Context[:far.Audit[0].Pos]), far.Audit[0].Token)
				}
				n := 0
				for token := range far.Ahead {
					n++
					want, err := local.Ask(t.Context(), draft.Question{Context: context, Sampling: o})
					require.NoError(t, err)
					require.Equal(t, want.Token, token)
					context = append(context, token)
				}
				assert.Equal(t, 5, n)
				if from == 0 {
					q.Verify = terms.AsItComes // without verification
				}
				near, err := local.Ask(t.Context(), q)
				require.NoError(t, err)
				assert.Equal(t, near.Token, far.Token)
				assert.Equal(t, context[len(context)-n:], all(near.Ahead))
				assert.Equal(t, near.Audited, far.Audited)
				require.Len(t, far.Audit, len(near.Audit))
				for i, f := range far.Audit {
					f.LogProb = near.Audit[i].LogProb // log-probabilities are rounded on the wire
					assert.Equal(t, near.Audit[i], f, "scores are not rounded")
				}
			}
		}
	}
}

// TestDrawOfUpstream: tokens and scores from the probabilities of an engine equal those of the built-in model from its
// logits.
func TestDrawOfUpstream(t *testing.T) {
	out := backend.Output{Logits: []float32{1, 3.5, -2, 3, 0.25, 2.75}}
	sum := 0.0
	for id, l := range out.Logits {
		out.Top = append(out.Top, backend.Candidate{ID: int32(id), Logit: l})
		sum += math.Exp(float64(l))
	}
	slices.SortFunc(out.Top, func(a, b backend.Candidate) int { return cmp.Compare(b.Logit, a.Logit) })
	out.LogSumExp = float32(math.Log(sum))
	var top []terms.Candidate
	for _, c := range out.Top {
		top = append(top, terms.Candidate{ID: c.ID, LogProb: c.Logit - out.LogSumExp})
	}
	drawn := map[int32]bool{}
	for pos := range 200 {
		o := terms.Sampling{Temperature: 0.5 + float64(pos%4), TopK: 2 + pos%4, TopP: float64(pos%3) * 0.45,
			Seed: uint64(pos % 5)}
		sampler, err := sample.New(o)
		require.NoError(t, err)
		for stands := range int32(6) {
			choice, score, standing := sampler.Choose(pos, &out, stands)
			token, high, low, err := drawToken(terms.Sampling{Temperature: o.Temperature, TopK: o.TopK, TopP: o.TopP,
				Seed: o.Seed}, pos, top[:o.TopK], stands)
			require.NoError(t, err)
			assert.Equal(t, choice, token)
			assert.InDelta(t, score, high, 1e-4)
			if math.IsInf(float64(standing), -1) {
				assert.Equal(t, standing, low)
			} else {
				assert.InDelta(t, standing, low, 1e-4)
			}
			drawn[token] = true
		}
	}
	assert.Greater(t, len(drawn), 3)
	_, _, _, err := drawToken(terms.Sampling{Temperature: -1}, 1, top, 0)
	assert.ErrorContains(t, err, "temperature")
}

// TestRemedyFor: each error of connecting has its remedy, however it is wrapped.
func TestRemedyFor(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want Remedy
	}{
		"another pin":            {&PinError{}, NewPin},
		"an unknown certificate": {&tls.CertificateVerificationError{Err: errBad}, GivePin},
		"an unknown host":        {&net.DNSError{}, RightHost},
		"a wrong secret":         {netproto.WrongSecret, RightSecret},
		"another tokenizer":      {netproto.WrongTokenizer, SameFamily},
		"another version":        {netproto.WrongVersion, SameVersion},
		"a busy gateway":         {netproto.Busy, ReadRefusal},
		"a refusal of no reason": {netproto.NoReason, NoRemedy},
		"another error":          {errBad, NoRemedy},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, RemedyFor(fmt.Errorf("connect: %w", c.err))) })
	}
}
