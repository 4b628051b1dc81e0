// Package demo holds the tiny trained pair: a small and a large Qwen2 model of an invented world, the router that
// belongs to the small one, and the questions that tell what routing between them is worth. The small model was told
// only some of the world's facts truly, so there is something to ask the large one for: the two words of each answer
// that are knowledge. train.py makes all but the router, which two commands of the program make; README.md has the
// recipe and what the files were measured to be worth.
package demo

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
)

//go:embed small.gguf
var small []byte

//go:embed large.gguf
var large []byte

//go:embed router.gguf
var router []byte

//go:embed questions.jsonl
var questions string

// Small returns the GGUF file of the edge's model: 0.7 million weights. The bytes must not be written to.
func Small() []byte { return small }

// Large returns the GGUF file of the cloud's model: 3.3 million weights, the same tokenizer. The bytes must not be
// written to.
func Large() []byte { return large }

// Router returns the GGUF file of the small model's router: from a final hidden state of width 128, the margin and the
// certainty of the next token to the confidence that the greedy token may stand. The bytes must not be written to.
func Router() []byte { return router }

// The splits of the questions. Both ask about all names: neither model saw the held-out questions, but their facts.
const (
	Train   = "train"
	HeldOut = "held-out"
)

// Question asks for the two facts of a name, each among the words that it offers. It is a line of questions.jsonl;
// package task makes a question of a workload of it.
type Question struct {
	Split  string   `json:"split"` // Train or HeldOut
	Text   string   `json:"question"`
	Answer string   `json:"answer"` // the true one, as the large model was taught it
	Name   string   `json:"name"`
	Place  string   `json:"place"` // where the name lives, one of Places
	Food   string   `json:"food"`  // what it eats, one of Foods
	Places []string `json:"places"`
	Foods  []string `json:"foods"`
}

// Questions returns the questions of a split in their fixed order; of an unknown split there are none.
func Questions(split string) []Question {
	return slices.Clone(parsed()[split])
}

var parsed = sync.OnceValue(func() map[string][]Question {
	all := map[string][]Question{}
	for d := json.NewDecoder(strings.NewReader(questions)); ; {
		var q Question
		if err := d.Decode(&q); err == io.EOF {
			return all
		} else if err != nil {
			panic(fmt.Sprintf("demo: questions.jsonl at byte %d: %v", d.InputOffset(), err))
		}
		all[q.Split] = append(all[q.Split], q)
	}
})

// Correct reports whether an answer gives both facts: of the offered words it has the right place and the right food,
// and no other.
func (q Question) Correct(answer string) bool {
	said := strings.FieldsFunc(answer, func(r rune) bool { return !unicode.IsLetter(r) })
	return names(said, q.Places, q.Place) && names(said, q.Foods, q.Food)
}

// names reports whether right is the only one of the offered words that was said.
func names(said, offered []string, right string) bool {
	for _, w := range offered {
		if slices.Contains(said, w) != (w == right) {
			return false
		}
	}
	return true
}
