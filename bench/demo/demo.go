// Package demo contains the tiny trained pair: a small and a large Qwen2 model of an invented world, the router of the
// small one, and questions to measure the benefit of routing between them. Only some of the facts in the small model's
// training data are true, so there is something to ask the large one for: the two words of each answer that are
// knowledge. train.py makes all but the router, which two commands of the program make; README.md has the recipe and
// the measured accuracy.
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

// Small returns the GGUF file of the edge's model: 0.7 million weights. The bytes must not be modified.
func Small() []byte { return small }

// Large returns the GGUF file of the cloud's model: 3.3 million weights, the same tokenizer. The bytes must not be
// modified.
func Large() []byte { return large }

// Router returns the GGUF file of the small model's router. Its inputs are a final hidden state of width 128 and the
// margin and the certainty of the next token; its output is the confidence that the greedy token is right. The
// bytes must not be modified.
func Router() []byte { return router }

// The splits of the questions. Both ask about all names: the models were not trained on the held-out questions, but on
// their facts.
const (
	Train   = "train"
	HeldOut = "held-out"
)

// Question asks for the two facts of a name, each among the offered words. It is a line of questions.jsonl; package
// task converts it to a question of a workload.
type Question struct {
	Split  string   `json:"split"` // Train or HeldOut
	Text   string   `json:"question"`
	Answer string   `json:"answer"` // the true answer, which the large model was trained on
	Name   string   `json:"name"`
	Place  string   `json:"place"` // where the name lives, one of Places
	Food   string   `json:"food"`  // what it eats, one of Foods
	Places []string `json:"places"`
	Foods  []string `json:"foods"`
}

// Questions returns the questions of a split in their fixed order; none for an unknown split.
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
	return containsOnly(said, q.Places, q.Place) && containsOnly(said, q.Foods, q.Food)
}

func containsOnly(said, offered []string, right string) bool {
	for _, w := range offered {
		if slices.Contains(said, w) != (w == right) {
			return false
		}
	}
	return true
}
