// Package fakeengine simulates inference engines for tests: the HTTP replies of llama-server, SGLang and vLLM, as
// recorded from real ones, with a function instead of a model.
package fakeengine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Engine is one engine. It implements http.Handler. Set exported fields before the first request.
type Engine struct {
	Dialect    string                      // llama, sglang or vllm
	Vocabulary *Vocabulary                 // nil: NewVocabulary
	Model      func(ctx []int32) []float64 // log-probability by id; nil: Table(1)
	MaxContext int                         // tokens, including the next one; 0: 512
	Slots      int                         // of llama; 0: 4
	Key        string                      // required; "" means none
	MaxTop     int                         // of vllm; 0: 20
	Name       string                      // of the model; "": fake

	NoGenerate bool // vllm: without /inference/v1/generate
	Strips     bool // drops a leading space when it detokenizes

	// Fault, if set, may answer instead of the engine: it returns whether it did.
	Fault func(w http.ResponseWriter, r *http.Request, body []byte) bool

	once  sync.Once
	mux   *http.ServeMux
	mu    sync.Mutex
	calls []Call
	slots map[int][]int32      // of llama: the content of each
	salts map[string][][]int32 // computed contexts, by salt
}

// Call is a received request.
type Call struct {
	Path string
	Body []byte
	Auth string // the header Authorization
}

// Calls returns the requests so far to a path.
func (e *Engine) Calls(path string) (all []Call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		if c.Path == path {
			all = append(all, c)
		}
	}
	return all
}

func (e *Engine) setDefaults() {
	e.Vocabulary = cmp.Or(e.Vocabulary, NewVocabulary())
	if e.Model == nil {
		e.Model = Table(e.Vocabulary, 1)
	}
	e.MaxContext, e.Slots, e.MaxTop = cmp.Or(e.MaxContext, 512), cmp.Or(e.Slots, 4), cmp.Or(e.MaxTop, 20)
	e.Name = cmp.Or(e.Name, "fake")
	e.slots, e.salts = map[int][]int32{}, map[string][][]int32{}
	e.mux = http.NewServeMux()
	map[string]func(){"llama": e.registerLlama, "sglang": e.registerSGLang, "vllm": e.registerVLLM}[e.Dialect]()
}

// ServeHTTP handles a request.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.once.Do(e.setDefaults)
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	e.mu.Lock()
	e.calls = append(e.calls, Call{r.URL.Path, b, r.Header.Get("Authorization")})
	e.mu.Unlock()
	if e.Fault != nil && e.Fault(w, r, b) {
		return
	}
	open := r.URL.Path == "/health" || e.Dialect == "llama" && r.URL.Path == "/v1/models"
	if e.Key != "" && !open && r.Header.Get("Authorization") != "Bearer "+e.Key {
		writeErrorReply(w, http.StatusUnauthorized, "authentication_error", "Invalid API Key")
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(b)))
	e.mux.ServeHTTP(w, r)
}

// handlePost adds an endpoint that reads the fields of T from a JSON document. All fields of requests are compared with
// those of recorded ones elsewhere: see [Transcript.Unlike].
func handlePost[T any](e *Engine, path string, answer func(w http.ResponseWriter, q T)) {
	e.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var q T
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			writeErrorReply(w, http.StatusBadRequest, "invalid_request_error", err.Error())
			return
		}
		answer(w, q)
	})
}

func writeReply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}

func writeErrorReply(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	writeReply(w, map[string]any{"error": map[string]any{"message": message, "type": kind, "code": status}})
}

type object = map[string]any

// validateContext refuses a context that the engine does not accept.
func (e *Engine) validateContext(w http.ResponseWriter, context []int32, most int, kind, long string) bool {
	switch unknown := func(id int32) bool { return id < 0 || int(id) >= e.Vocabulary.Size() }; {
	case slices.ContainsFunc(context, unknown):
		writeErrorReply(w, http.StatusBadRequest, "invalid_request_error", "Prompt contains invalid tokens")
	case len(context) == 0 || len(context) > most:
		writeErrorReply(w, http.StatusBadRequest, kind, long)
	default:
		return true
	}
	return false
}

func (e *Engine) detokenize(ids []int32) string {
	s := e.Vocabulary.decodeText(ids)
	if e.Strips {
		s = strings.TrimPrefix(s, " ")
	}
	return s
}

// candidate is a token and its log-probability.
type candidate struct {
	id int32
	p  float64
}

func (e *Engine) rankCandidates(context []int32) []candidate {
	logProbs := e.Model(context)
	all := make([]candidate, 0, len(logProbs))
	for id, p := range logProbs {
		all = append(all, candidate{int32(id), p})
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.p, a.p), cmp.Compare(a.id, b.id)) })
	return all
}

// cachedPrefixLen returns how many tokens of a context were computed before with a salt, in whole blocks and at most
// all but one. It records the context.
func (e *Engine) cachedPrefixLen(salt string, context []int32, block int) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, old := range e.salts[salt] {
		n = max(n, commonPrefixLen(old, context))
	}
	e.salts[salt] = append(e.salts[salt], slices.Clone(context))
	return min(n, len(context)-1) / block * block
}

func commonPrefixLen(a, b []int32) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Table returns a model with separate, pseudorandom probabilities for every context.
func Table(v *Vocabulary, seed uint64) func(ctx []int32) []float64 {
	return func(ctx []int32) []float64 {
		h := seed
		for _, id := range ctx {
			h = mixBits(h ^ uint64(id+1))
		}
		logits, sum := make([]float64, v.Size()), 0.0
		for i := range logits {
			logits[i] = 6 * float64(mixBits(h+uint64(i)*0x9e3779b97f4a7c15)>>40) / (1 << 24)
			sum += math.Exp(logits[i])
		}
		for i := range logits {
			logits[i] -= math.Log(sum)
		}
		return logits
	}
}

func mixBits(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}

func tokenIDName(id int32) string { return fmt.Sprintf("token_id:%d", id) }
