package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Mostly Basic Python Problems (Austin et al., arXiv 2108.07732): 974 problems in a file, each with a description, a
// program and three tests. An answer is right if its program passes the three: the accuracy is pass@1. Programs are
// extracted by [problem.extractProgram]. The parts of the file are those of the paper, by the number of the problem.

// numberRange is a range of numbers of problems.
type numberRange struct{ first, last int }

func (p numberRange) includes(number int) bool { return p.first <= number && number <= p.last }

// The parts of the file: worked examples, tests, and training data for routers.
var (
	mbppShots = numberRange{1, 10}
	mbppTest  = numberRange{11, 510}
	mbppTrain = numberRange{601, 974}
	mbppAll   = numberRange{1, 974}
)

func mbpp() *Benchmark {
	return newMBPP(MBPP, "MBPP, 500 programs in Python", "the test split", mbppTest)
}

func mbppTraining() *Benchmark {
	return newMBPP(MBPPTrain, "MBPP, the other 374 programs", "for training, of the same file", mbppTrain)
}

func newMBPP(name, about, part string, which numberRange) *Benchmark {
	return &Benchmark{
		Name: name, About: about, Programs: true, Examples: true,
		Source: "Austin et al., arXiv 2108.07732: " + part,
		File: File{
			URL: "https://raw.githubusercontent.com/google-research/google-research/" +
				"f82046ba5aabbbb427dbfd38a254d26bff08b533/mbpp/mbpp.jsonl",
			Name: "mbpp.jsonl", Size: 563_743,
			SHA256: "ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f",
		},
		newSet: func(run Runner) *Set {
			s := &Set{Prompts: MBPP + "-1", Tokens: 512}
			s.parse = mbppParser(s, which, run)
			return s
		},
	}
}

// mbppParser returns a parser that takes the first problems of the file as worked examples.
func mbppParser(s *Set, which numberRange, run Runner) func(line []byte) (Question, error) {
	return func(line []byte) (Question, error) {
		number, q, err := parseMBPP(line, run)
		if err == nil && mbppShots.includes(number) {
			s.Shots = append(s.Shots, q)
		}
		if err == nil && !which.includes(number) {
			err = errOtherPart
		}
		return q, err
	}
}

func parseMBPP(line []byte, run Runner) (number int, q Question, err error) {
	var m struct {
		ID    *int `json:"task_id"`
		Text  string
		Code  string
		Setup string   `json:"test_setup_code"`
		Tests []string `json:"test_list"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return 0, q, err
	}
	switch {
	case m.ID == nil:
		return 0, q, errors.New(`the object has no "task_id"`)
	case strings.TrimSpace(m.Text) == "":
		return 0, q, errors.New(`the object has no "text"`)
	case len(m.Tests) == 0:
		return 0, q, errors.New(`the "test_list" is empty`)
	}
	code := strings.TrimRight(strings.ReplaceAll(m.Code, "\r\n", "\n"), " \n")
	tests := strings.Join(m.Tests, "\n")
	p := problem{entry: calledFunction(code, tests), tests: m.Setup + "\n" + tests + "\n"}
	q = Question{
		ID: fmt.Sprintf("MBPP/%d", *m.ID), Key: code, Reference: fencedBlock(code), RawReference: code + "\n",
		Text: fmt.Sprintf("%s\nYour code has to pass these tests:\n\n%s\n\nAnswer with one code block.", m.Text,
			fencedBlock(tests)),
		Raw: fmt.Sprintf("\"\"\"\n%s\n%s\n\"\"\"\n", m.Text, tests),
	}
	p.setGraders(&q, run)
	return *m.ID, q, nil
}

// defined matches the definitions of functions in a program.
var defined = regexp.MustCompile(`(?m)^def[ \t]+(\w+)`)

// calledFunction returns the function of a program that tests call; "" for none.
func calledFunction(code, tests string) (last string) {
	for _, m := range defined.FindAllStringSubmatch(code, -1) {
		if regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(tests) {
			last = m[1]
		}
	}
	return last
}
