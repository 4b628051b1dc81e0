package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// HumanEval (Chen et al., arXiv 2107.03374): 164 functions in Python, each with a header, a description and tests. An
// answer is right if its program passes the tests: the accuracy is pass@1. Programs are extracted by
// [problem.extractProgram].

// humanEvalInstruction precedes the header in a chat. A raw prompt is only the header.
const humanEvalInstruction = "Complete this Python function. Answer with one code block that has the whole function, " +
	"and the imports that it needs.\n\n"

func humanEval() *Benchmark {
	return &Benchmark{
		Name: HumanEval, About: "HumanEval, 164 functions in Python", Programs: true,
		Source: "Chen et al., arXiv 2107.03374",
		File: File{
			URL: "https://raw.githubusercontent.com/openai/human-eval/" +
				"6d43fb980f9fee3c892a914eda09951f772ad10d/data/HumanEval.jsonl.gz",
			Name: "HumanEval.jsonl.gz", Size: 44_877,
			SHA256: "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
		},
		newSet: func(run Runner) *Set {
			return &Set{Prompts: HumanEval + "-1", Tokens: 640,
				parse: func(line []byte) (Question, error) { return parseHumanEval(line, run) }}
		},
	}
}

func parseHumanEval(line []byte, run Runner) (Question, error) {
	var q struct {
		ID       string `json:"task_id"`
		Prompt   string
		Entry    string `json:"entry_point"`
		Solution string `json:"canonical_solution"`
		Test     string
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return Question{}, err
	}
	at := strings.LastIndex("\n"+q.Prompt, "\ndef "+q.Entry+"(")
	switch {
	case strings.TrimSpace(q.ID) == "":
		return Question{}, errors.New(`the object has no "task_id"`)
	case q.Entry == "" || at < 0:
		return Question{}, fmt.Errorf(`the "prompt" does not define the "entry_point" %.40q`, q.Entry)
	case !strings.Contains(q.Test, "def check("):
		return Question{}, errors.New(`the "test" does not define check`)
	}
	p := problem{
		entry: q.Entry, before: q.Prompt[:at], header: q.Prompt[at:],
		tests: fmt.Sprintf("%s\ncheck(%s)\n", q.Test, q.Entry),
	}
	one := Question{
		ID: q.ID, Text: humanEvalInstruction + fencedBlock(q.Prompt), Raw: q.Prompt,
		Reference: fencedBlock(q.Prompt + q.Solution), RawReference: q.Solution, Key: q.Solution,
	}
	p.setGraders(&one, run)
	return one, nil
}

func fencedBlock(program string) string { return "```python\n" + strings.Trim(program, "\n") + "\n```" }
