// Command hf converts a Qwen2 or Qwen3 model in a GGUF file to the folder format of Hugging Face's libraries. Engines
// that do not read GGUF can then serve the same model in tests.
//
//	go run ./bench/hf -m bench/demo/large.gguf -o FOLDER
//	  config.json             shape, names of special ids
//	  model.safetensors       the weights, dequantised to float32
//	  tokenizer.json          byte-level BPE: vocabulary, merges, Qwen2's expression for splitting
//	  tokenizer_config.json   special tokens, chat template
//
// The same file gives the same bytes.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run returns the exit code: 0 done, 1 failed, 2 wrong usage.
func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("hf", flag.ContinueOnError)
	flags.SetOutput(stderr)
	model := flags.String("m", "", "the model, a GGUF `file` of architecture qwen2 or qwen3")
	folder := flags.String("o", "",
		"the `folder` to write, made if it is not there; files of an earlier run are replaced")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *model == "" || *folder == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "hf: give the model with -m and the folder with -o, and nothing else")
		return 2
	}
	if err := convert(*model, *folder); err != nil {
		fmt.Fprintln(stderr, "hf:", err)
		return 1
	}
	return 0
}

// convert writes the folder for the model.
func convert(model, folder string) (err error) {
	f, err := gguf.Open(model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	files, err := describe(f)
	if err != nil {
		return fmt.Errorf("%s: %w", model, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		if err := create(filepath.Join(folder, file.name), file.write); err != nil {
			return err
		}
	}
	return nil
}

// file is one file of the folder.
type file struct {
	name  string
	write func(w io.Writer) error
}

// describe checks f and returns the files of the folder, before anything is written.
func describe(f *gguf.File) ([]file, error) {
	shape, err := qwen.ReadConfig(f)
	if err != nil {
		return nil, err
	}
	vocab, err := readVocabulary(f, shape.Vocab)
	if err != nil {
		return nil, err
	}
	weights, err := findWeights(f, shape)
	if err != nil {
		return nil, err
	}
	_, untied := f.Tensor(outputName)
	return []file{
		{"config.json", asJSON(newConfig(shape, vocab, !untied))},
		{"tokenizer.json", asJSON(newTokenizer(vocab))},
		{"tokenizer_config.json", asJSON(newTokenizerConfig(vocab, shape.Context))},
		{"model.safetensors", func(w io.Writer) error { return writeWeights(w, weights) }},
	}, nil
}

// asJSON writes v, indented and without HTML escaping.
func asJSON(v any) func(w io.Writer) error {
	return func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		return e.Encode(v)
	}
}

func create(path string, write func(w io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return w.Flush()
}
