package tokenizer

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/quote"
)

// prefix is what the keys of the vocabulary begin with.
const prefix = "tokenizer.ggml."

// The keys that are read, but for those of special ids.
const (
	keyModel    = prefix + "model"
	keyPre      = prefix + "pre"
	keyTokens   = prefix + "tokens"
	keyTypes    = prefix + "token_type"
	keyMerges   = prefix + "merges"
	keyBOS      = prefix + "bos_token_id"
	keyAddBOS   = prefix + "add_bos_token"
	keyTemplate = "tokenizer.chat_template"
)

// FromGGUF makes a tokenizer of the vocabulary of f. It keeps nothing of f, which may be closed afterwards.
//
// The tokenizer must be a byte-level BPE (tokenizer.ggml.model "gpt2") that splits text as Qwen2 does
// (tokenizer.ggml.pre "qwen2", or "deepseek-r1-qwen", which is the same). Others are refused by name. Every error is a
// [KeyError] that names the metadata in question.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	if err := known(f); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	s, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := build(s)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

// known checks that the tokenizer is of a kind that this package knows.
func known(f *gguf.File) error {
	model, err := f.String(keyModel)
	if err == nil && model != "gpt2" {
		err = fmt.Errorf("tokenizer model %s: %w (supported: \"gpt2\", the byte-level BPE)", quote.Text(model), ErrUnsupported)
	}
	if err != nil {
		return &KeyError{keyModel, err}
	}
	pre, err := f.String(keyPre)
	if err == nil && pre != "qwen2" && pre != "deepseek-r1-qwen" {
		err = fmt.Errorf("pre-tokenizer %s: %w (supported: \"qwen2\", \"deepseek-r1-qwen\")", quote.Text(pre), ErrUnsupported)
	}
	if err != nil {
		return &KeyError{keyPre, err}
	}
	return nil
}

// source is the metadata that a tokenizer is made of.
type source struct {
	tokens, merges stringList
	types          []int64          // nil: the file has none
	ids            map[string]int64 // special ids that the file has, by key without prefix
	addBOS         bool
	template       string // "": the file has none
}

func read(f *gguf.File) (s source, err error) {
	if s.tokens, err = f.Strings(keyTokens); err != nil {
		return s, &KeyError{keyTokens, err}
	}
	if s.merges, err = f.Strings(keyMerges); err != nil {
		return s, &KeyError{keyMerges, err}
	}
	if s.types, err = f.Ints(keyTypes); err != nil && !errors.Is(err, gguf.ErrAbsent) {
		return s, &KeyError{keyTypes, err}
	}
	if s.addBOS, err = f.Bool(keyAddBOS); err != nil && !errors.Is(err, gguf.ErrAbsent) {
		return s, &KeyError{keyAddBOS, err}
	}
	if s.template, err = f.String(keyTemplate); err != nil && !errors.Is(err, gguf.ErrAbsent) {
		return s, &KeyError{keyTemplate, err}
	}
	s.ids = make(map[string]int64)
	for _, key := range idKeys() {
		id, err := f.Int(prefix + key)
		switch {
		case err == nil:
			s.ids[key] = id
		case !errors.Is(err, gguf.ErrAbsent):
			return s, &KeyError{prefix + key, err}
		}
	}
	return s, nil
}

// idKeys returns the keys of the special ids that are read, without prefix.
func idKeys() []string {
	keys := append([]string{"bos_token_id"}, endKeys...)
	for _, role := range fimRoles {
		keys = append(keys, role.keys...)
	}
	return keys
}

// build checks s and makes a tokenizer of it.
func build(s source) (*Tokenizer, error) {
	t := &Tokenizer{bos: -1, eos: -1, addBOS: s.addBOS}
	var err error
	if t.vocab, err = newVocabulary(s.tokens); err != nil {
		return nil, &KeyError{keyTokens, err}
	}
	if t.vocab.kinds, err = newKinds(s.types, s.tokens.Len()); err != nil {
		return nil, &KeyError{keyTypes, err}
	}
	if err := t.findBytes(); err != nil {
		return nil, &KeyError{keyTokens, err}
	}
	if t.rules, err = newRules(s.merges, &t.vocab); err != nil {
		return nil, &KeyError{keyMerges, err}
	}
	if err := t.name(s.ids); err != nil {
		return nil, err
	}
	t.always, t.parsed = newSpecials(&t.vocab)
	t.chat, t.chatErr = newChatML(s.template, &t.vocab)
	t.hash = sync.OnceValue(t.digest)
	return t, nil
}

// findBytes finds the token of each byte. Since all are there, any text can be encoded.
func (t *Tokenizer) findBytes() error {
	for i := range t.byteID {
		id := t.vocab.find([]byte(string(letterOf(byte(i)))))
		if id < 0 {
			return fmt.Errorf("no token for byte %#02x, spelled %q: %w", i, letterOf(byte(i)), ErrVocabulary)
		}
		t.byteID[i] = id
	}
	return nil
}

// name takes over the special ids.
func (t *Tokenizer) name(ids map[string]int64) error {
	checked := make(map[string]int32, len(ids))
	for _, key := range idKeys() {
		id, ok := ids[key]
		if !ok {
			continue
		}
		if id < 0 || id >= int64(t.vocab.size()) {
			err := fmt.Errorf("%d, with %d tokens: %w", id, t.vocab.size(), ErrVocabulary)
			return &KeyError{prefix + key, err}
		}
		checked[key] = int32(id)
	}
	if id, ok := checked["bos_token_id"]; ok {
		t.bos = id
	}
	if id, ok := checked["eos_token_id"]; ok {
		t.eos = id
	}
	if t.addBOS && t.bos < 0 {
		return &KeyError{keyAddBOS, fmt.Errorf("true, but there is no %s: %w", keyBOS, ErrVocabulary)}
	}
	promote(&t.vocab, checked)
	return nil
}
