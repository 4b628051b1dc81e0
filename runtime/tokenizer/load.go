package tokenizer

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// prefix is the prefix of the keys of the vocabulary.
const prefix = "tokenizer.ggml."

// The keys that are read, except those of special ids.
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

// FromGGUF makes a tokenizer from the vocabulary of f. It does not refer to f, which may be closed afterwards.
//
// The tokenizer must be a byte-level BPE (tokenizer.ggml.model "gpt2") that splits text like Qwen2 (tokenizer.ggml.pre
// "qwen2", or "deepseek-r1-qwen", which is the same) or Qwen3.5 ("qwen35"). Others are refused by name. Every error is
// a [KeyError] that names the metadata.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	pre, err := readPreTokenizer(f)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	s, err := readMetadata(f)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := newTokenizer(pre, s)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

// readPreTokenizer fails for another model than byte-level BPE, too.
func readPreTokenizer(f *gguf.File) (p preTokenizer, err error) {
	model, err := f.String(keyModel)
	if err == nil && model != "gpt2" {
		err = fmt.Errorf("tokenizer model %s: %w (supported: \"gpt2\", the byte-level BPE)", errs.Quote(model),
			ErrUnsupported)
	}
	if err != nil {
		return p, &KeyError{keyModel, err}
	}
	pre, err := f.String(keyPre)
	p, known := preTokenizers[pre]
	if err == nil && !known {
		err = fmt.Errorf("pre-tokenizer %s: %w (supported: %q)", errs.Quote(pre), ErrUnsupported,
			slices.Sorted(maps.Keys(preTokenizers)))
	}
	if err != nil {
		return p, &KeyError{keyPre, err}
	}
	return p, nil
}

// metadata is what a file says about its tokenizer.
type metadata struct {
	tokens, merges gguf.StringArray
	types          []int64          // nil: the file has none
	ids            map[string]int64 // special ids that the file has, by key without prefix
	addBOS         bool
	template       string // "": the file has none
}

