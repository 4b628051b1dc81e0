package engine

import (
	"errors"
	"sync"

	"github.com/hashicorp/golang-lru/v2"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
)

// keptGrammars is how many grammars an engine keeps for the next answers by the same schema.
const keptGrammars = 16

// structured is what an engine keeps for answers that are JSON: the vocabulary as a tree, and grammars by their
// schemas, with the masks that were found.
type structured struct {
	mu     sync.Mutex
	failed error
	vocab  *grammar.Vocabulary // nil before the first use
	end    int32               // a token that ends texts
	kept   *lru.Cache[string, *grammar.Matcher]
}

// matcher returns the matcher of the schema of a request, of any object without one. A schema that takes long to
// compile holds nobody up who has another one.
func (s *structured) matcher(e *Engine, r Request) (*grammar.Matcher, int32, error) {
	key, read := string(r.Schema), grammar.Schema
	if r.Closed {
		key, read = "closed "+key, grammar.Closed
	}
	m, err := s.known(e, key)
	if m != nil || err != nil {
		return m, s.end, err
	}
	g := grammar.Object()
	if r.Schema != nil {
		if g, err = read(r.Schema); err != nil {
			return nil, 0, &schemaError{err}
		}
	}
	m = grammar.NewMatcher(g, s.vocab)
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.kept.Get(key); ok { // somebody else was faster
		return first, s.end, nil
	}
	s.kept.Add(key, m)
	return m, s.end, nil
}

// known returns the matcher that is kept for a schema; nil if there is none.
func (s *structured) known(e *Engine, key string) (*grammar.Matcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(e); err != nil {
		return nil, err
	}
	m, _ := s.kept.Get(key)
	return m, nil
}

// prepare makes the tree at the first use.
func (s *structured) prepare(e *Engine) (err error) {
	if s.vocab != nil || s.failed != nil {
		return s.failed
	}
	t, err := e.Tokenizer()
	if err != nil {
		return err
	}
	size := min(t.Size(), e.model.Config().Vocab)
	if s.vocab, err = grammar.NewVocabulary(size, t.Bytes, t.IsEnd); err != nil {
		s.failed = errors.Join(errors.New("JSON cannot be asked of this model"), err)
		return s.failed
	}
	for id := range int32(size) {
		if t.IsEnd(id) {
			s.end = id
		}
	}
	s.kept, err = lru.New[string, *grammar.Matcher](keptGrammars)
	return err
}

// schemaError names what is wrong.
type schemaError struct{ err error }

// Error implements error.
func (e *schemaError) Error() string { return "JSON schema: " + e.err.Error() }

// Unwrap returns the [SchemaError].
func (e *schemaError) Unwrap() error { return e.err }
