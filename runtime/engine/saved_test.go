package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// savedRequest makes answers comparable: tokens with the bits of their log-probabilities.
var savedRequest = Route{Settings: terms.Settings{MaxTokens: 6, IgnoreEnd: true, Top: 5}}

// answered returns the answer to a prompt, and the number of reused tokens.
func answered(t *testing.T, s *Session, prompt []int32) ([]Token, int) {
	t.Helper()
	all := tokens(t, s, prompt, savedRequest)
	require.Len(t, all, savedRequest.MaxTokens)
	return all, s.Summary().ReusedTokens
}

// newSession returns a session that is closed with the test.
func newSession(t testing.TB, e *Engine) *Session {
	t.Helper()
	s := session(t, e)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

var longPrompt = []int32{1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 1, 4, 9, 16, 25, 36, 49, 64}

// savedSession returns a saved session, its text, a continuation, and the answer to both.
func savedSession(t *testing.T, e *Engine) (file []byte, text, next []int32, follows []Token) {
	t.Helper()
	s := newSession(t, e)
	answered(t, s, longPrompt)
	var b bytes.Buffer
	text, err := s.Save(t.Context(), &b, nil)
	require.NoError(t, err)
	require.Greater(t, len(text), len(longPrompt))
	next = append(cloned(text), 7, 77, 222)
	follows, reused := answered(t, s, next)
	require.Equal(t, len(text), reused)
	return b.Bytes(), text, next, follows
}

func cloned(ids []int32) []int32 { return append([]int32{}, ids...) }

// TestSaved: another session of the same model continues a saved session, in another process, with the same bits as the
// first one, and as one that computes everything. Nothing of the text is computed again.
func TestSaved(t *testing.T) {
	for i, o := range []Options{{}, {KV: KVF32}, {Exact: true}, {}, {}, {KV: KVF32}, {Exact: true}} {
		edit := []func(*synth.Spec){nil, nil, nil, toQwen3, toQwen35, toQwen35, toQwen35}[i]
		file, text, next, want := savedSession(t, small(t, o, edit))
		e := small(t, Options{KV: o.KV, Exact: o.Exact, Threads: 2}, edit)
		got, err := e.SavedText(bytes.NewReader(file))
		require.NoError(t, err)
		assert.Equal(t, text, got)
		s := newSession(t, e)
		answered(t, s, []int32{9, 9, 9}) // it had another text
		got, err = s.Load(t.Context(), iotest.OneByteReader(bytes.NewReader(file)))
		require.NoError(t, err)
		assert.Equal(t, text, got)
		assert.Equal(t, len(text), s.KVTokens())
		all, reused := answered(t, s, next)
		assert.Equal(t, want, all)
		assert.Equal(t, len(text), reused)
		all, _ = answered(t, newSession(t, e), next)
		assert.Equal(t, want, all, "computed")
		var again bytes.Buffer
		_, err = s.Save(t.Context(), &again, text)
		require.NoError(t, err)
		assert.Equal(t, file, again.Bytes(), "byte by byte")
	}
}

// toQwen3 makes a shape a Qwen3 with queries of twice its width.
func toQwen3(s *synth.Spec) { s.Qwen3, s.HeadSize = true, 2*s.Dim/s.Heads }

// toQwen35 makes a shape a Qwen3.5 with a recurrent layer in every second one.
func toQwen35(s *synth.Spec) {
	s.HeadSize = 32
	s.Linear = synth.Linear{
		KeyHeads: 1, ValueHeads: 2, KeySize: 16, ValueSize: 16, Kernel: 4, Interval: 2, Rotated: 8,
	}
}

// TestSavedStates: a text is saved as far as its states are known, and copied likewise; what is beyond is computed.
func TestSavedStates(t *testing.T) {
	e := small(t, Options{Threads: 2}, toQwen35)
	s := newSession(t, e)
	want, _ := answered(t, s, longPrompt)
	for n := range len(longPrompt) - 1 {
		var b bytes.Buffer
		_, err := s.Save(t.Context(), &b, longPrompt[:n+1])
		require.NoError(t, err)
		other := newSession(t, e)
		text, err := other.Load(t.Context(), &b)
		require.NoError(t, err)
		require.Equal(t, longPrompt[:n+1], text)
		got, reused := answered(t, other, longPrompt)
		require.Equal(t, want, got, "after %d tokens", n+1)
		require.Equal(t, n+1, reused)
		copied := newSession(t, e)
		require.NoError(t, copied.CopyFrom(t.Context(), s, n+1))
		got, reused = answered(t, copied, longPrompt)
		require.Equal(t, want, got, "after %d tokens", n+1)
		require.Equal(t, n+1, reused)
	}
	s.cache.KV().(backend.DeltaKV).Trim(0, 0)
	var b bytes.Buffer
	_, err := s.Save(t.Context(), &b, nil)
	assert.ErrorContains(t, err, "no keys and values to save")
	got, reused := answered(t, s, longPrompt)
	assert.Equal(t, want, got)
	assert.Zero(t, reused, "keys and values are there, and the states are not")
}

// TestSavedTail: tokens after the computed ones are saved and loaded with the text.
func TestSavedTail(t *testing.T) {
	e := small(t, Options{}, nil)
	s := newSession(t, e)
	answered(t, s, longPrompt)
	var b bytes.Buffer
	longer := append(cloned(longPrompt), 3, 3, 3, 3)
	_, err := s.Save(t.Context(), &b, longer)
	require.NoError(t, err)
	other := newSession(t, e)
	text, err := other.Load(t.Context(), &b)
	require.NoError(t, err)
	assert.Equal(t, longer, text)
	_, reused := answered(t, other, longer)
	assert.Equal(t, len(longPrompt), reused)
	_, err = s.Save(t.Context(), &b, []int32{200, 1})
	assert.ErrorContains(t, err, "no keys and values to save")
	_, err = newSession(t, e).Save(t.Context(), &b, nil)
	assert.ErrorContains(t, err, "no keys and values to save")
}

// TestSavedTextStays: texts that Save and Load have returned do not change when the sessions continue otherwise, and
// changing them changes no session.
func TestSavedTextStays(t *testing.T) {
	e := small(t, Options{}, nil)
	s, other := newSession(t, e), newSession(t, e)
	answered(t, s, longPrompt)
	longer := append(cloned(longPrompt), 3, 3, 3, 3)
	for _, text := range [][]int32{nil, longer} {
		var b bytes.Buffer
		saved, err := s.Save(t.Context(), &b, text)
		require.NoError(t, err)
		loaded, err := other.Load(t.Context(), &b)
		require.NoError(t, err)
		want := cloned(saved)
		require.Equal(t, want, loaded)
		for _, s := range []*Session{s, other} {
			_, reused := answered(t, s, append(cloned(want[:12]), 99, 98, 97))
			require.Equal(t, 12, reused)
			require.Equal(t, want, saved)
			require.Equal(t, want, loaded)
		}
		_, err = s.Save(t.Context(), io.Discard, loaded)
		require.NoError(t, err)
		for i := range want {
			saved[i], loaded[i] = 1, 1
		}
		for _, s := range []*Session{s, other} {
			_, reused := answered(t, s, want[:12])
			require.Equal(t, 11, reused)
		}
		answered(t, s, longPrompt)
	}
}

// TestSavedDamaged: a file with a changed, missing or additional byte is refused; the session is then empty and usable.
func TestSavedDamaged(t *testing.T) {
	e := small(t, Options{}, nil)
	file, text, next, want := savedSession(t, e)
	s := newSession(t, e)
	refused := func(b []byte, what string, at int) {
		got, err := s.Load(t.Context(), bytes.NewReader(b))
		require.Error(t, err, "%s %d", what, at)
		require.Nil(t, got)
		require.Zero(t, s.KVTokens())
		if !errors.Is(err, ErrOtherSaved) && !errors.Is(err, ErrContext) {
			require.ErrorIs(t, err, ErrNotSaved, "%s %d", what, at)
		}
	}
	for i := 0; i < len(file); i += 1 + i/400*37 { // all of the header, and some of the rest
		b := bytes.Clone(file)
		b[i] ^= 1 << (i % 8)
		refused(b, "changed", i)
		refused(file[:i], "cut", i)
	}
	refused(append(bytes.Clone(file), 0), "longer", 1)
	_, err := s.Load(t.Context(), iotest.ErrReader(io.ErrClosedPipe))
	assert.ErrorIs(t, err, io.ErrClosedPipe)
	all, reused := answered(t, s, next)
	assert.Equal(t, want, all)
	assert.Zero(t, reused)
	_, err = s.Load(t.Context(), bytes.NewReader(file))
	require.NoError(t, err)
	assert.Equal(t, len(text), s.KVTokens())
}

// TestSavedNumbers: the numbers in a header are checked before use, even if the checksum is right.
func TestSavedNumbers(t *testing.T) {
	e := small(t, Options{}, nil)
	file, text, _, _ := savedSession(t, e)
	head := func(text []int32, cached int) []byte {
		own, err := e.saved()
		require.NoError(t, err)
		b, err := own.Head(text, cached)
		require.NoError(t, err)
		return append(b, file[len(b):]...)
	}
	vocab := int32(e.model.Config().Vocab)
	long := binary.LittleEndian.AppendUint32(file[:8:8], 4096+1)
	long = append(append(long, "{}"...), bytes.Repeat([]byte(" "), 2*4096)...)
	for want, b := range map[string][]byte{
		"a header of 4097 bytes; at most 4096":                              long,
		fmt.Sprintf("is %d: ids of this model are 0 to %d", vocab, vocab-1): head(append(cloned(text[1:]), vocab), 5),
		"is 4294967295: ids of this model":                                  head(append(cloned(text[1:]), -1), 5),
		"0 of them with keys and values":                                    head(text, 0),
		"-1 of them with keys and values":                                   head(text, -1),
		" tokens, 1000 of them with keys":                                   head(text, 1000),
	} {
		_, err := newSession(t, e).Load(t.Context(), bytes.NewReader(b))
		require.ErrorIs(t, err, ErrNotSaved)
		assert.ErrorContains(t, err, want)
	}
}

// TestSavedElsewhere: another model, other settings, another program and another version of the format are refused with
// different errors.
func TestSavedElsewhere(t *testing.T) {
	file, text, _, _ := savedSession(t, small(t, Options{}, nil))
	load := func(e *Engine, b []byte) error {
		_, err := newSession(t, e).Load(t.Context(), bytes.NewReader(b))
		_, text := e.SavedText(bytes.NewReader(b))
		assert.Equal(t, err, text, "before the rest is read")
		return err
	}
	other := small(t, Options{}, func(s *synth.Spec) { s.Seed++ })
	family := func(s *synth.Spec) { s.Qwen3 = true } // with keys and values of the same shape
	require.ErrorIs(t, load(small(t, Options{}, family), file), ErrOtherSaved)
	for want, e := range map[string]*Engine{
		"the file of the model was":                                    other,
		"the type of keys and values was \"F16\", and is \"F32\" here": small(t, Options{KV: KVF32}, nil),
		"the device was": small(t, Options{Exact: true, KV: KVF16}, nil),
	} {
		err := load(e, file)
		require.ErrorIs(t, err, ErrOtherSaved)
		assert.ErrorContains(t, err, want)
	}
	e := small(t, Options{}, nil)
	own, err := e.saved()
	require.NoError(t, err)
	own.Program = "v0.0.1"
	e.saved = func() (transformer.Saved, error) { return own, nil }
	assert.ErrorContains(t, load(e, file), "the version of the program was")
	b := bytes.Clone(file)
	b[7]++ // the version
	assert.ErrorContains(t, load(small(t, Options{}, nil), b), "version 2 of the format, this program has version 1")
	err = load(small(t, Options{Context: len(text) - 1}, nil), file)
	require.ErrorIs(t, err, ErrContext)
	assert.ErrorIs(t, load(small(t, Options{}, nil), []byte(strings.Repeat("{}", 99))), ErrNotSaved)
}

// TestCopied: a session continues a copy of another one's prefix with the same bits; the other one does not change.
func TestCopied(t *testing.T) {
	e := small(t, Options{}, nil)
	from, to := newSession(t, e), newSession(t, e)
	answered(t, from, longPrompt)
	answered(t, to, []int32{9, 9})
	require.NoError(t, to.CopyFrom(t.Context(), from, 12))
	next := append(cloned(longPrompt[:12]), 99, 98)
	all, reused := answered(t, to, next)
	assert.Equal(t, 12, reused)
	want, _ := answered(t, newSession(t, e), next)
	assert.Equal(t, want, all)
	_, reused = answered(t, from, longPrompt)
	assert.Equal(t, len(longPrompt)-1, reused)
	require.NoError(t, to.CopyFrom(t.Context(), from, 1000))
	assert.Equal(t, from.KVTokens(), to.KVTokens())
	require.NoError(t, to.CopyFrom(t.Context(), from, -1))
	assert.Zero(t, to.KVTokens())
	assert.ErrorIs(t, to.CopyFrom(t.Context(), to, 1), ErrBusy)
	assert.ErrorContains(t, to.CopyFrom(t.Context(), newSession(t, small(t, Options{}, nil)), 1), "two models")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, to.CopyFrom(ended, from, 5), context.Canceled)
	assert.Zero(t, to.KVTokens())
	require.NoError(t, from.Close())
	assert.ErrorIs(t, to.CopyFrom(t.Context(), from, 1), ErrClosed)
}

// FuzzLoad: any bytes are refused or equal to a saved session.
func FuzzLoad(f *testing.F) {
	e := small(f, Options{}, nil)
	s := newSession(f, e)
	tokens(f, s, longPrompt, Route{Settings: terms.Settings{MaxTokens: 2}})
	var b bytes.Buffer
	_, err := s.Save(f.Context(), &b, nil)
	require.NoError(f, err)
	file := b.Bytes()
	f.Add(file)
	f.Add(file[:300])
	f.Add(append(file[:8:8], 255, 255, 255, 255))
	f.Add(append(file[:8:8], 2, 0, 0, 0, '{', '}'))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := s.Load(t.Context(), bytes.NewReader(b)); err == nil {
			require.Equal(t, file, b)
		}
		_, _ = e.SavedText(bytes.NewReader(b))
	})
}
