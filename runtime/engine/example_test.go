package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// This example prints an answer token by token.
func Example() {
	ctx := context.Background()
	e, err := engine.Open("qwen2.5-0.5b-instruct-q8_0.gguf", engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	ids, err := e.Chat(tokenizer.Message{Role: "user", Content: "What is a pilot fish?"})
	if err != nil {
		log.Fatal(err)
	}
	s, err := e.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	for tok, err := range s.Generate(ctx, ids, terms.Settings{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(tok.Text)
	}
}

// If an engine is closed while a text is generated, the text ends with ErrClosed.
func ExampleEngine_Close() {
	path := tinyModel()
	defer os.Remove(path)
	e, err := engine.Open(path, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	s, err := e.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	for tok, err := range s.Generate(context.Background(), []int32{1, 2, 3}, terms.Settings{IgnoreEnd: true}) {
		if errors.Is(err, engine.ErrClosed) {
			fmt.Println("closed")
			break
		}
		fmt.Println("a token at position", tok.Pos)
		if err := e.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// a token at position 3
	// closed
}

// tinyModel writes a model of random weights.
func tinyModel() string {
	recipe, err := synth.ParseRecipe("q8_0")
	if err != nil {
		log.Fatal(err)
	}
	f, err := os.CreateTemp("", "*.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if err := synth.Tiny(recipe, 1).Write(f, nil); err != nil {
		log.Fatal(err)
	}
	return f.Name()
}

// TestPackageComment: the program in the package comment equals Example, which compiles; "…" stands for the rest.
func TestPackageComment(t *testing.T) {
	text := func(name string) string {
		b, err := os.ReadFile(filepath.Join(".", name))
		require.NoError(t, err)
		return string(b)
	}
	comment, _, _ := strings.Cut(text("engine.go"), "\npackage engine")
	_, rest, _ := strings.Cut(text("example_test.go"), "func Example() {")
	body, _, _ := strings.Cut(rest, "}\n}\n")
	body += "}\n"
	lines := 0
	for line := range strings.SplitSeq(comment, "\n") {
		code, ok := strings.CutPrefix(line, "//\t")
		if code = strings.TrimSpace(code); !ok || code == "…" {
			continue
		}
		var found bool
		_, body, found = strings.Cut(body, "\t"+code+"\n")
		assert.True(t, found, "%s", code)
		lines++
	}
	assert.Equal(t, 7, lines)
}
