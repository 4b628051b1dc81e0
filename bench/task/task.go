// Package task reads questions and grades answers: the workloads for training, calibrating and evaluating routers. The
// prompts and the grading of each public data set are in one file: csqa.go, arc.go, gsm8k.go, humaneval.go, mbpp.go.
package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	// runs the program of an answer that Grade does not find right; nil if the answer's text decides
	Run func(ctx context.Context, answer string) (passed bool, err error)

	Raw          string // the text to continue without a chat template; "" means Text and what follows it
	RawReference string // a right answer to Raw; "" means Reference
}

// Judge grades an answer. It runs the answer's program if needed. An error means that it was not judged.
func (q *Question) Judge(ctx context.Context, answer string) (Verdict, error) {
	v := q.Grade(answer)
	if v == Silent || q.Run == nil {
		return v, nil
	}
	if passed, err := q.Run(ctx, answer); err != nil || !passed {
		return Wrong, err
	}
	return Right, nil
}

// Right reports whether an answer to a question of the set is right, ignoring what follows from the next question on.
// It runs the answer's program if needed. An error means that it was not judged.
func (s *Set) Right(ctx context.Context, q *Question, answer string) (bool, error) {
	v, err := q.Judge(ctx, s.Cut(answer))
	return v == Right, err
}

// Shot is a worked example before a question.
type Shot struct{ Question, Answer string }

// Set is a workload.
type Set struct {
	Name string // of the task, or the file
	Hash string // SHA-256 of the source of the questions, in hexadecimal
	// name and version of the prompts and graders; it changes when one of them does
	Prompts   string
	Shots     []Shot // worked examples, asked and answered before each question
	Tokens    int    // sufficient for an answer of this kind, in tokens of a large vocabulary
	Questions []Question

	lead  string                              // follows a question without a chat template
	next  string                              // begins another question: in a continued text, the answer ends there
	parse func(line []byte) (Question, error) // of the file; [errOtherPart] skips the line
	// the worked examples are in the file: parse appends them
	fromFile bool
	rawShots []string // the worked examples as texts without a chat template; none: see [Set.Raw]
}

// errOtherPart means that a line does not belong to the part of the file that is read.
var errOtherPart = errors.New("another part of the file")

// format returns the set of a benchmark with a file format of its own, without its questions; nil for other names. The
// version of the prompts changes when the prompt or the grader does.
func format(name string, run Runner) *Set {
	s := &Set{Name: name, Prompts: name + "-1", lead: "\nAnswer:", next: "\nQuestion:"}
	switch name {
	case CSQA:
		s.Shots, s.Tokens, s.parse = csqaShots(), 96, asking(csqaInstruction)
	case ARC:
		s.Shots, s.Tokens, s.parse = arcShots(), 96, asking(arcInstruction)
	case GSM8K:
		s.Shots, s.Tokens, s.parse = gsm8kShots(), 320, parseGSM8K
	case HumanEval:
		return &Set{Name: name, Prompts: s.Prompts, Tokens: 512,
			parse: func(line []byte) (Question, error) { return parseHumanEval(line, run) }}
	case MBPP:
		return mbpp(name, mbppTest, run)
	case MBPPTrain:
		return mbpp(name, mbppTrain, run)
	default:
		return nil
	}
	return s
}

// RunsPrograms reports whether answers to a task are graded by running their programs.
func RunsPrograms(name string) bool {
	return slices.Contains([]string{HumanEval, MBPP, MBPPTrain}, name)
}

// Chat returns a question after the worked examples.
func (s *Set) Chat(question string) (all []tokenizer.Message) {
	for _, shot := range s.Shots {
		all = append(all, tokenizer.Message{Role: "user", Content: shot.Question},
			tokenizer.Message{Role: "assistant", Content: shot.Answer})
	}
	return append(all, tokenizer.Message{Role: "user", Content: question})
}

// Raw returns a question as a text to continue, for models without a chat template.
func (s *Set) Raw(q Question) string {
	var b strings.Builder
	for i, shot := range s.Shots {
		if i < len(s.rawShots) {
			fmt.Fprintf(&b, "%s\n", s.rawShots[i])
			continue
		}
		fmt.Fprintf(&b, "%s%s %s\n\n", shot.Question, s.lead, shot.Answer)
	}
	if q.Raw != "" {
		return b.String() + q.Raw
	}
	return b.String() + q.Text + s.lead
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

// MostShots is the maximum number of worked examples before a question.
const MostShots = 4

// Options select the questions of a set.
type Options struct {
	Most  int    // use the first questions, this many, and read no further; 0: all, and of [DemoTrain] the shipped ones
	Seed  uint64 // for drawn questions
	Data  string // the file of a public set
	Shots int    // worked examples before each question of these, at most [MostShots]
	// runs the answers to [HumanEval], [MBPP] and [MBPPTrain]; nil: they are not graded
	Run Runner
}

// Open returns the questions of a task or a file. See [Read] for the format of a file.
func Open(name string, o Options) (*Set, error) {
	s := format(name, o.Run)
	switch {
	case name == Demo || name == DemoTrain:
		return ofDemo(name, o)
	case s == nil && o.Shots != 0:
		return nil, fmt.Errorf("%s has no worked examples: they are for %s, %s, %s and %s", name, CSQA, ARC, GSM8K,
			MBPP)
	case s == nil:
		s := ofFile(name)
		if err := s.readFile(name, o.Most); err != nil {
			return nil, err
		}
		return s.first(o.Most)
	case o.Data == "":
		return nil, errors.New("no file of questions for " + name)
	}
	switch {
	case o.Shots < 0 || o.Shots > MostShots:
		return nil, fmt.Errorf("%d worked examples are not possible: %s has 0 to %d", o.Shots, name, MostShots)
	case name == HumanEval && o.Shots > 0:
		return nil, fmt.Errorf("%s has no worked examples", name)
	case !s.fromFile:
		s.Shots = s.Shots[:o.Shots]
	}
	if err := s.readFile(o.Data, o.Most); err != nil {
		return nil, err
	}
	if o.Shots > len(s.Shots) {
		return nil, fmt.Errorf("%s has %d worked examples before its questions, not %d", o.Data, len(s.Shots), o.Shots)
	}
	s.Shots = s.Shots[:o.Shots]
	return s.first(o.Most)
}

// readFile is [Set.read] of the file at path.
func (s *Set) readFile(path string, most int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return s.read(bytes.NewReader(b), path, most)
}

// FewError means that a set has fewer questions than requested.
type FewError struct {
	Name              string
	Questions, Wanted int
}

// Error implements error.
func (e *FewError) Error() string {
	return fmt.Sprintf("%s has %d questions, not %d", e.Name, e.Questions, e.Wanted)
}

// first keeps the first n questions; 0 means all.
func (s *Set) first(n int) (*Set, error) {
	if n > len(s.Questions) {
		return nil, &FewError{Name: s.Name, Questions: len(s.Questions), Wanted: n}
	}
	if n > 0 {
		s.Questions = s.Questions[:n]
	}
	return s, nil
}
