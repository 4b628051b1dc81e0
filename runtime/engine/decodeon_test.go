package engine

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// all reads a channel until it is closed.
func all(tokens <-chan int32) (ids []int32) {
	for id := range tokens {
		ids = append(ids, id)
	}
	return ids
}

// follows returns n answers of a cloud, each to the text with all answers before it.
func follows(t *testing.T, cloud draft.Cloud, q draft.Question, n int) (ids []int32) {
	t.Helper()
	q.Context, q.Ahead = slices.Clone(q.Context), 0
	for range n {
		a, err := cloud.Ask(t.Context(), q)
		require.NoError(t, err)
		require.Nil(t, a.Ahead, "no tokens ahead were requested")
		ids, q.Context = append(ids, a.Token), append(q.Context, a.Token)
	}
	return ids
}

// TestLocalAhead: tokens ahead of an answer equal the answers to single questions, greedy and sampled, as many as
// requested and as the context allows, and each takes as long as an answer.
func TestLocalAhead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := small(t, Options{Context: 16}, nil)
		s, err := e.Serve(ServeOptions{AnswerTime: 10 * time.Millisecond})
		require.NoError(t, err)
		defer s.Close()
		plain, err := e.Serve(ServeOptions{})
		require.NoError(t, err)
		defer plain.Close()
		for _, o := range []terms.Sampling{{}, {Temperature: 0.8, Seed: 5}, {Temperature: 0.8, Seed: 6, TopK: 4}} {
			for wanted, come := range map[int]int{0: 0, 1: 1, 7: 7, 11: 11, 12: 11, 1 << 40: 11} {
				q := draft.Question{Context: []int32{9, 8, 7, 6, 5}, Sampling: o, Ahead: wanted}
				want := follows(t, plain.Local(1), q, 1+come)
				begin := time.Now()
				a, err := s.Local(2).Ask(t.Context(), q)
				require.NoError(t, err)
				assert.Equal(t, 10*time.Millisecond, time.Since(begin), "the answer does not wait for tokens ahead")
				assert.Equal(t, wanted == 0, a.Ahead == nil)
				if a.Ahead != nil {
					assert.Equal(t, want, append([]int32{a.Token}, all(a.Ahead)...))
					assert.Equal(t, time.Duration(1+come)*10*time.Millisecond, time.Since(begin))
				}
			}
		}
	})
}

// TestLocalAheadOfTurn: if each choice is verified, tokens ahead follow the first one that differs, otherwise the
// answer. The context of the question stays as it is, also after its end.
func TestLocalAheadOfTurn(t *testing.T) {
	e := small(t, Options{}, nil)
	s, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer s.Close()
	memory := append(bytesOf(9), 250, 251)
	before := slices.Clone(memory)
	for _, v := range []terms.Verify{terms.AsItComes, terms.EachChoice, terms.EachScore} {
		q := draft.Question{Context: memory[:9], AuditFrom: 2, Verify: v, Ahead: 4}
		a, err := s.Local(1).Ask(t.Context(), q)
		require.NoError(t, err)
		require.NotEmpty(t, a.Audit)
		ahead := all(a.Ahead)
		require.Equal(t, before, memory)
		from := append(slices.Clone(memory[:9]), a.Token)
		if v == terms.EachChoice {
			from = append(slices.Clone(memory[:a.Audit[0].Pos]), a.Audit[0].Token)
		}
		assert.Equal(t, follows(t, s.Local(2), draft.Question{Context: from}, 4), ahead)
	}
}

// TestLocalAheadEnds: decoding ahead ends with the context of its question, its session or the service; then no
// goroutine and no memory of the session is left.
func TestLocalAheadEnds(t *testing.T) {
	for name, end := range map[string]func(s *Service, cancel func()){
		"context": func(_ *Service, cancel func()) { cancel() },
		"session": func(s *Service, _ func()) { _ = s.Forget(context.Background(), 1) },
		"service": func(s *Service, _ func()) { s.Close() },
		"engine":  func(s *Service, _ func()) { s.e.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e, err := New(smallest(t, nil), "small", Options{Threads: 1})
				require.NoError(t, err)
				defer e.Close()
				s, err := e.Serve(ServeOptions{AnswerTime: 10 * time.Millisecond})
				require.NoError(t, err)
				defer s.Close()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var streams [2]<-chan int32
				for i, session := range []uint64{1, 2} {
					a, err := s.Local(session).Ask(ctx, draft.Question{Context: []int32{4, 5}, Ahead: 50})
					require.NoError(t, err)
					streams[i] = a.Ahead
				}
				time.Sleep(25*time.Millisecond - time.Microsecond) // the first began 10 ms before the second
				begin := time.Now()
				end(s, cancel)
				if name == "service" {
					s.ahead.mu.Lock()
					assert.Empty(t, s.ahead.all, "End has waited for all streams")
					s.ahead.mu.Unlock()
				}
				got := all(streams[0])
				assert.LessOrEqual(t, time.Since(begin), 10*time.Millisecond)
				assert.LessOrEqual(t, len(got), 4)
				assert.GreaterOrEqual(t, len(got), 3)
				if name == "session" {
					assert.Zero(t, time.Since(begin))
					assert.Equal(t, 1, statsOf(t, s).Sessions)
					assert.Len(t, all(streams[1]), 50, "the stream of another session continues")
					assert.Equal(t, 1, statsOf(t, s).Sessions)
				} else {
					assert.LessOrEqual(t, len(all(streams[1])), 3)
				}
				synctest.Wait() // a stream is closed before its goroutine has ended
				s.ahead.mu.Lock()
				defer s.ahead.mu.Unlock()
				assert.Empty(t, s.ahead.all)
			})
		})
	}
}

