package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream"
)

// upstreamEngines are two inference engines of a world: the real package upstream, which asks them over HTTP. Faults of
// the world's engine are those of both; each also has its own.
type upstreamEngines struct {
	of         *truth
	vocabulary *fakeengine.Vocabulary
	wire       *fakeengine.Wire
	own        [2]engineState
}

// engineState is the state of one engine over HTTP.
type engineState struct {
	mu      sync.Mutex
	kind    string         // what is wrong with it; "": nothing
	ended   chan struct{}  // closed when that has ended
	model   int            // 1: another one than the world's
	asOther map[string]int // the model that it was when it was another one and was asked about a context
	r       *rand.Rand
}

var engineHosts = [2]string{"engine-0:8000", "engine-1:8000"}

func newUpstreamEngines(seed uint64, of *truth, r *rand.Rand) *upstreamEngines {
	u := &upstreamEngines{of: of, vocabulary: fakeengine.NewVocabulary()}
	hosts := map[string]http.Handler{}
	name := []string{"llama", "sglang", "vllm"}[seed/worldKinds%3]
	for i := range u.own {
		u.own[i].asOther = map[string]int{}
		u.own[i].r = rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		hosts[engineHosts[i]] = &fakeengine.Engine{Dialect: name, Vocabulary: u.vocabulary, MaxContext: 1000,
			Fault: u.own[i].answerInstead(of),
			Model: func(context []int32) []float64 { return u.own[i].logProbs(of, context, u.vocabulary.Size()) }}
	}
	u.wire = fakeengine.NewWire(hosts)
	return u
}

// open opens the engines for a gateway. Like the service manager of a gateway, it tries again if that fails.
func (u *upstreamEngines) open() (*upstream.Upstream, error) {
	o := upstream.Options{Vocabulary: u.vocabulary, Identity: netproto.Identity{Vocab: worldVocab}, Transport: u.wire,
		Patience: time.Minute,
		Draw: func(terms.Sampling, int, []terms.Candidate, int32) (int32, float32, float32, error) {
			return 0, 0, 0, errors.New("nothing is drawn here")
		}}
	for _, host := range engineHosts {
		o.URLs = append(o.URLs, "http://"+host)
	}
	for begin := time.Now(); ; {
		up, err := upstream.Open(context.Background(), o)
		if err == nil || time.Since(begin) > time.Minute {
			return up, err
		}
		time.Sleep(time.Second)
	}
}

// logProbs returns a distribution in which the model's token has nearly all.
func (s *engineState) logProbs(of *truth, context []int32, size int) []float64 {
	of.mu.Lock()
	model := of.model
	of.mu.Unlock()
	s.mu.Lock()
	if s.model == 1 {
		model = 1 - model
		s.asOther[fmt.Sprint(context)] = model
	}
	s.mu.Unlock()
	all := make([]float64, size)
	for i := range all {
		all[i] = math.Log(0.1 / float64(len(all)-1))
	}
	all[after(model, context)] = math.Log(0.9)
	return all
}

// garbageReplies are what a broken engine may say: what is no JSON, what lacks everything, and what has the form of
// llama-server, SGLang or vLLM with tokens and probabilities that cannot be.
var garbageReplies = []string{
	`{"text": 7, "choices": [{"index": -1}], "tokens": [-5]`, ``, `null`, `[]`, `{}`, `<html>It works!</html>`,
	`{"choices":[]}`, `{"choices":[{"text":"","logprobs":null}]}`, `{"choices":[{"logprobs":{"top_logprobs":[{}]}}]}`,
	`{"choices":[{"logprobs":{"top_logprobs":[{"token_id:99999999":0.5,"token_id:-3":1e999}]}}]}`,
	`{"completion_probabilities":[]}`, `{"completion_probabilities":[{"id":-1,"logprob":null,"top_logprobs":[]}]}`,
	`{"completion_probabilities":[{"id":2147483647,"logprob":0,"top_logprobs":[{"id":2147483647,"logprob":0}]}]}`,
	`{"output_ids":[99999999],"meta_info":{"output_top_logprobs":[[[-0.1,99999999,null]]]}}`,
	`{"output_ids":[],"meta_info":{"output_top_logprobs":[]}}`, `{"meta_info":{"output_top_logprobs":[[[0,-1,null]]]}}`,
}

// answerInstead returns what an engine does before it answers: it takes its time, or it does not answer.
func (s *engineState) answerInstead(of *truth) func(http.ResponseWriter, *http.Request, []byte) bool {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		s.mu.Lock()
		kind, ended, took := s.kind, s.ended, time.Duration(1+s.r.IntN(60))*time.Millisecond
		garbage := garbageReplies[s.r.IntN(len(garbageReplies))]
		s.mu.Unlock()
		switch kind {
		case "dead":
			panic(http.ErrAbortHandler)
		case "hung":
			select {
			case <-ended:
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
		case "garbage":
			_, _ = w.Write([]byte(garbage))
			return true
		}
		_, err := of.pass(r.Context(), took)
		switch {
		case r.Context().Err() != nil:
			panic(http.ErrAbortHandler)
		case errors.Is(err, netproto.Busy):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		return err != nil
	}
}

// becomeKind makes something go wrong with one of the engines, or ends that.
func (u *upstreamEngines) becomeKind(engine int, kind string) {
	if u == nil { // another kind of world
		return
	}
	s := &u.own[engine%len(u.own)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		close(s.ended)
	}
	s.kind, s.ended = kind, make(chan struct{})
}

// becomeModel makes one of the engines come back as another model of the same tokens, or as the world's.
func (u *upstreamEngines) becomeModel(engine, model int) {
	if u == nil {
		return
	}
	s := &u.own[engine%len(u.own)]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model = model
}

// mayBeOther reports whether the token is what an engine answered while it was another model: a gateway notices that
// within a minute, and stores answers.
func (u *upstreamEngines) mayBeOther(token int32, context []int32) bool {
	if u == nil {
		return false
	}
	for i := range u.own {
		s := &u.own[i]
		s.mu.Lock()
		model, ok := s.asOther[fmt.Sprint(context)]
		s.mu.Unlock()
		if ok && token == after(model, context) {
			return true
		}
	}
	return false
}
