package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/schema"
)

// keptGrammars is the max number of bytes of the grammars that an engine keeps for other answers.
const keptGrammars = 64 << 20

// grammarCache holds what an engine keeps for answers in JSON: the vocabulary as a tree with masks, and grammars by the
// hashes of their schemas.
type grammarCache struct {
	mu     sync.Mutex
	failed error
	vocab  *grammar.Vocabulary // nil before the first use
	end    int32               // a token that ends texts
	kept   *simplelru.LRU[schemaHash, keptGrammar]
	bytes  int // of what is kept
}

type schemaHash [sha256.Size]byte

// keptGrammar is a grammar with the vocabulary, and its memory.
type keptGrammar struct {
	*grammar.Matcher
	bytes int
}

// matcherFor returns the matcher of the schema of a request, or of any object. A schema that takes long to compile does
// not delay other schemas. Compiling ends with the cause of ctx when ctx ends.
func (s *grammarCache) matcherFor(ctx context.Context, e *Engine, r terms.Settings) (*grammar.Matcher, int32, error) {
	text := r.Schema
	if text == nil {
		text = []byte(`{"type":"object"}`)
	}
	tags, err := e.writesTags(r)
	if err != nil {
		return nil, 0, err
	}
	key := sha256.Sum256(text)
	if tags {
		key = sha256.Sum256(append([]byte("tags "), text...))
	} else if r.Closed {
		key = sha256.Sum256(append([]byte("closed "), text...))
	}
	m, err := s.cachedMatcher(e, key)
	if m != nil || err != nil {
		return m, s.end, err
	}
	var g *grammar.Grammar
	if tags {
		g, err = schema.CompileCall(ctx, text)
	} else {
		g, err = schema.Compile(ctx, text, r.Closed)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, 0, err
	case err != nil:
		return nil, 0, fmt.Errorf("JSON schema: %w", err)
	}
	return s.cacheMatcher(key, keptGrammar{grammar.NewMatcher(g, s.vocab), g.Bytes()}), s.end, nil
}

// writesTags reports whether an answer is a call in tags.
func (e *Engine) writesTags(r terms.Settings) (bool, error) {
	t, err := e.Tokenizer()
	return err == nil && r.Call && t.CallsInTags(), err
}

// cachedMatcher returns the matcher that is kept for a schema, or nil.
func (s *grammarCache) cachedMatcher(e *Engine, key schemaHash) (*grammar.Matcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepareVocabulary(e); err != nil {
		return nil, err
	}
	k, _ := s.kept.Get(key)
	return k.Matcher, nil
}

// cacheMatcher drops the least recently used matchers if there are too many bytes. It returns the matcher that was
// first kept for the schema.
func (s *grammarCache) cacheMatcher(key schemaHash, k keptGrammar) *grammar.Matcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.kept.Get(key); ok {
		return first.Matcher
	}
	s.kept.Add(key, k)
	for s.bytes += k.bytes; s.bytes > keptGrammars && s.kept.Len() > 1; {
		s.kept.RemoveOldest()
	}
	return k.Matcher
}

func (s *grammarCache) prepareVocabulary(e *Engine) (err error) {
	if s.vocab != nil || s.failed != nil {
		return s.failed
	}
	t, err := e.Tokenizer()
	if err != nil {
		return err
	}
	size := t.Size() // the rows of the embedding
	if s.vocab, err = grammar.NewVocabulary(size, t.Bytes, t.IsEnd); err != nil {
		s.failed = errors.Join(errors.New("JSON cannot be asked of this model"), err)
		return s.failed
	}
	for id := range int32(size) {
		if t.IsEnd(id) {
			s.end = id
		}
	}
	s.kept, err = simplelru.NewLRU(math.MaxInt32, func(_ schemaHash, k keptGrammar) { s.bytes -= k.bytes })
	return err
}
