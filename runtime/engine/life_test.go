package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// always escalates every token.
func always(t testing.TB) *router.Router {
	t.Helper()
	r, err := router.New(router.Options{Policy: router.Always})
	require.NoError(t, err)
	return r
}

// last returns the error that ends a sequence of tokens, and the number of tokens before it.
func last(s *engine.Session, ctx context.Context, r engine.Route) (n int, err error) {
	for _, err = range s.Routed(ctx, []int32{1, 2, 3}, r) {
		if err == nil {
			n++
		}
	}
	return n, err
}

// engineCalls returns the methods of an engine that need it open.
func engineCalls(ctx context.Context, e *engine.Engine) map[string]func() error {
	return map[string]func() error{
		"NewSession": func() error { _, err := e.NewSession(); return err },
		"Chat":       func() error { _, err := e.Chat(tokenizer.Message{Role: "user", Content: "a"}); return err },
		"RawPrompt":  func() error { _, err := e.RawPrompt("a"); return err },
		"Tokenizer":  func() error { _, err := e.Tokenizer(); return err },
		"Logits":     func() error { _, _, err := e.Logits(ctx, []int32{1, 2, 3}, 1); return err },
		"Check":      func() error { _, err := e.Check(ctx, engine.Route{}); return err },
		"Weights":    func() error { _, err := e.Weights(ctx); return err },
		"SavedText":  func() error { _, err := e.SavedText(strings.NewReader("")); return err },
		"Identity":   func() error { _, err := e.Identity(); return err },
		"Dial":       func() error { _, err := e.Dial(ctx, "127.0.0.1:1", engine.DialOptions{}); return err },
		"Serve":      func() error { _, err := e.Serve(engine.ServeOptions{}); return err },
	}
}

// sessionCalls returns the methods of sessions that need an open engine: two have a text, and fresh has none.
func sessionCalls(t *testing.T, s, other, fresh *engine.Session, cloud *engine.Service) map[string]func() error {
	ctx, ids := t.Context(), []int32{1, 2, 3}
	return map[string]func() error{
		"Generate": func() error {
			n, err := last(s, ctx, engine.Route{})
			assert.Zero(t, n)
			return err
		},
		"Generate, a session of no text": func() error { _, err := last(fresh, ctx, engine.Route{}); return err },
		"Routed": func() error {
			_, err := last(s, ctx, engine.Route{Router: always(t), Cloud: cloud.Local(1)})
			return err
		},
		"Read": func() error {
			return fresh.Read(ctx, ids, 1, 0, func(engine.Seen) error { return errors.New("no result expected") })
		},
		"Save":     func() error { _, err := other.Save(ctx, io.Discard, ids); return err },
		"CopyFrom": func() error { return fresh.CopyFrom(ctx, other, 2) },
	}
}

// serviceCalls returns the methods of a service that need an open engine.
func serviceCalls(ctx context.Context, cloud *engine.Service) map[string]func() error {
	return map[string]func() error{
		"Session": func() error { _, _, err := cloud.Session(ctx); return err },
		"Gateway": func() error { _, err := cloud.Gateway(engine.GatewayOptions{}); return err },
		"Service.Ask": func() error {
			_, err := cloud.Ask(ctx, terms.Job{Question: terms.Question{Context: []int32{1, 2, 3}, K: 1}})
			return err
		},
		"Service.Local": func() error {
			_, err := cloud.Local(2).Ask(ctx, draft.Question{Context: []int32{5, 6}})
			return err
		},
	}
}

// partCalls returns the methods of the file and the model of an engine that need it open.
func partCalls(ctx context.Context, e *engine.Engine, cache *transformer.Cache) map[string]func() error {
	return map[string]func() error{
		"File.String":  func() error { _, err := e.File().String("general.name"); return err },
		"File.Strings": func() error { _, err := e.File().Strings("tokenizer.ggml.tokens"); return err },
		"File.Preload": func() error { return e.File().Preload(ctx, nil) },
		"Model.Forward": func() error {
			row := cache.Node(1, 0)
			return e.Model().Forward(ctx, cache.KV(), []backend.Row{row}, nil, backend.Want{})
		},
		"Model.NewCache": func() error { _, err := e.Model().NewCache(4, gguf.F16); return err },
	}
}

