// Package task reads questions and grades answers: the workloads for training, calibrating and evaluating routers. The
// prompts and the grading of each [Benchmark] are in one file: csqa.go, arc.go, gsm8k.go, humaneval.go, mbpp.go.
package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Verdict is a grader's result for an answer.
type Verdict int

// The verdicts.
const (
	Wrong  Verdict = iota
	Right          // the answer is the right one
	Silent         // no choice, no number, or no program: it counts as not right
)

// String returns the verdict as a word.
func (v Verdict) String() string { return [...]string{"wrong", "right", "silent"}[v] }

// Question is one prompt of a workload, of any file or task, with its grader.
type Question struct {
	ID        string // unique in its set
	Text      string // the message of a user, or a text to continue
	Reference string // a right answer as a model would write it, to learn from; "" for none
	Key       string // the right answer for readers; "" if there is none
	// probability of being right by guessing among the options; 0 without options
	Guess float64
	Grade func(answer string) Verdict // nil if there is no right answer
	// grades an answer that ends in the middle, where the limit of tokens was; nil: such an answer is silent
	gradeCut func(answer string) Verdict
	// runs the program of an answer that Grade does not find right; nil if the answer's text decides
	Run func(ctx context.Context, answer string) (passed bool, err error)

	Raw          string // the text to continue without a chat template; "" means Text and what follows it
	RawReference string // a right answer to Raw; "" means Reference
}

// Judge grades an answer; cut says that a limit ended it: it is then silent unless its conclusion stands before the
// end. It runs the answer's program if needed. An error means that it was not judged.
func (q *Question) Judge(ctx context.Context, answer string, cut bool) (Verdict, error) {
	v := Silent
	switch {
	case !cut:
		v = q.Grade(answer)
	case q.gradeCut != nil:
		v = q.gradeCut(answer)
	}
	if v == Silent || q.Run == nil {
		return v, nil
	}
	if passed, err := q.Run(ctx, answer); err != nil || !passed {
		return Wrong, err
	}
	return Right, nil
}

// Right reports whether an answer to a question of the set is right, ignoring what follows from the next question on.
// cut says that it was cut at a limit. It runs the answer's program if needed. An error means that it was not judged.
func (s *Set) Right(ctx context.Context, q *Question, answer string, cut bool) (bool, error) {
	own := s.Cut(answer)
	v, err := q.Judge(ctx, own, cut && own == answer)
	return v == Right, err
}

// Set is a workload.
type Set struct {
	Name  string // of the task, or the file
	Hash  string // SHA-256 of the source of the questions, or [Split.Hash], in hexadecimal
	Split string // [Split.Name]; "" for all
	// name and version of the prompts and graders; it changes when one of them does
	Prompts   string
	Shots     []Question // worked examples, asked and answered before each question
	Tokens    int        // enough for 99% of answers of this kind, in tokens of a large vocabulary
	Questions []Question

	lead  string                              // follows a question without a chat template
	next  string                              // begins another question: in a continued text, the answer ends there
	parse func(line []byte) (Question, error) // of the file; [errOtherPart] skips the line
	has   func(line int) bool                 // of the split; nil: all lines
}

// errOtherPart means that a line does not belong to the part of the file that is read.
var errOtherPart = errors.New("another part of the file")

// Chat returns a question after the worked examples.
func (s *Set) Chat(question string) (all []tokenizer.Message) {
	for _, shot := range s.Shots {
		all = append(all, tokenizer.Message{Role: "user", Content: shot.Text},
			tokenizer.Message{Role: "assistant", Content: shot.Reference})
	}
	return append(all, tokenizer.Message{Role: "user", Content: question})
}

// Raw returns a question after the worked examples as a text to continue, for models without a chat template.
func (s *Set) Raw(q Question) string {
	var before strings.Builder
	for _, shot := range s.Shots {
		before.WriteString(cmp.Or(shot.Raw+shot.RawReference, shot.Text+s.lead+s.Follow(shot.Reference)+"\n"))
		before.WriteByte('\n')
	}
	return before.String() + cmp.Or(q.Raw, q.Text+s.lead)
}

