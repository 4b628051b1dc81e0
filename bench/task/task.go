// Package task reads questions and tells whether an answer to one is right: the workloads that routers are trained,
// calibrated and judged with. What each public data set is asked, and how its answers are graded, stands in one file:
// csqa.go, arc.go, gsm8k.go.
package task

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Verdict is what a grader says of an answer.
type Verdict int

// The verdicts.
const (
	Wrong  Verdict = iota
	Right          // the answer is the right one
	Silent         // the answer makes no choice, or gives no number: it counts as not right
)

// String is the verdict in one word.
func (v Verdict) String() string { return [...]string{"wrong", "right", "silent"}[v] }

// Question is one prompt of a workload, whatever file or task it comes from, with who judges the answer.
type Question struct {
	ID        string // names it within its set
	Text      string // what is asked: the message of a user, or a text to go on with
	Reference string // a right answer as a model would write it, to learn from; "" for none
	Key       string // the right answer as a reader is told it; "" where there is none
	// the chance to be right by guessing among the options; 0 where there are none
	Guess float64
	Twins bool                        // two of its options have the same text
	Grade func(answer string) Verdict // nil where there is no right answer
}

// Shot is a worked example that comes before a question.
type Shot struct{ Question, Answer string }

// Set is a workload.
type Set struct {
	Name string // of the task, or the file
	Hash string // SHA-256 of what the questions were read from, in hexadecimal digits
	// the name and version of what stands around the questions; it changes when a prompt or a grader does
	Prompts   string
	Shots     []Shot // worked examples, asked and answered before each question
	Tokens    int    // enough for an answer of this kind, in tokens of a large vocabulary
	Questions []Question

	lead  string                              // follows a question where there is no chat template
	next  string                              // begins another question: a text that goes on so far is past its answer
	parse func(line []byte) (Question, error) // of the file
}

// formats are the sets that are read from a file of their own form, each without its questions.
func formats() map[string]func() *Set {
	return map[string]func() *Set{CSQA: csqa, ARC: arc, GSM8K: gsm8k}
}

// Raw is a question as a text to go on with, for models without a chat template.
func (s *Set) Raw(q Question) string {
	var b strings.Builder
	for _, shot := range s.Shots {
		fmt.Fprintf(&b, "%s%s %s\n\n", shot.Question, s.lead, shot.Answer)
	}
	return b.String() + q.Text + s.lead
}

// Follow is an answer as it follows the text of [Set.Raw].
func (s *Set) Follow(answer string) string {
	if s.lead != "" {
		answer = " " + answer
	}
	return answer
}

// Cut is what of a continued text belongs to the answer: all before the next question.
func (s *Set) Cut(answer string) string {
	if s.next != "" {
		answer, _, _ = strings.Cut(answer, s.next)
	}
	return answer
}

// The tasks.
const (
	Demo      = "demo"       // the held-out questions of the demo
	DemoTrain = "demo-train" // those to learn from: the shipped ones, then drawn ones, as many as are asked for
	CSQA      = "csqa"       // CommonsenseQA
	ARC       = "arc"        // the AI2 Reasoning Challenge
	GSM8K     = "gsm8k"      // grade school mathematics
)

// MostShots is the most worked examples before a question.
const MostShots = 4

// Options say which questions of a set are wanted.
type Options struct {
	Most  int    // the first so many, no line after them is looked at; 0: all, and of [DemoTrain] the shipped ones
	Seed  uint64 // of the questions that are drawn
	Data  string // the file that [CSQA], [ARC] and [GSM8K] are read from
	Shots int    // worked examples before each question of these, at most [MostShots]
}

// Open returns the questions of a task or a file. [Read] says what a file looks like.
func Open(name string, o Options) (*Set, error) {
	form, public := formats()[name]
	switch {
	case name == Demo || name == DemoTrain:
		return ofDemo(name, o)
	case !public && o.Shots != 0:
		return nil, fmt.Errorf("%s has no worked examples: they are for %s, %s and %s", name, CSQA, ARC, GSM8K)
	case !public:
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s := ofFile(name)
		if err := s.read(bytes.NewReader(b), name, o.Most); err != nil {
			return nil, err
		}
		return s.first(o.Most)
	case o.Data == "":
		return nil, errors.New("there is no file of questions for " + name)
	}
	b, err := os.ReadFile(o.Data)
	if err != nil {
		return nil, err
	}
	s := form()
	if o.Shots < 0 || o.Shots > MostShots {
		return nil, fmt.Errorf("%d worked examples are not possible: %s has 0 to %d", o.Shots, name, MostShots)
	}
	s.Shots = s.Shots[:o.Shots]
	if err := s.read(bytes.NewReader(b), o.Data, o.Most); err != nil {
		return nil, err
	}
	return s.first(o.Most)
}

// FewError says that a set has fewer questions than are wanted.
type FewError struct {
	Name              string
	Questions, Wanted int
}

// Error implements error.
func (e *FewError) Error() string {
	return fmt.Sprintf("%s has %d questions, not %d", e.Name, e.Questions, e.Wanted)
}

// first leaves the first n questions; 0 means all.
func (s *Set) first(n int) (*Set, error) {
	if n > len(s.Questions) {
		return nil, &FewError{Name: s.Name, Questions: len(s.Questions), Wanted: n}
	}
	if n > 0 {
		s.Questions = s.Questions[:n]
	}
	return s, nil
}
