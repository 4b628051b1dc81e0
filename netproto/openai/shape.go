package openai

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
	"github.com/pilotfish-ai/pilotfish/netproto/openai/request"
)

// shape formats answers for an API.
type shape interface {
	param() string                            // name of the prompt's parameter
	start()                                   // called first, after the request was checked
	begin() []any                             // what a stream has before the prompt is read
	ping(begun bool) any                      // for a pause of a stream; begun: there was a piece of an answer
	all(results []answer.Result, u usage) any // a whole response
	chunks(index int, p answer.Piece) []any   // a piece of an answer
	last(index int, e answer.Ending) []any
	end(u usage) []any             // after all answers
	failed(e *request.Error) []any // replaces the rest of a stream
}

// plainStream is a stream that begins with its first piece, has comments in its pauses, and errors in the form that
// they have elsewhere.
type plainStream struct{}

func (plainStream) begin() []any { return nil }

func (plainStream) ping(bool) any { return keepAlive }

func (plainStream) failed(e *request.Error) []any { return []any{e.Object()} }

// head has the first fields of each response object.
type head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
}

func (s *Server) head(prefix, object, model string) head {
	return head{ID: s.id(prefix), Object: object, Created: time.Now().Unix(), Model: model, Fingerprint: s.finger}
}

// own returns this server's additions to the end of an answer; nil if there are none.
func own(e answer.Ending, o *request.Origins) *request.Origins {
	if e.Shortened {
		if o == nil {
			o = new(request.Origins)
		}
		o.Shortened = true
	}
	return o
}

// logProb returns a log-probability as a JSON number: a probability of 0 gives -9999.
func logProb(x float64) float64 {
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

// chatLogProbs returns the log-probabilities of tokens, if requested.
func (s *Server) chatLogProbs(r *request.Request, tokens []answer.Token) *chatLogProbs {
	if !r.Settings.LogProbs {
		return nil
	}
	of := func(id int32, p float64) logProbOf {
		b := s.model.Bytes(id)
		o := logProbOf{string(b), logProb(p), make([]int, len(b))}
		for i, c := range b {
			o.Bytes[i] = int(c)
		}
		return o
	}
	l := &chatLogProbs{Content: []tokenLogProb{}}
	for _, t := range tokens {
		one := tokenLogProb{of(t.ID, t.LogProb), []logProbOf{}}
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
		l.Tokens = append(l.Tokens, s.spelled(t.ID))
		l.Offset = append(l.Offset, *at)
		*at += utf8.RuneCountInString(t.Text)
		if i == 0 && len(p.Prompt) > 0 {
			l.Chosen, l.Top = append(l.Chosen, nil), append(l.Top, nil)
			continue
		}
		l.Chosen = append(l.Chosen, new(logProb(t.LogProb)))
		top := map[string]float64{}
		for _, c := range t.Top[:min(len(t.Top), r.Settings.Top)] {
			top[s.spelled(c.ID)] = logProb(float64(c.LogProb))
		}
		l.Top = append(l.Top, top)
	}
	return l
}

// spelled returns a token as text, or its bytes if they are not valid text.
func (s *Server) spelled(id int32) string {
	b := s.model.Bytes(id)
	if utf8.Valid(b) {
		return cmp.Or(string(b), s.model.Name(id))
	}
	out := "bytes:"
	for _, c := range b {
		out += fmt.Sprintf(`\x%02x`, c)
	}
	return out
}
