// Package tokenizer converts text to the ids of a vocabulary of Qwen2 or Qwen3.5 and back.
//
// The vocabulary comes entirely from a GGUF file (tokenizer.ggml.*): no ids are built in. Encoding has four steps:
//
//	text ─ special tokens cut out (encode.go)
//	     ─ made well-formed UTF-8 (encode.go)
//	     ─ split into pieces, a word with its blank or the like (split.go)
//	     ─ each piece merged from its bytes up, lowest rank first (merge.go)
//
// The ids are those of llama.cpp for any text, valid UTF-8 or not, with and without special tokens. Where the reference
// in Python differs (it normalises to NFC and uses a later Unicode), the package follows llama.cpp.
package tokenizer

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/jinja"
)

// Tokenizer is the vocabulary of one model. It is immutable and safe for concurrent use.
type Tokenizer struct {
	pre       preTokenizer
	vocab     vocabulary
	rules     ruleTable
	byteID    [256]int32     // the token of each single byte
	always    []specialToken // cut out of any text: user-defined tokens
	parsed    []specialToken // cut out when special tokens are parsed: always and the control tokens
	bos, eos  int32          // -1 if the file has none
	fim       fimMarks
	addBOS    bool
	chat      *jinja.Template
	chatTools bool             // the template shows tools
	callTags  bool             // see [Tokenizer.CallsInTags]
	chatErr   error            // error of Chat; nil if it can be used
	now       func() time.Time // for templates that write the date
	hash      func() [32]byte
	chatHash  func() [32]byte
}

// Size returns the number of tokens, including those that only pad the embedding.
func (t *Tokenizer) Size() int { return t.vocab.tokenCount() }

// BOS returns the id that begins a text (tokenizer.ggml.bos_token_id), and whether the file names one.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos >= 0 }

// EOS returns the id that ends a text (tokenizer.ggml.eos_token_id), and whether the file names one. To stop a
// generation, use [Tokenizer.IsEnd]: a model has several such tokens.
func (t *Tokenizer) EOS() (int32, bool) { return t.eos, t.eos >= 0 }

// AddBOS reports whether the model was trained with [Tokenizer.BOS] before each text
// (tokenizer.ggml.add_bos_token). If so, BOS exists.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// IsEnd reports whether a generation ends at id. These are the end-of-text, end-of-turn and end-of-message tokens that
// the file names, and tokens with the spelling of an end token, such as <|im_end|> and <|endoftext|>.
func (t *Tokenizer) IsEnd(id int32) bool { return t.vocab.hasKind(id, end) }

// IsControl reports whether id is a control token, which has no text. [Tokenizer.Encode] returns such a token only when
// special tokens are parsed.
func (t *Tokenizer) IsControl(id int32) bool { return t.vocab.hasKind(id, control) }

// Hash returns the SHA-256 of all that determines the text of an id and the ids of a text: tokens, their kinds, merges,
// special ids. Rows that only pad the embedding do not count, so that a small and a large model of one family have the
// same hash. The first call takes about 10 ms for the vocabulary of Qwen2.
func (t *Tokenizer) Hash() [32]byte { return t.hash() }

// computeHash computes [Tokenizer.Hash]. Each list is preceded by its length, so that different vocabularies never have
// the same encoding.
func (t *Tokenizer) computeHash() [32]byte {
	n := t.Used()
	in := make(hashInput, 0, len(t.vocab.text)+8*t.Size())
	in.writeLengthPrefixed([]byte("pilotfish tokenizer 1 " + t.pre.name))
	in.writeVarint(n)
	for id := range int32(n) {
		in.writeVarint(int(t.vocab.kinds[id]))
		in.writeLengthPrefixed(t.vocab.tokenSpelling(id))
	}
	rules := t.rules.pairsByRank()
	in.writeVarint(len(rules))
	for _, p := range rules {
		in.writeVarint(int(p.left()))
		in.writeVarint(int(p.right()))
	}
	in.writeVarint(-1)
	if t.addBOS {
		in.writeVarint(int(t.bos))
	}
	return sha256.Sum256(in)
}

