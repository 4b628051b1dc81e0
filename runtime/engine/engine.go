// Package engine puts the parts together: a model file in, tokens out. It alone imports every concrete type. Other
// programs use the root package, which is a thin layer on top of it.
//
//	e, err := engine.Open("qwen2.5-0.5b-instruct-q8_0.gguf", engine.Options{})
//	…
//	defer e.Close()
//	ids, err := e.Chat(tokenizer.Message{Role: "user", Content: "What is a pilot fish?"})
//	…
//	s, err := e.NewSession()
//	…
//	for tok, err := range s.Generate(ctx, ids, terms.Settings{}) {
//		…
//		fmt.Print(tok.Text)
//	}
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/freemem"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/device"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// Options say how a model is run. The zero value works.
type Options struct {
	Backend Backend // what runs the model; "" means the CPU
	Threads int     // workers on the CPU; 0 means as many as the Go runtime may use at once
	Context int     // longest text in tokens, prompt and answer; 0 means 4096, or the model's own limit if that is less
	KV      KVType  // how keys and values are kept; Exact keeps float32
	Exact   bool    // float32 activations, keys and values, generic Go throughout: slow, for checking

	HugePages HugePages // whether weights move into huge pages; "" means auto

	// Sessions, if not 0, is how many full sessions the memory is to hold: a Context of 0 then means the model's limit,
	// or if that is less, what fits into three quarters of the memory that the weights leave free, but at least 4096.
	Sessions int

	// Notice is told what makes the first answer wait, in words for a user. nil means nobody.
	Notice func(string)
}

// KVType is how keys and values are kept.
type KVType string

const (
	KVAuto KVType = ""    // float32 if all weights of the model are, or else float16
	KVF16  KVType = "f16" // float16
	KVF32  KVType = "f32" // float32, twice the memory
)

// defaultContext is the default length of the longest text, in tokens.
const defaultContext = 4096

// Engine is an open model. Its sessions share the weights and take turns with their forward calls. Its methods may be
// called by any number of goroutines, also while another one calls [Engine.Close].
type Engine struct {
	lifetime
	path    string
	file    *gguf.File
	device  backend.Device
	name    string // of the device
	model   *transformer.Model
	o       Options
	tokens  func() (*tokenizer.Tokenizer, error) // waits until the tokenizer is loaded
	saved   func() (transformer.Saved, error)    // what sessions save
	kvType  gguf.Type                            // of keys and values
	move    weightMove                           // of the weights into huge pages
	batcher *batcher                             // of the sessions; nil if the device cannot mix their rows

	grammars grammarCache // for answers that are JSON

	loading     sync.WaitGroup // of the tokenizer
	closeDevice func() error
}

// Open maps the file and loads its weights. Errors name the file and the field.
func Open(path string, o Options) (*Engine, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	return New(f, path, o)
}

// New loads the weights of an open file. Errors use name for the file. The engine closes the file, also on an error.
func New(f *gguf.File, name string, o Options) (*Engine, error) {
	e := &Engine{path: name, file: f, o: o}
	e.startLifetime(e.releaseResources)
	e.tokens = e.startTokenizer()
	if err := e.loadModel(); err != nil {
		return nil, errors.Join(fmt.Errorf("load %s: %w", name, err), e.Close())
	}
	return e, nil
}

func (e *Engine) loadModel() (err error) {
	e.device, e.closeDevice, err = device.Open(device.Options{
		Backend: e.o.Backend, Threads: e.o.Threads, Exact: e.o.Exact, Mapped: e.file.Mappings(),
		Notice: e.o.Notice,
	})
	if err != nil {
		return err
	}
	if err := e.planMove(); err != nil {
		return err
	}
	if e.model, err = transformer.Load(e.file, e.device); err != nil {
		return err
	}
	e.name = e.device.Name()
	e.saved = sync.OnceValues(e.savedHeader)
	if e.model.Mixes() {
		e.batcher = newBatcher()
		e.batcher.acquire, e.batcher.forward = e.acquireModel, e.forwardModel
	}
	return e.setDefaults()
}

func (e *Engine) setDefaults() error {
	switch e.o.KV {
	case KVAuto, KVF16, KVF32:
	default:
		return fmt.Errorf("keys and values cannot be kept as %q: choose f16 or f32", e.o.KV)
	}
	e.kvType = gguf.F16
	if e.o.Exact || e.o.KV == KVF32 || e.o.KV == KVAuto && e.onlyF32() {
		e.kvType = gguf.F32
	}
	limit := e.ContextLimit()
	if e.o.Context == 0 {
		e.o.Context = min(defaultContext, limit)
		if free, err := freemem.Bytes(); err == nil && e.o.Sessions > 0 {
			kv := e.kvConfig(1)
			used := uint64(e.file.Size()) + uint64(kv.FixedBytes())*uint64(e.o.Sessions)
			e.o.Context = fitContext(free, used, kv.SlotBytes(), e.o.Sessions, limit)
		}
	}
	if e.o.Context < 1 || e.o.Context > limit {
		return fmt.Errorf("a context of %d tokens is not possible: the model allows 1 to %d", e.o.Context, limit)
	}
	return nil
}

// fitContext returns the longest context, in whole KiB of tokens, with which full sessions fit into three quarters of
// the memory that the weights leave free: at least the usual one, and at most limit.
func fitContext(free, weights uint64, bytesPerToken int64, sessions, limit int) int {
	most := (free - min(free, weights)) / 4 * 3 / uint64(bytesPerToken) / uint64(sessions)
	if most >= uint64(limit) {
		return limit
	}
	return min(max(int(most)/1024*1024, defaultContext), limit)
}

