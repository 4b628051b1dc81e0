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

// checkVocabulary checks that an engine's ids mean the same as the devices': texts are tokenized to the same ids, and
// ids have the same text, for the whole vocabulary. The error states the first difference. For engines without
// endpoints for that, other methods compare as many tokens as possible.
func checkVocabulary(
	ctx context.Context, e dialect.Engine, f dialect.Facts, v dialect.Vocabulary, trust bool,
) error {
	if f.Vocab > 0 && f.Vocab < v.Size() {
		return &wrong{fmt.Errorf("its model has %d tokens, that of --tokenizer has %d: the models differ", f.Vocab,
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

// texts returns texts for which both must give the same ids: words, numbers, signs, code, spaces, scripts, and special
// tokens. All are in the normal form NFC: tokenizers of Hugging Face normalise texts to NFC, and those of llama.cpp do
// not.
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

// checkPieces compares the text of every id, many per request. Each request starts with an id that stands for a letter:
// some vocabularies drop a leading space.
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

// firstOther finds, by bisection, the first id with another text.
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

// legible returns a text with each run of invalid characters as one mark: engines write one mark for each byte, for
// each run, or for each beginning of a character.
func legible(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for strings.Contains(s, "\uFFFD\uFFFD") {
		s = strings.ReplaceAll(s, "\uFFFD\uFFFD", "\uFFFD")
	}
	return s
}

// checkSpelling compares the text of every id in an engine's echo, for engines that do not detokenize.
func checkSpelling(ctx context.Context, e dialect.Engine, f dialect.Facts, v dialect.Vocabulary) error {
	s, ok := e.(dialect.Speller)
	if !ok {
		return dialect.ErrAbsent
	}
	chunk := 512
	if f.MaxContext > 0 {
		chunk = max(min(chunk, f.MaxContext-1), 1)
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
			// not bytes.ContainsRune, which takes any invalid bytes for this character
			lost := bytes.Contains(piece, []byte("\uFFFD")) && !utf8.Valid(ours)
			if !bytes.Equal(piece, ours) && !lost {
				return &wrong{fmt.Errorf("its vocabulary is not that of --tokenizer: "+
					"the token %d is %q there and %q here", ids[i], piece, ours)}
			}
		}
	}
	return nil
}

// checkRepeats asks what follows a token that is repeated many times. Nearly any model continues with the same token:
// then the text of its answer must be that of the token's id here. If this holds for half of the tried tokens, the
// vocabulary is the same; if the engine continues with other tokens, the result is unknown.
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
		return fmt.Errorf("%w: it continued %d of %d repeated tokens",
			dialect.ErrAbsent, same, tried)
	}
	return nil
}
