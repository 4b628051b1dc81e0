package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestServiceSession: a service has the same sessions as a gateway: they are independent, and an ended one is dropped.
func TestServiceSession(t *testing.T) {
	e := small(t, Options{Context: 16}, nil)
	s, err := e.Serve(ServeOptions{Apart: true})
	require.NoError(t, err)
	defer s.Close()
	var far Far = s
	text := []int32{1, 2, 3, 4, 5}
	var ends []func()
	var tokens []int32
	for range 2 {
		cloud, end, err := far.Session(t.Context())
		require.NoError(t, err)
		a, err := cloud.Ask(t.Context(), CloudQuestion{Context: text, AuditFrom: 1})
		require.NoError(t, err)
		assert.Equal(t, 4, a.Audited)
		tokens, ends = append(tokens, a.Token), append(ends, end)
	}
	assert.Equal(t, tokens[0], tokens[1])
	held := statsOf(t, s).InUse
	assert.Equal(t, 2*len(text), held, "tokens of two sessions")
	ends[0]()
	assert.Equal(t, len(text), statsOf(t, s).InUse)
	ends[1]()
	assert.Zero(t, statsOf(t, s).InUse)
	s.Close()
	_, _, err = far.Session(t.Context())
	assert.ErrorIs(t, err, ErrClosed)
	open, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer open.Close()
	require.NoError(t, e.Close())
	_, _, err = open.Session(t.Context())
	assert.ErrorIs(t, err, ErrClosed, "its engine is closed")
}

// TestServiceVerifies: the built-in model supports all kinds of verification.
func TestServiceVerifies(t *testing.T) {
	e := small(t, Options{Context: 16}, nil)
	judge := anyJudge(t, e)
	s, err := e.Serve(ServeOptions{Judge: judge})
	require.NoError(t, err)
	defer s.Close()
	assert.ErrorIs(t, s.Verifies(t.Context(), terms.Sampling{}, "another"), netproto.CannotVerify)
	for _, o := range []terms.Sampling{{}, {Temperature: 0.8}, {Temperature: 0.8, TopK: 300, TopP: 0.5, Seed: 1}} {
		for _, kind := range []terms.Verify{terms.EachChoice, terms.EachScore, terms.EachJudged} {
			require.NoError(t, s.Verifies(t.Context(), o, judge.Fingerprint()))
			a, err := s.Local(1).Ask(t.Context(), CloudQuestion{
				Context: []int32{1, 2, 3, 4, 5}, AuditFrom: 2, Verify: kind, Sampling: o,
			})
			require.NoError(t, err)
			assert.Equal(t, 3, a.Audited)
		}
	}
}

// anyJudge returns a judge for the hidden states of e.
func anyJudge(t testing.TB, e *Engine) *router.Judge {
	j, err := synth.Judge(e.Width())
	require.NoError(t, err)
	return j
}

// TestForeignJudge: a judge of another width is refused, before memory is taken.
func TestForeignJudge(t *testing.T) {
	e := small(t, Options{Context: 16}, nil)
	wide := anyJudge(t, e)
	wide.Net.Layers[0].In += 2
	_, err := e.Serve(ServeOptions{Judge: wide})
	assert.ErrorContains(t, err, "trained for another model")
}

// TestEngineName: an engine returns the name of its model.
func TestEngineName(t *testing.T) {
	e := small(t, Options{}, nil)
	name, err := e.File().String("general.name")
	if err == nil {
		assert.Equal(t, name, e.Name())
	} else {
		require.ErrorIs(t, err, gguf.ErrAbsent)
		assert.Empty(t, e.Name())
	}
	sum, err := e.Fingerprint()
	require.NoError(t, err)
	want, err := e.File().Fingerprint()
	require.NoError(t, err)
	assert.Equal(t, want, sum)
}

// counting is a large model that sends a message at the end of a session, too.
type counting struct{ bytes int }

func (c *counting) Session(context.Context) (Cloud, func(), error) {
	return c, func() { c.bytes += 100 }, nil
}

func (c *counting) Ask(context.Context, CloudQuestion) (CloudAnswer, error) {
	c.bytes++
	return CloudAnswer{Reply: terms.Reply{Token: 7}}, nil
}

func (c *counting) Receipt() Receipt { return Receipt{Bytes: c.bytes} }

// TestReceipt: the receipt of an answer includes the message that ends its session.
func TestReceipt(t *testing.T) {
	s := small(t, Options{Context: 16}, nil).Session()
	r := dictated(t, nil)
	r.Far, r.Settings = &counting{}, terms.Settings{MaxTokens: 3, IgnoreEnd: true}
	for _, err := range s.Routed(t.Context(), []int32{1, 2}, r) {
		require.NoError(t, err)
	}
	assert.Equal(t, Receipt{Bytes: 103}, s.Summary().Receipt)
}