func readMetadata(f *gguf.File) (s metadata, err error) {
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
	for _, key := range specialIDKeys() {
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

func specialIDKeys() []string {
	keys := append([]string{"bos_token_id"}, endKeys...)
	for _, role := range fimRoles {
		keys = append(keys, role.keys...)
	}
	return keys
}

func newTokenizer(pre preTokenizer, s metadata) (*Tokenizer, error) {
	t := &Tokenizer{pre: pre, bos: -1, eos: -1, addBOS: s.addBOS, now: time.Now}
	var err error
	if t.vocab, err = newVocabulary(s.tokens); err != nil {
		return nil, &KeyError{keyTokens, err}
	}
	if t.vocab.kinds, err = newTokenKinds(s.types, s.tokens.Len()); err != nil {
		return nil, &KeyError{keyTypes, err}
	}
	if err := t.findByteTokens(); err != nil {
		return nil, &KeyError{keyTokens, err}
	}
	if t.rules, err = newRuleTable(s.merges, &t.vocab); err != nil {
		return nil, &KeyError{keyMerges, err}
	}
	if err := t.setSpecialIDs(s.ids); err != nil {
		return nil, err
	}
	t.always, t.parsed = listSpecialTokens(&t.vocab)
	t.chatTools = strings.Contains(s.template, "tools")
	t.callTags = strings.Contains(s.template, "<function=") && strings.Contains(s.template, "<parameter=")
	t.chat, t.chatErr = newChatTemplate(s.template, &t.vocab)
	t.hash = sync.OnceValue(t.computeHash)
	t.chatHash = func() (none [32]byte) { return none }
	if s.template != "" {
		text := sha256.Sum256([]byte(s.template))
		t.chatHash = sync.OnceValue(func() [32]byte { return t.computeChatHash(text) })
	}
	return t, nil
}

// findByteTokens fails if a byte has no token: with all of them, any text can be encoded.
func (t *Tokenizer) findByteTokens() error {
	for i := range t.byteID {
		id := t.vocab.lookupToken([]byte(string(byteToRune(byte(i)))))
		if id < 0 {
			return fmt.Errorf("no token for byte %#02x, spelled %q: %w", i, byteToRune(byte(i)), ErrVocabulary)
		}
		t.byteID[i] = id
	}
	return nil
}

func (t *Tokenizer) setSpecialIDs(ids map[string]int64) error {
	checked := make(map[string]int32, len(ids))
	for _, key := range specialIDKeys() {
		id, ok := ids[key]
		if !ok {
			continue
		}
		if id < 0 || id >= int64(t.vocab.tokenCount()) {
			err := fmt.Errorf("%d, with %d tokens: %w", id, t.vocab.tokenCount(), ErrVocabulary)
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
	t.fim = markSpecialTokens(&t.vocab, checked)
	return nil
}

// llama.cpp recognises some tokens by their spelling, whatever type the file gives them. It makes them control tokens,
// so that they are recognised when special tokens are parsed, and ends a generation at some of them. In the vocabulary
// of Qwen2 this affects one ordinary token, </s>. The lists are those of src/llama-vocab.cpp of August 2026.

// endSpellings end a generation.
var endSpellings = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
	"<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
	"<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
}

// plainSpellings are user-defined tokens, even if the file makes them control tokens.
var plainSpellings = []string{"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}

// fimRoles are the parts of a prompt to fill in the middle. The keys name the token: the last key that exists counts;
// otherwise the first spelling that exists. (Of several spellings llama.cpp takes the first one in its hash table; the
// vocabulary of Qwen2 has one of each.)
var fimRoles = []struct {
	keys      []string
	spellings []string
	ends      bool // a generation ends here
}{
	{[]string{"fim_pre_token_id", "prefix_token_id"}, []string{"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
		"<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"}, false},
	{[]string{"fim_suf_token_id", "suffix_token_id"}, []string{"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
		"<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"}, false},
	{[]string{"fim_mid_token_id", "middle_token_id"}, []string{"<|fim_middle|>", "<fim-middle>", "<fim_middle>",
		"<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>"}, false},
	{[]string{"fim_pad_token_id"}, []string{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}, true},
	{[]string{"fim_rep_token_id"}, []string{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
		true},
	{[]string{"fim_sep_token_id"}, []string{"<|file_sep|>"}, true},
}

// endKeys name tokens that end a generation.
var endKeys = []string{"eos_token_id", "eot_token_id", "eom_token_id"}

// markSpecialTokens adds to the kinds of v those that follow from spellings and from the special ids of the file (by
// key, without the prefix), and returns the marks of gaps.
func markSpecialTokens(v *vocabulary, ids map[string]int32) (fim fimMarks) {
	for n, role := range fimRoles {
		id := int32(-1)
		for _, key := range role.keys {
			if named, ok := ids[key]; ok {
				id = named
			}
		}
		for i := 0; id < 0 && i < len(role.spellings); i++ {
			if id = v.lookupToken([]byte(role.spellings[i])); id >= 0 {
				v.kinds[id] |= control
			}
		}
		if id >= 0 && role.ends {
			v.kinds[id] |= end
		}
		fim[n] = id
	}
	for _, text := range endSpellings {
		if id := v.lookupToken([]byte(text)); id >= 0 {
			v.kinds[id] |= control | end
		}
	}
	for _, text := range plainSpellings {
		if id := v.lookupToken([]byte(text)); id >= 0 {
			v.kinds[id] = userDefined | v.kinds[id]&end
		}
	}
	for _, key := range endKeys {
		if id, ok := ids[key]; ok {
			v.kinds[id] |= end
		}
	}
	return fim
}

// listSpecialTokens lists the special tokens of v, the longest first, in the order in which they are searched for:
// those recognised in any text, and those recognised when special tokens are parsed. Of equal length the lower id comes
// first. (There llama.cpp's order depends on its sort, which only matters if the end of one token begins the other.)
func listSpecialTokens(v *vocabulary) (always, parsed []specialToken) {
	for id := range int32(v.tokenCount()) {
		if v.hasKind(id, control|unknown|userDefined) {
			parsed = append(parsed, specialToken{id, string(v.tokenSpelling(id))})
		}
	}
	slices.SortStableFunc(parsed, func(a, b specialToken) int { return cmp.Compare(len(b.text), len(a.text)) })
	for _, s := range parsed {
		if !v.hasKind(s.id, control|unknown) {
			always = append(always, s)
		}
	}
	return always, parsed
}
