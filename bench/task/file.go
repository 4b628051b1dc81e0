package task

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine is the maximum length of a line of a file, in bytes.
const maxLine = 1 << 20

// Read reads the questions of a file; name is the name of the file in errors. It has one JSON object per line:
//
//	{"question": "…", "id": "…", "reference": "…", "answer": "…", "grader": "contains",
//	 "choices": {"label": ["A", "B"], "text": ["…", "…"]}}
//
// Only the question is required. Without an id the number of the line, from 1, is its id. The grader determines when an
// answer of the model is right:
//
//	contains  it contains the "answer"; this is the default
//	exact     it equals the "answer", except for case and spaces
//	pattern   it contains a match of the "answer", a regular expression, whatever the case of letters
//	number    its final number is the "answer"
//	choice    it chooses the option with the label "answer" or "answerKey"; this is the default with choices
//
// Without an answer, the question is not graded. Questions with choices may also have the form of CommonsenseQA.
func Read(r io.Reader, name string) (*Set, error) {
	s := newFileSet(name)
	return s, s.readQuestions(r, name, 0)
}

func newFileSet(name string) *Set {
	return &Set{Name: name, Prompts: "file-1", Tokens: 256, parse: parseQuestion}
}

// readQuestions reads questions line by line, up to most of them; 0 means all. The hash is that of the whole file.
func (s *Set) readQuestions(r io.Reader, name string, most int) error {
	sum, seen := sha256.New(), map[string]int{}
	r = io.TeeReader(r, sum)
	text, err := decompressedReader(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLine)
	line, others := 0, 0
	for (most == 0 || len(s.Questions) < most) && lines.Scan() {
		line++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		q, err := s.parse(lines.Bytes())
		if err == nil && s.has != nil && !s.has(line) {
			err = errOtherPart
		}
		if errors.Is(err, errOtherPart) {
			others++
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", name, line, err)
		}
		if q.ID == "" {
			q.ID = fmt.Sprint(line)
		}
		if before, twice := seen[q.ID]; twice {
			return fmt.Errorf("%s: line %d: its id %q is that of line %d", name, line, q.ID, before)
		}
		seen[q.ID] = line
		s.Questions = append(s.Questions, q)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s: line %d is longer than 1 MB", name, line+1)
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case len(s.Questions) == 0 && others > 0:
		return fmt.Errorf("%s: the file has no questions of %s, which are chosen by task_id", name, s.Name)
	case len(s.Questions) == 0:
		return fmt.Errorf("%s: the file has no questions", name)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.Hash = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// decompressedReader returns a reader of a text that may be compressed with gzip.
func decompressedReader(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if begin, err := b.Peek(2); err != nil || string(begin) != "\x1f\x8b" {
		return b, nil
	}
	return gzip.NewReader(b)
}

func parseQuestion(line []byte) (Question, error) {
	var q struct {
		ID, Reference, Answer, Grader string
		Question, Choices             json.RawMessage
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return Question{}, err
	}
	if isObject(q.Question) || isObject(q.Choices) {
		if q.Grader != "" && q.Grader != "choice" {
			return Question{}, fmt.Errorf(`the "grader" %.20q is not for "choices": leave it out, or make it choice`,
				q.Grader)
		}
		m, err := parseMultiple(line)
		if err != nil {
			return Question{}, err
		}
		one := m.formatQuestion(csqaInstruction)
		one.Reference = cmp.Or(q.Reference, one.Reference)
		return one, nil
	}
	one := Question{ID: q.ID, Reference: q.Reference, Key: q.Answer}
	if len(q.Question) > 0 {
		if err := json.Unmarshal(q.Question, &one.Text); err != nil {
			return one, fmt.Errorf(`"question": %w`, err)
		}
	}
	if one.Text == "" {
		return one, errors.New(`the object has no "question"`)
	}
	return one, one.setGrader(q.Grader)
}

func isObject(field json.RawMessage) bool { return len(field) > 0 && field[0] == '{' }

func (q *Question) setGrader(name string) (err error) {
	if q.Key == "" {
		if name != "" {
			return fmt.Errorf(`the "grader" %.20q has no "answer" to compare with`, name)
		}
		return nil
	}
	switch name {
	case "", "contains":
		q.Grade = containsGrader(q.Key)
		q.gradeCut = containsCutGrader(q.Key)
	case "exact":
		q.Grade = exactGrader(q.Key)
	case "pattern":
		q.Grade, q.gradeCut, err = patternGraders(q.Key)
	case "number":
		q.Grade, q.gradeCut, err = numberGraders(q.Key)
	case "choice":
		err = errors.New(`the "grader" choice needs "choices"`)
	default:
		err = fmt.Errorf(`the "grader" %.20q is not known: use choice, number, exact, pattern or contains`, name)
	}
	return err
}
