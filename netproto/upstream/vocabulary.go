package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// checkVocabulary makes sure that an engine means by each id what the devices mean: texts become the same ids, and ids
// the same text, for the whole vocabulary. The error names the first difference. Of an engine that has no address for
// that, as many tokens as can be are compared in another way.
func checkVocabulary(
	ctx context.Context, e dialect.Engine, f dialect.Facts, v dialect.Vocabulary, trust bool,
) error {
	if f.Vocab > 0 && f.Vocab < v.Size() {
		return &wrong{fmt.Errorf("its model has %d tokens, that of --tokenizer has %d: it is another model", f.Vocab,
			v.Size())}
	}
	err := checkTexts(ctx, e, v)
	if err == nil {
		err = checkPieces(ctx, v, func(ctx context.Context, ids []int32) (string, error) {
			return e.Detokenize(ctx, ids)
		})
	}
	if errors.Is(err, dialect.ErrAbsent) {
		err = checkSpelling(ctx, e, f, v)
	}
	if errors.Is(err, dialect.ErrAbsent) {
		err = checkRepeats(ctx, e, v)
	}
	if errors.Is(err, dialect.ErrAbsent) && trust {
		return nil
	}
	if errors.Is(err, dialect.ErrAbsent) {
		return &wrong{fmt.Errorf("it offers no way to compare its vocabulary with that of --tokenizer (%w): "+
			"if you know that they are the same, give --engine trust-vocabulary: then ids are not compared at all, "+
			"and another model would answer nonsense", err)}
	}
	return err
}

// texts are what both must make the same ids of: words, numbers, signs, code, spaces, scripts, and special tokens. All
// are in the normal form NFC, which tokenizers of Hugging Face put a text into, and those of llama.cpp do not.
func texts() []string {
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

// checkTexts compares the ids of texts.
func checkTexts(ctx context.Context, e dialect.Engine, v dialect.Vocabulary) error {
	for _, text := range texts() {
		theirs, err := e.Tokenize(ctx, text)
		if err != nil {
			return err
		}
		ours := v.Encode(text)
		if slices.Equal(ours, theirs) {
			continue
		}
		i := 0
		for i < min(len(ours), len(theirs)) && ours[i] == theirs[i] {
			i++
		}
		return &wrong{fmt.Errorf("its vocabulary is not that of --tokenizer: "+
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

// checkPieces compares the text of every id, many at a time. Each time an id comes first whose text is a letter: some
// vocabularies leave out a space at the beginning.
func checkPieces(
	ctx context.Context, v dialect.Vocabulary, detokenize func(context.Context, []int32) (string, error),
) error {
	const chunk = 4096
	anchor := v.Find([]byte("a"))
	same := func(first, end int) (bool, error) {
		ids := make([]int32, 0, end-first+1)
		var ours []byte
		if anchor >= 0 {
			ids, ours = append(ids, anchor), append(ours, 'a')
		}
		for id := int32(first); id < int32(end); id++ {
			ids, ours = append(ids, id), append(ours, v.Piece(id)...)
		}
		theirs, err := detokenize(ctx, ids)
		return legible(theirs) == legible(string(ours)), err
	}
	for first := 0; first < v.Size(); first += chunk {
		end := min(first+chunk, v.Size())
		ok, err := same(first, end)
		if err != nil {
			return err
		}
		if !ok {
			id, err := firstOther(first, end, same)
			if err != nil {
				return err
			}
			return &wrong{fmt.Errorf("its vocabulary is not that of --tokenizer: "+
				"the token %d is another one there than %q", id, v.Piece(int32(id)))}
		}
	}
	return nil
}

// firstOther finds, among ids whose text differs, the first one that is to blame.
func firstOther(first, end int, same func(first, end int) (bool, error)) (int, error) {
	for low := first; end-first > 1; {
		middle := (first + end) / 2
		ok, err := same(low, middle)
		if err != nil {
			return 0, err
		}
		if ok {
			first = middle
		} else {
			end = middle
		}
	}
	return first, nil
}

// legible is a text with each run of what is no character as one mark: engines put one mark for each byte, for each
// run, or for each beginning of a character.
func legible(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for strings.Contains(s, "\uFFFD\uFFFD") {
		s = strings.ReplaceAll(s, "\uFFFD\uFFFD", "\uFFFD")
	}
	return s
}

// checkSpelling compares the text of every id as an engine repeats it, for those that do not detokenize.
func checkSpelling(ctx context.Context, e dialect.Engine, f dialect.Facts, v dialect.Vocabulary) error {
	s, ok := e.(dialect.Speller)
	if !ok {
		return dialect.ErrAbsent
	}
	chunk := 512
	if f.MaxContext > 0 {
		chunk = min(chunk, f.MaxContext-1)
	}
	for first := 0; first < v.Size(); first += chunk {
		var ids []int32
		for id := first; id < min(first+chunk, v.Size()); id++ {
			ids = append(ids, int32(id))
		}
		pieces, err := s.Spell(ctx, ids)
		if err != nil {
			return err
		}
		for i, piece := range pieces {
			ours := v.Piece(ids[i])
			lost := bytes.ContainsRune(piece, '\uFFFD') && !bytes.Equal(bytes.ToValidUTF8(ours, nil), ours)
			if !bytes.Equal(piece, ours) && !lost {
				return &wrong{fmt.Errorf("its vocabulary is not that of --tokenizer: "+
					"the token %d is %q there and %q here", ids[i], piece, ours)}
			}
		}
	}
	return nil
}

// checkRepeats asks what follows a token that stands there many times. Nearly any model goes on with the same: then its
// text there is that of the same id here. Where that is so for half of the tokens that are tried, the vocabulary is the
// same one; where the engine goes on with others, nothing is known.
func checkRepeats(ctx context.Context, e dialect.Engine, v dialect.Vocabulary) error {
	const tries, times = 40, 24
	s, ok := e.(dialect.Speller)
	if !ok {
		return dialect.ErrAbsent
	}
	tried, same := 0, 0
	for i := range 4 * tries {
		id := int32(i * v.Size() / (4 * tries))
		if piece := v.Piece(id); tried < tries && len(piece) > 0 && utf8.Valid(piece) {
			next, err := s.Next(ctx, slices.Repeat([]int32{id}, times))
			if err != nil {
				return err
			}
			if tried++; bytes.Equal(next, piece) {
				same++
			}
		}
	}
	if 2*same < tried || tried == 0 {
		return fmt.Errorf("%w: of %d tokens that were repeated to it, it went on with %d",
			dialect.ErrAbsent, tried, same)
	}
	return nil
}