// Follow returns an answer in the form in which it follows the text of [Set.Raw].
func (s *Set) Follow(answer string) string {
	if s.lead != "" {
		answer = " " + answer
	}
	return answer
}

// Cut returns the part of a continued text that belongs to the answer: all before the next question.
func (s *Set) Cut(answer string) string {
	if s.next != "" {
		answer, _, _ = strings.Cut(answer, s.next)
	}
	return answer
}

// The tasks.
const (
	Demo      = "demo"       // the held-out questions of the demo
	DemoTrain = "demo-train" // for training: the shipped ones, then drawn ones, as many as requested
	CSQA      = "csqa"       // CommonsenseQA
	ARC       = "arc"        // the AI2 Reasoning Challenge
	GSM8K     = "gsm8k"      // grade school mathematics
	HumanEval = "humaneval"  // functions in Python
	MBPP      = "mbpp"       // programs in Python
	MBPPTrain = "mbpp-train" // of the same file, for training
)

// Options select the questions of a set.
type Options struct {
	Skip  int    // leave out the first questions, this many, as others have looked at them
	Most  int    // use the first questions, this many, and read no further; 0: all, and of [DemoTrain] the shipped ones
	Seed  uint64 // for drawn questions
	Data  string // the file of a public set
	Split string // [Split.Name] of the part of a public set to use, whose published file is Data; "": all
	Shots int    // worked examples before each question, for sets that have some
	// runs the answers to [HumanEval], [MBPP] and [MBPPTrain]; nil: they are not graded
	Run Runner
}

// Open returns the questions of a task or a file. See [Read] for the format of a file.
func Open(name string, o Options) (*Set, error) {
	s, path := newBenchmarkSet(name, o.Run), o.Data
	switch {
	case name == Demo || name == DemoTrain:
		return newDemoSet(name, o)
	case s == nil:
		s, path = newFileSet(name), name
	case path == "":
		return nil, errors.New("no file of questions for " + name)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if o.Split != "" {
		err = s.readSplit(f, path, o)
	} else {
		err = s.readQuestions(f, path, o.lastQuestion())
	}
	if err != nil {
		return nil, err
	}
	return s.keepChosen(o)
}

func (s *Set) readSplit(f io.ReadSeeker, path string, o Options) error {
	split, err := FindSplit(s.Name, o.Split)
	if err != nil {
		return err
	}
	return s.readSplitLines(f, path, split, o)
}

func (s *Set) readSplitLines(f io.ReadSeeker, path string, split *Split, o Options) error {
	err := split.checkPublished(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if s.has = split.includesLine; s.Name == MBPP {
		s.parse = mbppParser(s, mbppAll, o.Run)
	}
	err = s.readQuestions(f, path, o.lastQuestion())
	s.Hash, s.Split = split.Hash(), split.Name
	return err
}

// lastQuestion returns how many questions of a file are needed; 0: all.
func (o *Options) lastQuestion() int {
	if o.Most == 0 {
		return 0
	}
	return o.Skip + o.Most
}

func (s *Set) keepChosen(o Options) (*Set, error) {
	if o.Shots < 0 || o.Shots > len(s.Shots) {
		return nil, fmt.Errorf("%s has %d worked examples, not %d", s.Name, len(s.Shots), o.Shots)
	}
	s.Shots = s.Shots[:o.Shots]
	n := cmp.Or(o.lastQuestion(), max(o.Skip+1, len(s.Questions)))
	if n > len(s.Questions) {
		return nil, fmt.Errorf("%s has %d questions, not %d", s.Name, len(s.Questions), n)
	}
	s.Questions = s.Questions[o.Skip:n]
	return s, nil
}
