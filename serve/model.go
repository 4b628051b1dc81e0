package serve

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// model is what the server needs of a [pilotfish.Model]. Tests have models that follow a script.
type model interface {
	answer.Model
	request.Model
	ContextLimit() int
	Vocabulary() (int, error)
	Thinks(prompt []int32) (bool, error)
	TextTokens(text string) ([]int32, error)
	InfillTokens(f pilotfish.Infill) ([]int32, error)
	TokenName(id int32) (string, error)
	SavedText(r io.Reader) ([]int32, error)
	NewSession() session
}

// session is what the server needs of a [pilotfish.Session].
type session interface {
	answer.Session
	KVTokens() int
	CopyKV(ctx context.Context, from session, most int) error
	SaveKV(ctx context.Context, w io.Writer) error
	LoadKV(ctx context.Context, r io.Reader) ([]int32, error)
	Close() error
}

// routedModel is a model with the options of all answers.
type routedModel struct {
	*pilotfish.Model
	options []pilotfish.Option
}

func (m routedModel) Check(ctx context.Context, s terms.Settings) (ignored []string, err error) {
	return m.CheckContext(ctx, withSettings(m.options, s)...)
}

func (m routedModel) NewSession() session { return routedSession{m.Model.NewSession(), m.options} }

// routedSession is a session with the options of all answers.
type routedSession struct {
	*pilotfish.Session
	options []pilotfish.Option
}

func (s routedSession) Generate(ctx context.Context, prompt []int32, o terms.Settings) iter.Seq2[engine.Token, error] {
	return engineTokens(s.GenerateTokens(ctx, prompt, withSettings(s.options, o)...))
}

func (s routedSession) Score(ctx context.Context, text []int32, top int) iter.Seq2[engine.Token, error] {
	return engineTokens(s.Session.Score(ctx, text, top))
}

func engineTokens(all iter.Seq2[pilotfish.Token, error]) iter.Seq2[engine.Token, error] {
	return func(yield func(engine.Token, error) bool) {
		all(func(t pilotfish.Token, err error) bool { return yield(engine.Token(t), err) })
	}
}

func (s routedSession) End() *engine.Token { return (*engine.Token)(s.Session.End()) }

func (s routedSession) Summary() engine.Summary { return engine.Summary(s.Stats()) }

func (s routedSession) CopyKV(ctx context.Context, from session, most int) error {
	return s.Session.CopyKV(ctx, from.(routedSession).Session, most)
}

func withSettings(options []pilotfish.Option, s terms.Settings) []pilotfish.Option {
	return append(slices.Clip(options), pilotfish.Settings(s))
}

func (s *Server) infillTokens(f pilotfish.Infill) ([]int32, error) {
	ids, err := s.model.InfillTokens(f)
	if errors.Is(err, pilotfish.ErrUnsupported) {
		return nil, request.ErrNoInfill
	}
	return ids, err
}

func (s *Server) mayThink(prompt []int32) bool {
	thinks, err := s.model.Thinks(prompt)
	return err == nil && thinks // an error: the model is closed, and nothing is generated any more
}

func (s *Server) tokenBytes(id int32) []byte {
	b, _ := s.model.TokenBytes(id) // as in mayThink: nothing is shown any more
	return b
}

func (s *Server) tokenName(id int32) string {
	name, _ := s.model.TokenName(id) // as in mayThink
	return name
}

func (s *Server) vocabularySize() int {
	n, _ := s.model.Vocabulary() // as in mayThink
	return n
}

// tokenText returns a token as text, or if it has none its name.
func (s *Server) tokenText(id int32) string {
	if b := s.tokenBytes(id); len(b) > 0 {
		return string(b)
	}
	return s.tokenName(id)
}
