package engine

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// ReadRouter reads the router file at path, a GGUF file written by `pilotfish-bench router train`. Errors name the
// file.
func ReadRouter(path string) (*router.File, error) { return readFrom(path, router.Read) }

// ReadTokenizer reads only the tokenizer of the model file at path. Errors name the file.
func ReadTokenizer(path string) (*tokenizer.Tokenizer, error) {
	return readFrom(path, tokenizer.FromGGUF)
}

// readFrom reads a part of a GGUF file. The result refers to no memory of the file.
func readFrom[T any](path string, read func(*gguf.File) (*T, error)) (*T, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	part, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	return part, nil
}
