package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// pair is a small and a large model, and what they are asked.
type pair struct {
	edge, large *engine.Engine
	questions   []bench.Question
	raw         bool
	typical     [][]int32
}

func (p *pair) close() {
	p.edge.Close()
	p.large.Close()
}

// open opens the pair that is asked for.
func (f *flags) open(ctx context.Context) (*pair, error) {
	if f.stories == "" {
		return demoPair(f.questions)
	}
	return storyPair(ctx, f.stories, f.questions)
}

// demoPair is the pair of the demo, with its held-out questions.
func demoPair(n int) (*pair, error) {
	edge, err := embedded(demo.Small(), "demo/small.gguf")
	if err != nil {
		return nil, err
	}
	large, err := embedded(demo.Large(), "demo/large.gguf")
	if err != nil {
		return nil, err
	}
	p := &pair{edge: edge, large: large}
	held := demo.Questions(demo.HeldOut)
	for _, q := range held[:min(n, len(held))] {
		p.questions = append(p.questions, bench.Question{Text: q.Text, Correct: q.Correct})
	}
	t, err := edge.Tokenizer()
	if err != nil {
		return nil, err
	}
	for _, q := range demo.Questions(demo.Train) {
		prompt, err := t.Chat([]tokenizer.Message{{Role: "user", Content: q.Text}}, true)
		if err != nil {
			return nil, err
		}
		p.typical = append(p.typical, append(prompt, t.Encode(q.Answer, false)...))
	}
	return p, nil
}

func embedded(b []byte, name string) (*engine.Engine, error) {
	file, err := gguf.Parse(b)
	if err != nil {
		return nil, err
	}
	return engine.New(file, name, engine.Options{Threads: 1})
}

// storyPair is the pair that writes stories, with beginnings that the large model draws.
func storyPair(ctx context.Context, dir string, n int) (*pair, error) {
	edge, err := engine.Open(filepath.Join(dir, "stories-weak-qwen2-f32.gguf"), engine.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	large, err := engine.Open(filepath.Join(dir, "stories260k-qwen2-f32.gguf"), engine.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	p := &pair{edge: edge, large: large, raw: true}
	s, err := large.NewSession()
	if err != nil {
		return nil, err
	}
	starts := []string{" Once upon a time", " One day", " There was a", " Tom", " Lily", " The"}
	for draw := range n {
		text := starts[draw%len(starts)]
		ids, err := large.RawPrompt(text)
		if err != nil {
			return nil, err
		}
		r := engine.Request{MaxTokens: 8 + draw*7%33, Sampling: sample.Options{Temperature: 1, Seed: uint64(draw) + 1}}
		for token, err := range s.Generate(ctx, ids, r) {
			if err != nil {
				return nil, err
			}
			text += token.Text
		}
		p.questions = append(p.questions, bench.Question{Text: text[:strings.LastIndexByte(text, ' ')]})
	}
	return p, nil
}