// ChatHash returns the SHA-256 of the ids that the model's chat template produces for ordinary chats: with and without
// a system message, of one and of several turns, each up to the beginning of the assistant's turn, without a thought.
// Templates with different text and the same effect have the same hash; text about tools, and whether a model thinks
// unless it is told, do not count. For a template that is not supported it is the hash of the text, which no rendering
// has; for a file without a template it is zero. It does not depend on the vocabulary, see [Tokenizer.Hash].
func (t *Tokenizer) ChatHash() [32]byte { return t.chatHash() }

// computeChatHash computes [Tokenizer.ChatHash] of a template with this SHA-256. It writes the name of the format
// first: a version that renders other chats, or renders them differently, must use another name.
func (t *Tokenizer) computeChatHash(template [32]byte) [32]byte {
	var in hashInput
	if t.chatErr != nil {
		in.writeLengthPrefixed([]byte("pilotfish chat 2 text"))
		in.writeLengthPrefixed(template[:])
	} else {
		in.writeLengthPrefixed([]byte("pilotfish chat 2 ids"))
	}
	system, user := Message{Role: "system", Content: "Be brief."}, Message{Role: "user", Content: "What is 2 + 2?"}
	answer, next := Message{Role: "assistant", Content: "4"}, Message{Role: "user", Content: "And 3 + 3?"}
	fixed := newStrftimeValue(func() time.Time { return time.Unix(0, 0).UTC() }) // the hash is the same on all days
	for _, chat := range [][]Message{{user}, {system, user}, {user, answer, next}, {system, user, answer, next}} {
		ids, err := t.Chat(chat, nil, fixed, Value{Name: "enable_thinking", Value: false})
		if err != nil {
			break // all fail like the first
		}
		in.writeVarint(len(ids))
		for _, id := range ids {
			in.writeVarint(int(id))
		}
	}
	return sha256.Sum256(in)
}

// Used returns the number of tokens without the unused ones at the end, which only pad the embedding. It is the same
// for models of one family with different sizes.
func (t *Tokenizer) Used() int {
	n := t.vocab.tokenCount()
	for n > 0 && t.vocab.kinds[n-1] == unused {
		n--
	}
	return n
}

// hashInput is what a hash is computed of.
type hashInput []byte

func (in *hashInput) writeVarint(n int) { *in = binary.AppendVarint(*in, int64(n)) }

func (in *hashInput) writeLengthPrefixed(s []byte) {
	in.writeVarint(len(s))
	*in = append(*in, s...)
}

var (
	// ErrUnsupported is returned for a kind of tokenizer, pre-tokenizer or chat template that this package does not
	// support.
	ErrUnsupported = errors.New("not supported")

	// ErrVocabulary is returned if tokens, token types, merges or special ids of a file contradict each other.
	ErrVocabulary = errors.New("inconsistent vocabulary")

	// ErrChat is returned for a chat that the model's template refuses, or cannot render within its limits.
	ErrChat = errors.New("the model's chat template refuses this chat")

	// ErrRole is returned for a message of a chat with a role other than system, user, assistant and tool.
	ErrRole = errors.New("unknown role")

	// ErrNoMessage is returned for a chat without a message.
	ErrNoMessage = errors.New("no message")
)

// KeyError names the metadata that prevent a [Tokenizer], or that a chat lacks.
type KeyError struct {
	Key string // such as "tokenizer.ggml.merges"
	Err error  // wraps [ErrUnsupported], [ErrVocabulary] or an error of package gguf
}

// Error names the key, once, and the cause.
func (e *KeyError) Error() string {
	if cause := e.Err.Error(); strings.Contains(cause, e.Key) {
		return cause
	}
	return e.Key + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }
