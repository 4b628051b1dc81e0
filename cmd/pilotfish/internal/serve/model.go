package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/serve/answer"
)

// servedModel adapts a model to the server.
type servedModel struct {
	m     *pilotfish.Model
	size  int              // of the vocabulary
	route *pilotfish.Route // nil: no cloud
	warn  func()           // says once that a certificate does not apply
}

func newServedModel(m *pilotfish.Model) (*servedModel, error) {
	size, err := m.Vocabulary()
	return &servedModel{m: m, size: size, warn: func() {}}, err
}

func (s *servedModel) Context() int { return s.m.Context() }

func (s *servedModel) Vocabulary() int { return s.size }

func (s *servedModel) Thinks(prompt []int32) bool {
	thinks, err := s.m.Thinks(prompt)
	return err == nil && thinks // an error: the model is closed, and nothing is generated any more
}

func (s *servedModel) Chat(c answer.Conversation) ([]int32, error) {
	var turns []pilotfish.Message
	for _, m := range c.Messages {
		turns = append(turns, newTurn(m))
	}
	var tools [][]byte
	for _, t := range c.Tools {
		tools = append(tools, t)
	}
	var values []pilotfish.TemplateValue
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		values = append(values, pilotfish.TemplateValue{Name: name, Value: c.Values[name]})
	}
	ids, err := s.m.ChatTokens(turns, tools, values...)
	switch {
	case errors.Is(err, pilotfish.ErrUnsupported):
		return nil, answer.ErrNoChat
	case errors.Is(err, pilotfish.ErrChat):
		return nil, &answer.ChatError{Err: err}
	}
	return ids, err
}

func newTurn(m answer.Message) pilotfish.Message {
	t := pilotfish.Message{Role: m.Role, Content: m.Content, Thought: m.Thought}
	for _, call := range m.Calls {
		t.Calls = append(t.Calls, pilotfish.ToolCall{Name: call.Name, Arguments: call.Arguments})
	}
	return t
}

func (s *servedModel) Tokenize(text string, special bool) ([]int32, error) {
	if special {
		return s.m.TextTokens(text)
	}
	return s.m.Tokenize(text, false)
}

func (s *servedModel) Bytes(id int32) []byte {
	b, err := s.m.TokenBytes(id)
	if err != nil {
		return nil // the model is closed: nothing is shown any more
	}
	return b
}

func (s *servedModel) Name(id int32) string {
	name, err := s.m.TokenName(id)
	if err != nil {
		return "" // as in Bytes
	}
	return name
}

func (s *servedModel) Infill(f answer.Infill) ([]int32, error) {
	ids, err := s.m.InfillTokens(pilotfish.Infill(f))
	if errors.Is(err, pilotfish.ErrUnsupported) {
		return nil, answer.ErrNoInfill
	}
	return ids, err
}

func (s *servedModel) Check(ctx context.Context, o answer.Settings) ([]string, error) {
	return s.m.CheckContext(ctx, servedOptions(o, s.route)...)
}

func (s *servedModel) SavedText(r io.Reader) ([]int32, error) { return s.m.SavedText(r) }

func (s *servedModel) NewSession() answer.Session { return &servedSession{s.m.NewSession(), s} }

// servedSession adapts a session to the server.
type servedSession struct {
	s *pilotfish.Session
	m *servedModel
}

func (s *servedSession) Generate(ctx context.Context, prompt []int32, o answer.Settings) iter.Seq2[answer.Token,
	error] {
	options := servedOptions(o, s.m.route)
	return func(yield func(answer.Token, error) bool) {
		defer func() {
			if s.s.Stats().Unlike {
				s.m.warn()
			}
		}()
		for t, err := range s.s.GenerateTokens(ctx, prompt, options...) {
			out := servedToken(t)
			if t.Local != t.ID {
				out.Local = cmp.Or(string(s.m.Bytes(t.Local)), s.m.Name(t.Local))
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

func (s *servedSession) Score(ctx context.Context, text []int32, top int) iter.Seq2[answer.Token, error] {
	return func(yield func(answer.Token, error) bool) {
		for t, err := range s.s.Score(ctx, text, top) {
			if !yield(servedToken(t), err) {
				return
			}
		}
	}
}

func servedToken(t pilotfish.Token) answer.Token {
	return answer.Token{
		ID: t.ID, Kind: string(t.Kind), Text: t.Text, Origin: string(t.Origin), Asked: t.Asked,
		Confidence: float64(t.Confidence), Unverified: t.Unverified, At: t.At, LogProb: float64(t.LogProb),
		Top: t.Top,
	}
}

func servedOptions(o answer.Settings, route *pilotfish.Route) []pilotfish.Option {
	if route == nil {
		return []pilotfish.Option{pilotfish.Settings(o)}
	}
	return []pilotfish.Option{pilotfish.Settings(o), *route}
}

func (s *servedSession) Summary() answer.Summary {
	sum := servedSummary(s.s.Stats())
	if end := s.s.End(); end != nil {
		sum.End = new(servedToken(*end))
	}
	return sum
}

func servedSummary(a pilotfish.Stats) answer.Summary {
	sum := answer.Summary{Text: a.Text, Stop: a.Stop, Stopped: a.Stopped, Shortened: a.Shortened,
		Reused: a.ReusedTokens, Cloud: a.CloudTokens, Asks: a.Asks, Sent: answer.Sent(a.Receipt)}
	return sum
}

func (s *servedSession) KVTokens() int { return s.s.KVTokens() }

func (s *servedSession) CopyKV(ctx context.Context, from answer.Session, n int) error {
	return s.s.CopyKV(ctx, from.(*servedSession).s, n)
}

func (s *servedSession) SaveKV(ctx context.Context, w io.Writer) error { return s.s.SaveKV(ctx, w) }

func (s *servedSession) LoadKV(ctx context.Context, r io.Reader) error {
	_, err := s.s.LoadKV(ctx, r)
	return err
}

func (s *servedSession) Close() error { return s.s.Close() }
