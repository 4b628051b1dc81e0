package serve

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// formatter formats answers for an API.
type formatter interface {
	promptParam() string                                // name of the prompt's parameter
	initResponse()                                      // called first, after the request was checked
	firstEvents() []any                                 // what a stream has before the prompt is read
	pingEvent(begun bool) any                           // for a pause; begun: there was a piece of an answer
	wholeResponse(results []answer.Result, u usage) any // if it is not streamed
	pieceEvents(index int, p answer.Piece) []any
	answerEndEvents(index int, e answer.Ending) []any
	streamEndEvents(u usage) []any      // after all answers
	errorEvents(e *request.Error) []any // replaces the rest of a stream
}

// plainStream is a stream that begins with its first piece, has comments in its pauses, and errors in the form that
// they have elsewhere.
type plainStream struct{}

func (plainStream) firstEvents() []any { return nil }

func (plainStream) pingEvent(bool) any { return keepAlive }

func (plainStream) errorEvents(e *request.Error) []any { return []any{e.Object()} }

// head has the first fields of each response object.
type head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
}

func (s *Server) newHead(prefix, object, model string) head {
	return head{ID: s.newID(prefix), Object: object, Created: time.Now().Unix(), Model: model,
		Fingerprint: s.o.Fingerprint}
}

// withShortened marks an answer that was ended early. o may be nil.
func withShortened(e answer.Ending, o *request.Origins) *request.Origins {
	if e.Shortened {
		if o == nil {
			o = new(request.Origins)
		}
		o.Shortened = true
	}
	return o
}

// finiteLogProb returns a log-probability as a JSON number: a probability of 0 gives -9999.
func finiteLogProb(x float64) float64 {
	if x < -9999 || math.IsNaN(x) {
		return -9999
	}
	return x
}

// chatLogProbs are the log-probabilities of a chat's text.
type chatLogProbs struct {
	Content []tokenLogProb `json:"content"`
	Refusal *struct{}      `json:"refusal"`
}

// tokenLogProb is a token with its alternatives.
type tokenLogProb struct {
	logProbOf
	Top []logProbOf `json:"top_logprobs"`
}

// logProbOf is a token and its log-probability.
type logProbOf struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func (s *Server) chatLogProbs(r *request.Request, tokens []engine.Token) *chatLogProbs {
	if !r.Settings.LogProbs {
		return nil
	}
	of := func(id int32, p float64) logProbOf {
		b := s.tokenBytes(id)
		o := logProbOf{string(b), finiteLogProb(p), make([]int, len(b))}
		for i, c := range b {
			o.Bytes[i] = int(c)
		}
		return o
	}
	l := &chatLogProbs{Content: []tokenLogProb{}}
	for _, t := range tokens {
		one := tokenLogProb{of(t.ID, float64(t.LogProb)), []logProbOf{}}
		for _, c := range t.Top[:min(len(t.Top), r.Settings.Top)] {
			one.Top = append(one.Top, of(c.ID, float64(c.LogProb)))
		}
		l.Content = append(l.Content, one)
	}
	return l
}

// textLogProbs are the log-probabilities of a completion.
type textLogProbs struct {
	Tokens []string             `json:"tokens"`
	Chosen []*float64           `json:"token_logprobs"`
	Top    []map[string]float64 `json:"top_logprobs"`
	Offset []int                `json:"text_offset"` // in characters
}

// textLogProbs returns the log-probabilities of a piece, if requested. at is the offset of its text, which the call
// advances. The first token of a prompt has no log-probability: it is null.
func (s *Server) textLogProbs(r *request.Request, p answer.Piece, at *int) *textLogProbs {
	if !r.Settings.LogProbs {
		return nil
	}
	l := &textLogProbs{[]string{}, []*float64{}, []map[string]float64{}, []int{}}
	for i, t := range slices.Concat(p.Prompt, p.Tokens) {
		l.Tokens = append(l.Tokens, s.spellToken(t.ID))
		l.Offset = append(l.Offset, *at)
		*at += utf8.RuneCountInString(t.Text)
		if i == 0 && len(p.Prompt) > 0 {
			l.Chosen, l.Top = append(l.Chosen, nil), append(l.Top, nil)
			continue
		}
		l.Chosen = append(l.Chosen, new(finiteLogProb(float64(t.LogProb))))
		top := map[string]float64{}
		for _, c := range t.Top[:min(len(t.Top), r.Settings.Top)] {
			top[s.spellToken(c.ID)] = finiteLogProb(float64(c.LogProb))
		}
		l.Top = append(l.Top, top)
	}
	return l
}

// spellToken returns a token as text, or its bytes if they are not valid text.
func (s *Server) spellToken(id int32) string {
	b := s.tokenBytes(id)
	if utf8.Valid(b) {
		return cmp.Or(string(b), s.tokenName(id))
	}
	out := "bytes:"
	for _, c := range b {
		out += fmt.Sprintf(`\x%02x`, c)
	}
	return out
}
