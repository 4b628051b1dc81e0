// Package task reads questions and tells whether an answer to one is right: the workloads that routers are trained,
// calibrated and judged with.
package task

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

// Verdict is what a grader says of an answer.
type Verdict int

// The verdicts.
const (
	Wrong  Verdict = iota
	Right          // the answer is the right one
	Silent         // the answer makes no choice, or gives no number: it counts as not right
)

// Question is one prompt of a workload.
type Question struct {
	ID        string                      // names it within its set
	Text      string                      // what is asked: the message of a user, or a text to go on with
	Reference string                      // a right answer as a model would write it, for a router to learn from; "" where there is none
	Grade     func(answer string) Verdict // nil where there is no right answer
}

// Set is a workload.
type Set struct {
	Name      string // of the task, or the file
	Hash      string // SHA-256 of what the questions were read from, in hexadecimal digits
	Questions []Question
}

// The names of the demo's questions.
const (
	Demo      = "demo"       // the held-out ones
	DemoTrain = "demo-train" // those to learn from: the shipped ones, then drawn ones, as many as are asked for
)

// Options say which questions of a set are wanted.
type Options struct {
	Most int    // the first so many; 0: all, and of [DemoTrain] the shipped ones
	Seed uint64 // of the questions that are drawn
}

// Open returns the questions of a task or a file. A file has one JSON object per line:
//
//	{"question": "…", "id": "…", "reference": "…", "answer": "…"}
//
// Only the question is needed. Without an id the number of the line, from 1, is its name. An answer of the model is
// right if it contains "answer"; where that is absent and there is a reference, none is right or wrong.
func Open(name string, o Options) (*Set, error) {
	switch name {
	case Demo:
		return ofDemo(name, demo.Questions(demo.HeldOut), o)
	case DemoTrain:
		all := demo.Questions(demo.Train)
		if more := o.Most - len(all); more > 0 {
			all = append(all, demo.Draw(more, o.Seed)...)
		}
		return ofDemo(name, all, o)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	s, err := Read(bytes.NewReader(b), name)
	if err != nil {
		return nil, err
	}
	return s.first(o.Most)
}

// first leaves the first n questions; 0 means all.
func (s *Set) first(n int) (*Set, error) {
	if n > len(s.Questions) {
		return nil, fmt.Errorf("%s has %d questions, not %d", s.Name, len(s.Questions), n)
	}
	if n > 0 {
		s.Questions = s.Questions[:n]
	}
	return s, nil
}

// ofDemo makes a set of questions of the demo.
func ofDemo(name string, all []demo.Question, o Options) (*Set, error) {
	s := &Set{Name: name}
	sum := sha256.New()
	for i, q := range all {
		fmt.Fprintf(sum, "%q %q\n", q.Text, q.Answer)
		s.Questions = append(s.Questions, Question{
			ID: fmt.Sprint(i + 1), Text: q.Text, Reference: q.Answer, Grade: func(answer string) Verdict {
				if q.Correct(answer) {
					return Right
				}
				return Wrong
			},
		})
	}
	s.Hash = hex.EncodeToString(sum.Sum(nil))
	return s.first(o.Most)
}

// maxLine is the longest line of a file, in bytes.
const maxLine = 1 << 20

// Read reads the questions of a file, which is called name in errors.
func Read(r io.Reader, name string) (*Set, error) {
	s, sum := &Set{Name: name}, sha256.New()
	lines := bufio.NewScanner(io.TeeReader(r, sum))
	lines.Buffer(nil, maxLine)
	line := 0
	seen := map[string]int{}
	for lines.Scan() {
		line++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		q, err := parse(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, line, err)
		}
		if q.ID == "" {
			q.ID = fmt.Sprint(line)
		}
		if before, twice := seen[q.ID]; twice {
			return nil, fmt.Errorf("%s: line %d: its id %q is that of line %d", name, line, q.ID, before)
		}
		seen[q.ID] = line
		s.Questions = append(s.Questions, q)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s: line %d is longer than 1 MB", name, line+1)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(s.Questions) == 0:
		return nil, fmt.Errorf("%s: the file has no questions", name)
	}
	s.Hash = hex.EncodeToString(sum.Sum(nil))
	return s, nil
}

// parse reads one line.
func parse(line []byte) (Question, error) {
	var q struct{ ID, Question, Reference, Answer string }
	if err := json.Unmarshal(line, &q); err != nil {
		return Question{}, err
	}
	if q.Question == "" {
		return Question{}, errors.New(`the object has no "question"`)
	}
	one := Question{ID: q.ID, Text: q.Question, Reference: q.Reference}
	if q.Answer != "" {
		one.Grade = func(answer string) Verdict {
			if strings.Contains(answer, q.Answer) {
				return Right
			}
			return Wrong
		}
	}
	return one, nil
}
