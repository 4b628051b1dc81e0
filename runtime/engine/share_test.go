package engine

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// prompted returns a question of a session: 400 common tokens, and 10 of its own.
func prompted(session int) terms.Job {
	q := terms.Job{Session: uint64(session), Device: uint64(session), Question: terms.Question{K: 3, AuditFrom: 400}}
	for i := range 400 {
		q.Context = append(q.Context, int32(i*i*7+i*31)%700)
	}
	q.Context = append(q.Context, int32(session))
	for i := range 9 {
		q.Context = append(q.Context, int32(i*i*session+i*13)%700)
	}
	return q
}

// TestSystemPromptOnce: 200 sessions that begin with the same 400 tokens compute and keep them once: memory for one of
// these sessions plus the own tokens of the others is enough. The answers are those of each session alone.
func TestSystemPromptOnce(t *testing.T) {
	racing.Spare(t)
	f, err := gguf.Parse(demo.Large())
	require.NoError(t, err)
	e, err := New(f, "demo", Options{Context: 410})
	require.NoError(t, err)
	defer e.Close()
	const sessions, slots = 200, 400 + 200*10
	s, err := e.Serve(ServeOptions{Slots: slots})
	require.NoError(t, err)
	defer s.Close()
	answers := make([]batch.Answer, sessions)
	var wait sync.WaitGroup
	for i := range answers {
		wait.Go(func() {
			var err error
			answers[i], err = s.Ask(t.Context(), prompted(i))
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	st := statsOf(t, s)
	assert.EqualValues(t, slots, st.Computed)
	assert.Equal(t, slots, st.InUse)
	assert.Equal(t, 400, st.InCommon)
	assert.Equal(t, sessions, st.Sessions)
	assert.Zero(t, st.Evicted)
	assert.EqualValues(t, (sessions-1)*400, st.Shared)
	assert.Less(t, s.KVBytes(), sessions*e.model.KVConfig(410, gguf.F16).Bytes()/34,
		"without sharing: 34 times as much")

	alone, err := e.Serve(ServeOptions{Slots: 820, Apart: true})
	require.NoError(t, err)
	defer alone.Close()
	for i := range 5 {
		a, err := alone.Ask(t.Context(), prompted(i*40))
		require.NoError(t, err)
		assert.Equal(t, plainAnswer(a), plainAnswer(answers[i*40]))
	}
	assert.EqualValues(t, 5*410, statsOf(t, alone).Computed)
	assert.Zero(t, statsOf(t, alone).Shared)
	for i := range sessions {
		require.NoError(t, s.Forget(t.Context(), uint64(i)))
	}
	assert.Zero(t, statsOf(t, s).InUse)
}

// BenchmarkSystemPrompt asks in 200 concurrent sessions that begin with the same 400 tokens.
func BenchmarkSystemPrompt(b *testing.B) {
	f, err := gguf.Parse(demo.Large())
	require.NoError(b, err)
	e, err := New(f, "demo", Options{Context: 410})
	require.NoError(b, err)
	defer e.Close()
	for name, apart := range map[string]bool{"shared": false, "apart": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s, err := e.Serve(ServeOptions{Slots: 200 * 410, Apart: apart})
				require.NoError(b, err)
				var wait sync.WaitGroup
				for i := range 200 {
					wait.Go(func() {
						_, err := s.Ask(b.Context(), prompted(i))
						assert.NoError(b, err)
					})
				}
				wait.Wait()
				s.Close()
				st := s.Stats()
				b.ReportMetric(float64(st.Steps), "passes")
				b.ReportMetric(float64(s.KVBytes())*float64(st.InUse)/float64(st.Slots)/(1<<20), "MiB")
			}
		})
	}
}

// plainAnswer returns an answer without the fields that depend on memory and time.
func plainAnswer(a batch.Answer) batch.Answer {
	a.Reused, a.Computed, a.Queue, a.Compute = 0, 0, 0, 0
	return a
}

// TestDomainsReachTheService: questions of a gateway share within their domain, asked or sent early; those of the
// process share the default domain; with Apart nothing is shared.
func TestDomainsReachTheService(t *testing.T) {
	e := small(t, Options{}, nil)
	text := []int32{1, 2, 3, 4, 5, 6}
	for _, apart := range []bool{false, true} {
		s, err := e.Serve(ServeOptions{Apart: apart})
		require.NoError(t, err)
		u := builtIn{s: s}
		shared := func(call func() error) int {
			before := statsOf(t, s).Shared
			require.NoError(t, call())
			return int(statsOf(t, s).Shared - before)
		}
		ask := func(session, domain uint64) int {
			return shared(func() error {
				_, err := u.Ask(t.Context(), terms.Job{Session: session, Domain: domain,
					Question: terms.Question{Context: text}})
				return err
			})
		}
		warm := func(session, domain uint64) int {
			return shared(func() error {
				return u.Warm(t.Context(), terms.Job{Session: session, Domain: domain,
					Question: terms.Question{Context: text}})
			})
		}
		local := func(session uint64) int {
			return shared(func() error {
				_, err := s.Local(session).Ask(t.Context(), draft.Question{Context: text})
				return err
			})
		}
		got := []int{ask(1, 0), ask(2, 0), ask(3, 9), warm(4, 9), warm(5, 8), ask(6, 8), local(7), ask(7, 0)}
		if apart {
			assert.Equal(t, []int{0, 0, 0, 0, 0, 0, 0, 0}, got)
		} else {
			assert.Equal(t, []int{0, 6, 0, 6, 0, 6, 6, 0}, got)
		}
		s.Close()
	}
}