// TestNoAheadAfterClose: an answer that arrives while the service is being closed has no tokens ahead.
func TestNoAheadAfterClose(t *testing.T) {
	e := small(t, Options{}, nil)
	s, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	s.Close()
	assert.Empty(t, all(s.decodeAhead(t.Context(), terms.Job{Question: terms.Question{Context: []int32{1}}}, 2, 5)))
	_, _, ok := s.ahead.startDecoder(t.Context(), 1)
	assert.False(t, ok, "Close would not wait for it")
	_, err = s.decodeNext(t.Context(), terms.Job{Question: terms.Question{Context: []int32{1}}})
	assert.ErrorIs(t, err, batch.ErrClosed)
}

// TestAheadEndsWithText: nothing is decoded after an end token.
func TestAheadEndsWithText(t *testing.T) {
	f, err := gguf.Parse(demo.Large())
	require.NoError(t, err)
	e, err := New(f, "demo", Options{})
	require.NoError(t, err)
	defer e.Close()
	s, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer s.Close()
	tokens, err := e.Tokenizer()
	require.NoError(t, err)
	ids, err := e.Chat(tokenizer.Message{Role: "user", Content: demo.Questions(demo.HeldOut)[0].Text})
	require.NoError(t, err)
	a, err := s.Local(1).Ask(t.Context(), draft.Question{Context: ids, Ahead: 200})
	require.NoError(t, err)
	got := append([]int32{a.Token}, all(a.Ahead)...)
	require.True(t, tokens.IsEnd(got[len(got)-1]), "%v", got)
	assert.Equal(t, slices.IndexFunc(got, tokens.IsEnd), len(got)-1)
	u, err := s.newUpstream()
	require.NoError(t, err)
	_, err = u.Next(t.Context(), terms.Job{Session: 2, Question: terms.Question{Context: append(ids, got...)}})
	assert.ErrorIs(t, err, errTextEnds)
	assert.Equal(t, endsOf(tokens), u.Info().Ends, "a gateway does not ask further then")
}

// TestBuiltInNext: the upstream of a gateway decodes ahead the same tokens as it answers, and is busy while others
// wait.
func TestBuiltInNext(t *testing.T) {
	e := small(t, Options{Context: 16}, nil)
	s, err := e.Serve(ServeOptions{Slots: 16})
	require.NoError(t, err)
	defer s.Close()
	u := builtIn{s: s}
	var _ gateway.Decoder = u
	for _, o := range []terms.Sampling{{}, {Temperature: 0.8, Seed: 5}} {
		q := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: []int32{1, 2, 3}, Sampling: o}}
		want, err := u.Ask(t.Context(), q)
		require.NoError(t, err)
		got, err := u.Next(t.Context(), q)
		require.NoError(t, err)
		assert.Equal(t, want.Token, got)
	}
	assert.EqualValues(t, 2, statsOf(t, s).Ahead)
	_, err = u.Ask(t.Context(), terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: bytesOf(13)}})
	require.NoError(t, err)
	_, err = u.Next(t.Context(), terms.Job{Session: 1, Device: 1,
		Question: terms.Question{Context: []int32{1, 2, 3, 4}}})
	assert.ErrorIs(t, err, netproto.Busy, "the memory is full")
	assert.ErrorIs(t, err, batch.ErrShed)
	_, err = u.Next(t.Context(), terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: make([]int32, 17)}})
	assert.ErrorIs(t, err, batch.ErrContext)
}

// bytesOf returns n tokens.
func bytesOf(n int) (ids []int32) {
	for _, b := range bytes.Repeat([]byte{200}, n) {
		ids = append(ids, int32(b))
	}
	return ids
}

// TestBuiltInVerifies: findings of the service reach the gateway unchanged.
func TestBuiltInVerifies(t *testing.T) {
	e := small(t, Options{Context: 16}, nil)
	s, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer s.Close()
	q := terms.Job{Question: terms.Question{Context: bytesOf(12), AuditFrom: 2, Verify: terms.EachScore}}
	got, err := builtIn{s: s}.Ask(t.Context(), q)
	require.NoError(t, err)
	want, err := s.Ask(t.Context(), q)
	require.NoError(t, err)
	require.NotEmpty(t, want.Audit)
	assert.Equal(t, 10, got.Audited)
	assert.Equal(t, want.Audit, got.Audit)
	for _, d := range want.Audit {
		assert.Less(t, d.Stands, d.Score)
	}
}
