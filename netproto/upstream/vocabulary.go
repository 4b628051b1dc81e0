package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// checkVocabulary checks that an engine's ids mean the same as the devices': texts are tokenized to the same ids, and
// ids have the same text, for the whole vocabulary. The error states the first difference.
func checkVocabulary(ctx context.Context, e dialect.Engine, f dialect.Facts, v dialect.Vocabulary) error {
	if f.Vocab > 0 && f.Vocab < v.Size() {
		return &unsuitableError{fmt.Errorf("its model has %d tokens, that of --tokenizer has %d: the models differ",
			f.Vocab, v.Size())}
	}
	err := checkTexts(ctx, e, v)
	if err == nil {
		err = checkPieces(ctx, e, v)
	}
	if errors.Is(err, dialect.ErrAbsent) {
		return &unsuitableError{fmt.Errorf("its vocabulary cannot be compared with that of --tokenizer, which needs "+
			"its /tokenize and /detokenize: %w", err)}
	}
	return err
}

// sampleTexts returns texts for which both must give the same ids: words, numbers, signs, code, spaces, scripts, and
// special tokens. All are in the normal form NFC: tokenizers of Hugging Face normalise texts to NFC, and those of
// llama.cpp do not.
func sampleTexts() []string {
	return []string{
		"Hello", " Hello", "Hello, world!", "The quick brown fox jumps over the lazy dog.", "don't I'll we're HE'S",
		"3.14159 42 1000000 007", "a  b   c    d", "tab\tnew\nline\r\nend ", "\n\n\n  indented\n    more",
		"func main() { fmt.Println(\"x\") }", "if (a[i] != NULL && *p++ == '\\0') return -1;",
		"{\"key\": [1, 2, null]}", "https://example.org/a?b=c&d=%20#e", "user@example.org", "$12.50 €7 £3 ¥100",
		"±×÷≈≠≤≥∞√∑∫", "snake_case camelCase",
		"naïve café Ångström", "Straße über äöü", "El niño comió piñas.", "Привет, мир", "Γειά σου Κόσμε", "שלום עולם",
		"مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "你好，世界", "こんにちは世界", "안녕하세요 세계", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "\u200b \ufeff",
		"👍🏽 👨‍👩‍👧 🇩🇪", "\u00a0\u2003\u3000", "....!!!???---", "<|im_start|>user\nHi<|im_end|>\n", "<|endoftext|>",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "zxqjv kwpfg", "1+1=2, 2²=4", "I ❤ tokens",
	}
}

func checkTexts(ctx context.Context, e dialect.Engine, v dialect.Vocabulary) error {
	for _, text := range sampleTexts() {
		theirs, err := e.Tokenize(ctx, text)
		if err != nil {
			return err
		}
		ours := v.Encode(text)
		if slices.Equal(ours, theirs) {
			continue
		}
		i := terms.CommonPrefix(ours, theirs)
		return &unsuitableError{fmt.Errorf("its vocabulary is not that of --tokenizer: "+
			"in %q the token %d is %s there and %s here", text, i, idAt(theirs, i), idAt(ours, i))}
	}
	return nil
}

func idAt(ids []int32, i int) string {
	if i >= len(ids) {
		return "none"
	}
	return fmt.Sprint(ids[i])
}

// checkPieces compares the text of every id, many per request. Each request starts with a letter: some vocabularies
// drop a leading space.
func checkPieces(ctx context.Context, e interface {
	Detokenize(context.Context, []int32) (string, error)
}, v dialect.Vocabulary) error {
	const chunk = 4096
	for first := 0; first < v.Size(); first += chunk {
		end := min(first+chunk, v.Size())
		ids, ours := v.Encode("a"), []byte("a")
		for id := int32(first); id < int32(end); id++ {
			ids, ours = append(ids, id), append(ours, v.Piece(id)...)
		}
		theirs, err := e.Detokenize(ctx, ids)
		if err != nil {
			return err
		}
		if collapseInvalid(theirs) != collapseInvalid(string(ours)) {
			return &unsuitableError{fmt.Errorf("its vocabulary is not that of --tokenizer: "+
				"tokens %d to %d have another text there", first, end-1)}
		}
	}
	return nil
}

// collapseInvalid returns a text with each run of invalid characters as one mark: engines write one mark for each byte,
// for each run, or for each beginning of a character.
func collapseInvalid(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for strings.Contains(s, "\uFFFD\uFFFD") {
		s = strings.ReplaceAll(s, "\uFFFD\uFFFD", "\uFFFD")
	}
	return s
}