func (e *Engine) newCache(ctx context.Context, slots int) (*transformer.Cache, error) {
	done, err := e.acquireModel(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return e.model.NewCache(slots, e.kvType)
}

func (e *Engine) kvConfig(slots int) backend.KVConfig { return e.model.KVConfig(slots, e.kvType) }

func (e *Engine) kvBytes(slots int) int64 { return e.kvConfig(slots).Bytes() }

// If every tensor is float32, the model rounds nothing, and keys and values are stored as float32 too.
func (e *Engine) onlyF32() bool {
	return !slices.ContainsFunc(e.file.Tensors(), func(t gguf.Tensor) bool { return t.Type != gguf.F32 })
}

func (e *Engine) releaseResources() error {
	var err error
	e.loading.Wait()
	if e.model != nil {
		e.model.Close()
	}
	if e.closeDevice != nil {
		err = e.closeDevice()
	}
	return errors.Join(err, e.file.Close())
}

// File returns the open model file. Its views, such as tensor data, must not be used after [Engine.Close].
func (e *Engine) File() *gguf.File { return e.file }

// Model returns the model itself, for callers that form their own batches. One goroutine at a time may use it,
// including the sessions and services of the engine.
func (e *Engine) Model() *transformer.Model { return e.model }

// Context returns the maximum length of a session's text, in tokens.
func (e *Engine) Context() int { return e.o.Context }

// ContextLimit returns the longest text that the model allows, in tokens.
func (e *Engine) ContextLimit() int { return e.model.Config().Context }

// Tokenizer returns the tokenizer of the file, once it is loaded. It can be used after [Engine.Close].
func (e *Engine) Tokenizer() (*tokenizer.Tokenizer, error) {
	done, err := e.keepOpen()
	if err != nil {
		return nil, e.withFileName(context.Background(), err)
	}
	defer done()
	return e.tokens()
}

// startTokenizer begins to load the tokenizer while the weights are mapped. The function that it returns waits for it.
func (e *Engine) startTokenizer() func() (*tokenizer.Tokenizer, error) {
	var t *tokenizer.Tokenizer
	var err error
	e.loading.Go(func() { t, err = tokenizer.FromGGUF(e.file) })
	return sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
		e.loading.Wait()
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", e.path, err)
		}
		if vocab := e.model.Config().Vocab; t.Size() != vocab {
			return nil, fmt.Errorf("load %s: tokenizer.ggml.tokens has %d tokens, but the embedding has %d rows",
				e.path, t.Size(), vocab)
		}
		return t, nil
	})
}

// Chat returns the ids of a chat up to where the answer begins.
func (e *Engine) Chat(messages ...tokenizer.Message) ([]int32, error) {
	t, err := e.Tokenizer()
	if err != nil {
		return nil, err
	}
	ids, err := t.Chat(messages, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, err)
	}
	return ids, nil
}

// RawPrompt returns the ids of a text without a chat template, special tokens recognised, after the begin token if the
// file asks for one.
func (e *Engine) RawPrompt(text string) ([]int32, error) {
	t, err := e.Tokenizer()
	if err != nil {
		return nil, err
	}
	ids := t.Encode(text, true)
	if bos, ok := t.BOS(); ok && t.AddBOS() {
		ids = append([]int32{bos}, ids...)
	}
	return ids, nil
}

// Logits returns the logits [vocabulary] of the token that follows ids, and the k best tokens.
func (e *Engine) Logits(ctx context.Context, ids []int32, k int) ([]float32, []backend.Candidate, error) {
	ctx, release := e.bindContext(ctx)
	defer release()
	cache, err := e.newCache(ctx, max(len(ids), 1))
	if err != nil {
		return nil, nil, e.withFileName(ctx, err)
	}
	out := make([]backend.Output, 1)
	err = e.evaluateTokens(ctx, newBatchSession(), cache, ids, out, backend.Want{K: k, Logits: true})
	return out[0].Logits, out[0].Top, e.withFileName(ctx, err)
}

func (e *Engine) checkTokens(what string, ids []int32) error {
	vocab := e.model.Config().Vocab
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("token %d of the %s is %d: ids of this model are 0 to %d", i, what, id, vocab-1)
		}
	}
	return nil
}

// evaluateTokens appends ids to cache, and sets out to the output of the head for the last of them. On an error those
// that were evaluated stay in the cache.
func (e *Engine) evaluateTokens(
	ctx context.Context, m *batchSession, cache *transformer.Cache, ids []int32,
	out []backend.Output, want backend.Want,
) error {
	if len(ids) == 0 {
		return errors.New("no tokens: a prompt needs at least one")
	}
	before := cache.Len()
	rows, err := cache.Extend(ids)
	if err != nil {
		return err
	}
	for i := range out {
		want.Rows = append(want.Rows, len(rows)-len(out)+i)
	}
	done, err := e.evaluateRows(ctx, m, cache.KV(), rows, out, want)
	if err != nil {
		cache.Truncate(before + done)
	}
	return err
}

// evaluateRows evaluates rows of which none sees a later one; want is of the last rows. On an error, done rows are
// evaluated.
func (e *Engine) evaluateRows(
	ctx context.Context, m *batchSession, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) (done int, err error) {
	if e.batcher != nil {
		err = e.batcher.runCall(ctx, m, kv, rows, out, want, true)
		return m.call.begun, err
	}
	for len(rows)-done > transformer.MaxRows {
		n := min(transformer.MaxRows, len(rows)-len(out)-done)
		if err := e.forwardExclusive(ctx, kv, rows[done:done+n], nil, backend.Want{}); err != nil {
			return done, err
		}
		done += n
	}
	for i := range want.Rows {
		want.Rows[i] -= done
	}
	return done, e.forwardExclusive(ctx, kv, rows[done:], out, want)
}
