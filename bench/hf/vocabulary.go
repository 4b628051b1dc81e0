package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

const prefix = "tokenizer.ggml."

// Types of tokens in tokenizer.ggml.token_type.
const (
	normal  = 1
	control = 3
	user    = 4
	unused  = 5
)

// vocabulary has the data for the tokenizer's files.
type vocabulary struct {
	words    map[string]int // ordinary tokens, in the letters that represent bytes
	specials []added        // control tokens and user-defined ones, by id
	merges   [][2]string    // lowest rank first
	bos, eos *int           // nil: the file has none
	template string         // "": the file has none
	tokens   []string       // all, by id
}

// readVocabulary reads the tokenizer of f. rows is the number of rows of the embedding.
func readVocabulary(f *gguf.File, rows int) (v vocabulary, err error) {
	if err = supported(f); err != nil {
		return v, err
	}
	if err = v.readTokens(f, rows); err != nil {
		return v, err
	}
	if err = v.readMerges(f); err != nil {
		return v, err
	}
	if v.bos, err = v.special(f, "bos_token_id"); err != nil {
		return v, err
	}
	if v.eos, err = v.special(f, "eos_token_id"); err != nil {
		return v, err
	}
	v.template, err = f.String("tokenizer.chat_template")
	if err != nil && !errors.Is(err, gguf.ErrAbsent) {
		return v, err
	}
	return v, nil
}

// supported refuses tokenizers other than Qwen2's.
func supported(f *gguf.File) error {
	for _, want := range []struct{ key, value string }{{"model", "gpt2"}, {"pre", "qwen2"}} {
		got, err := f.String(prefix + want.key)
		if err != nil {
			return err
		}
		if got != want.value {
			return fmt.Errorf("%s%s: %s, only %q is supported", prefix, want.key, errs.Quote(got), want.value)
		}
	}
	begins, err := f.Bool(prefix + "add_bos_token")
	if err != nil && !errors.Is(err, gguf.ErrAbsent) {
		return err
	}
	if begins {
		return fmt.Errorf("%sadd_bos_token: true, but Qwen2 puts nothing before a text", prefix)
	}
	return nil
}

func (v *vocabulary) readTokens(f *gguf.File, rows int) error {
	tokens, err := f.Strings(prefix + "tokens")
	if err != nil {
		return err
	}
	types, err := f.Ints(prefix + "token_type")
	if err != nil {
		return err
	}
	if tokens.Len() != len(types) || tokens.Len() > rows {
		return fmt.Errorf("%stokens: %d tokens, %d types, %d rows of the embedding", prefix,
			tokens.Len(), len(types), rows)
	}
	v.words = make(map[string]int, len(types))
	for id, b := range tokens.All() {
		if err := v.add(id, b, types[id]); err != nil {
			return fmt.Errorf("%stokens: token %d: %w", prefix, id, err)
		}
	}
	return nil
}

// add adds a token with the spelling b.
func (v *vocabulary) add(id int, b []byte, kind int64) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("%s is not valid UTF-8", errs.Quote(b))
	}
	token := string(b)
	v.tokens = append(v.tokens, token)
	switch kind {
	case normal:
		if first, twice := v.words[token]; twice {
			return fmt.Errorf("%s is token %d too", errs.Quote(token), first)
		}
		v.words[token] = id
	case control, user:
		v.specials = append(v.specials, added{ID: id, Content: token, Special: kind == control})
	case unused: // pads the embedding; no text contains it
	default:
		return fmt.Errorf("type %d is not supported", kind)
	}
	return nil
}

func (v *vocabulary) readMerges(f *gguf.File) error {
	merges, err := f.Strings(prefix + "merges")
	if err != nil {
		return err
	}
	for i, b := range merges.All() {
		pair, err := v.merge(string(b))
		if err != nil {
			return fmt.Errorf("%smerges: merge %d: %w", prefix, i, err)
		}
		v.merges = append(v.merges, pair)
	}
	return nil
}

// merge parses "a b". Both, and their concatenation, must be tokens, since readers of the file require it.
func (v *vocabulary) merge(s string) (pair [2]string, err error) {
	first, second, ok := strings.Cut(s, " ") // a blank within a token is written with another letter
	if !ok {
		return pair, fmt.Errorf("%s are not two tokens with a blank between them", errs.Quote(s))
	}
	pair = [2]string{first, second}
	for _, part := range []string{pair[0], pair[1], pair[0] + pair[1]} {
		if _, ok := v.words[part]; !ok {
			return pair, fmt.Errorf("%s is not a token", errs.Quote(part))
		}
	}
	return pair, nil
}

// special reads an id, nil if the file has none.
func (v *vocabulary) special(f *gguf.File, key string) (*int, error) {
	n, err := f.Int(prefix + key)
	if errors.Is(err, gguf.ErrAbsent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if n < 0 || n >= int64(len(v.tokens)) {
		return nil, fmt.Errorf("%s%s: %d, with %d tokens", prefix, key, n, len(v.tokens))
	}
	id := int(n)
	return &id, nil
}