// TestUseAfterClose: every method returns ErrClosed after Close, without a fault.
func TestUseAfterClose(t *testing.T) {
	path := model(t, nil)
	e, err := engine.Open(path, engine.Options{})
	require.NoError(t, err)
	ctx, ids := t.Context(), []int32{1, 2, 3}
	s, fresh, other := session(t, e), session(t, e), session(t, e)
	cloud, err := e.Serve(engine.ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	generate(t, s, ids, terms.Settings{MaxTokens: 3, IgnoreEnd: true})
	generate(t, other, ids, terms.Settings{MaxTokens: 3, IgnoreEnd: true})
	_, err = cloud.Ask(ctx, terms.Job{Question: terms.Question{Context: ids, K: 1}})
	require.NoError(t, err)
	before, kv, held, device := s.Summary(), s.KVBytes(), s.KVTokens(), e.Device()
	cache, err := e.Model().NewCache(4, gguf.F16)
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.NoError(t, e.Close(), "twice is fine")

	for _, calls := range []map[string]func() error{
		engineCalls(ctx, e), sessionCalls(t, s, other, fresh, cloud), serviceCalls(ctx, cloud),
		partCalls(ctx, e, cache),
	} {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) { assert.ErrorIs(t, call(), engine.ErrClosed) })
		}
	}
	_, _, err = e.Logits(ctx, ids, 1)
	assert.ErrorContains(t, err, filepath.Base(path), "the error names the model")
	assert.Equal(t, device, e.Device())
	assert.Positive(t, e.Threads())
	assert.Positive(t, e.Context())
	assert.Equal(t, kv, s.KVBytes())
	assert.Zero(t, held-s.KVTokens(), "nothing changed")
	assert.Equal(t, before.Stop, engine.StopLength)
	assert.Empty(t, e.File().Tensors())
	assert.Empty(t, e.File().Keys())
}

// TestCloseInLoop: the engine may be closed in the loop over its tokens; the next step returns the error.
func TestCloseInLoop(t *testing.T) {
	// it answers with the drafted tokens
	cloud, err := open(t, model(t, nil), engine.Options{}).Serve(engine.ServeOptions{})
	require.NoError(t, err)
	t.Cleanup(cloud.Close)
	r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.1)})
	require.NoError(t, err)
	path := model(t, nil)
	for n := range 20 {
		e, err := engine.Open(path, engine.Options{})
		require.NoError(t, err)
		s, seen := session(t, e), 0
		route := engine.Route{Settings: terms.Settings{IgnoreEnd: true}}
		if n > 2 { // one answer shows many tokens
			route.Router, route.Cloud, route.Draft = r, slow{cloud.Local(1)}, draft.Options{Deadline: -1, Branches: 4}
		}
		for _, err := range s.Routed(t.Context(), []int32{1, 2, 3}, route) {
			if seen == n+1 {
				require.ErrorIs(t, err, engine.ErrClosed)
				seen++
				continue
			}
			require.NoError(t, err)
			if seen++; seen == n+1 {
				require.NoError(t, e.Close())
			}
		}
		assert.Equal(t, n+2, seen, "the tokens, then the error")
		assert.Equal(t, n+1, s.Summary().Tokens)
		assert.Empty(t, s.Summary().Stop)
	}
	e, err := engine.Open(path, engine.Options{})
	require.NoError(t, err)
	for _, err := range session(t, e).Generate(t.Context(), []int32{1, 2, 3}, terms.Settings{}) {
		require.NoError(t, err)
		require.NoError(t, e.Close())
		break // the caller may still leave the loop
	}
}

// slow is a cloud with a delay.
type slow struct{ draft.Cloud }

func (c slow) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	select {
	case <-time.After(30 * time.Millisecond):
	case <-ctx.Done():
	}
	return c.Cloud.Ask(ctx, q)
}

// TestCloseWhileTokenizerLoads: a file whose weights are refused at once stays mapped until its vocabulary, which takes
// longer, has been read.
func TestCloseWhileTokenizerLoads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vocabulary.gguf")
	file, err := os.Create(path)
	require.NoError(t, err)
	tokens := make([]string, 1<<17)
	for i := range tokens {
		tokens[i] = fmt.Sprint(i)
	}
	w := gguf.NewWriter(file)
	gguf.Put(w, "tokenizer.ggml.model", "gpt2")
	gguf.Put(w, "tokenizer.ggml.pre", "qwen2")
	gguf.PutArray(w, "tokenizer.ggml.tokens", tokens)
	gguf.PutArray(w, "tokenizer.ggml.merges", []string{})
	require.NoError(t, errors.Join(w.Close(), file.Close()))
	for range 10 {
		_, err := engine.Open(path, engine.Options{})
		require.ErrorContains(t, err, "general.architecture")
	}
}

// TestCloseAnytime: Close is called while sessions generate, alone and with a service of the same engine, while the
// file is read, and concurrently with other Close calls. All of them return, with ErrClosed or because they were done.
func TestCloseAnytime(t *testing.T) {
	path := model(t, nil)
	for round := range 8 {
		e, err := engine.Open(path, engine.Options{Context: 256})
		require.NoError(t, err)
		cloud, err := e.Serve(engine.ServeOptions{})
		require.NoError(t, err)
		var all sync.WaitGroup
		begun := make(chan bool, 100)
		until := func(one func() error) {
			all.Go(func() {
				for {
					err := one()
					select {
					case begun <- true:
					default:
					}
					if err != nil {
						assert.ErrorIs(t, err, engine.ErrClosed)
						return
					}
				}
			})
		}
		for i := range 3 {
			s := session(t, e)
			ask := terms.Settings{IgnoreEnd: true, MaxTokens: 40}
			until(func() error { _, err := last(s, t.Context(), engine.Route{Settings: ask}); return err })
			routed := session(t, e)
			until(func() error {
				_, err := last(routed, t.Context(), engine.Route{
					Settings: ask, Router: always(t), Cloud: cloud.Local(uint64(i)), Draft: draft.Options{Deadline: -1},
				})
				return err
			})
		}
		until(func() error { _, _, err := e.Logits(t.Context(), make([]int32, 200), 1); return err })
		until(func() error { return e.File().Preload(t.Context(), nil) })
		until(func() error { _, err := e.RawPrompt("the cat"); return err })
		until(func() error { _, err := e.NewSession(); return err })
		for range 1 + 10*round {
			<-begun
		}
		all.Go(func() { assert.NoError(t, e.Close()) })
		assert.NoError(t, e.Close())
		all.Wait()
		cloud.Close()
	}
}

