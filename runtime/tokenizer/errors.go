package tokenizer

import (
	"errors"
	"strings"
)

var (
	// ErrUnsupported says that a file has a kind of tokenizer, pre-tokenizer or chat template that this package
	// does not know.
	ErrUnsupported = errors.New("not supported")

	// ErrVocabulary says that tokens, token types, merges or special ids of a file contradict each other.
	ErrVocabulary = errors.New("inconsistent vocabulary")

	// ErrRole says that a message of a chat is by none of system, user and assistant.
	ErrRole = errors.New("unknown role")

	// ErrNoMessage says that a chat has no message.
	ErrNoMessage = errors.New("no message")
)

// KeyError says which metadata of a file a [Tokenizer] cannot be made of, or which a chat lacks.
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