// TestCloseWhileWaiting: a text that waits for the cloud ends when the engine is closed.
func TestCloseWhileWaiting(t *testing.T) {
	e, err := engine.Open(model(t, nil), engine.Options{})
	require.NoError(t, err)
	s := session(t, e)
	asked := make(chan bool, 1)
	all := sync.WaitGroup{}
	all.Go(func() {
		_, err := last(s, t.Context(), engine.Route{
			Router: always(t), Cloud: silent{asked}, Draft: draft.Options{Deadline: -1, Mode: draft.Serial},
		})
		assert.ErrorIs(t, err, engine.ErrClosed)
	})
	<-asked
	require.NoError(t, e.Close())
	all.Wait()
}

// silent is a cloud that never answers.
type silent struct{ asked chan bool }

func (c silent) Ask(ctx context.Context, _ draft.Question) (draft.Answer, error) {
	select {
	case c.asked <- true:
	default:
	}
	<-ctx.Done()
	return draft.Answer{}, context.Cause(ctx)
}

// TestBusy: using a busy session is an error, and its text continues undisturbed.
func TestBusy(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{})
	ask := terms.Settings{MaxTokens: 20, IgnoreEnd: true}
	want := generate(t, session(t, e), []int32{1, 2, 3}, ask)
	s := session(t, e)
	var got []engine.Token
	var others sync.WaitGroup
	for tok, err := range s.Generate(t.Context(), []int32{1, 2, 3}, ask) {
		require.NoError(t, err)
		tok.At = 0
		got = append(got, tok)
		for range 2 {
			others.Go(func() {
				n, err := last(s, t.Context(), engine.Route{})
				assert.Zero(t, n)
				assert.ErrorIs(t, err, engine.ErrBusy)
				assert.Positive(t, s.Summary().Tokens)
				assert.Positive(t, s.KVTokens())
				assert.Zero(t, s.Summary().Asks)
			})
		}
		if len(got) == 5 {
			_, err := last(s, t.Context(), engine.Route{})
			assert.ErrorIs(t, err, engine.ErrBusy, "also in the loop itself")
		}
		if len(got) == ask.MaxTokens {
			others.Wait()
		}
	}
	assert.Equal(t, want, got)
	assert.Equal(t, 20, s.Summary().Tokens)
	assert.Equal(t, want, generate(t, s, []int32{1, 2, 3}, ask), "free again")

	func() {
		defer func() { assert.NotNil(t, recover()) }()
		for range s.Generate(t.Context(), []int32{1, 2, 3}, ask) {
			panic("of the caller")
		}
	}()
	assert.Equal(t, want, generate(t, s, []int32{1, 2, 3}, ask), "free after a panic in the loop, too")

	for range s.Generate(t.Context(), []int32{1, 2, 3}, ask) {
		require.NoError(t, s.Close())
		_, err := last(s, t.Context(), engine.Route{})
		require.ErrorIs(t, err, engine.ErrClosed, "closed takes precedence over busy")
		break
	}
}

// TestErrorsNameTheFile: an error after loading names the model; a cancelled text returns only the cause.
func TestErrorsNameTheFile(t *testing.T) {
	path := model(t, nil)
	e := open(t, path, engine.Options{Context: 16})
	_, err := last(session(t, e), t.Context(), engine.Route{Settings: terms.Settings{IgnoreEnd: true}})
	require.NoError(t, err)
	for name, call := range map[string]func() error{
		"no room": func() error {
			var last error
			for _, err := range session(t, e).Generate(t.Context(), make([]int32, 16), terms.Settings{}) {
				last = err
			}
			return last
		},
		"no token": func() error { _, _, err := e.Logits(t.Context(), []int32{-1}, 1); return err },
		"no text":  func() error { _, _, err := e.Logits(t.Context(), nil, 1); return err },
	} {
		err := call()
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), path+": ", name)
	}
	why := errors.New("the user pressed ^C")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for _, err := range []error{
		func() error { _, err := last(session(t, e), ctx, engine.Route{}); return err }(),
		func() error { _, _, err := e.Logits(ctx, []int32{1}, 1); return err }(),
	} {
		assert.ErrorIs(t, err, why)
		assert.ErrorIs(t, err, context.Canceled, "with how the context ended")
		assert.EqualError(t, err, "the user pressed ^C", "nothing else")
	}
	timeout, stop := context.WithTimeout(t.Context(), time.Nanosecond)
	defer stop()
	_, err = last(session(t, e), timeout, engine.Route{})
	assert.Equal(t, context.DeadlineExceeded, err)
}
