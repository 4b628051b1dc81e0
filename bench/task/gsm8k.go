package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// GSM8K (Cobbe et al., arXiv 2110.14168): 1,319 word problems of grade school mathematics, each with a worked solution
// that ends with "#### " and a number. Answers are graded by [number].

// gsm8kInstruction follows each problem.
const gsm8kInstruction = `Solve it step by step. Then end with "The answer is N.", where N is a number.`

// calculator matches the calculator annotations of the published solutions: 16-3 = <<16-3=13>>13.
var calculator = regexp.MustCompile(`<<[^<>]*>>`)

func parseGSM8K(line []byte) (Question, error) {
	var q struct{ Question, Answer string }
	if err := json.Unmarshal(line, &q); err != nil {
		return Question{}, err
	}
	if strings.TrimSpace(q.Question) == "" {
		return Question{}, errors.New(`the object has no "question"`)
	}
	at := strings.LastIndex(q.Answer, "####")
	if at < 0 {
		return Question{}, errors.New(`the "answer" has no line that begins with ####`)
	}
	key := strings.TrimSpace(q.Answer[at+len("####"):])
	grade, err := number(key)
	if err != nil {
		return Question{}, err
	}
	steps := strings.TrimSpace(calculator.ReplaceAllString(q.Answer[:at], ""))
	return Question{
		Text: fmt.Sprintf("Question: %s\n%s", q.Question, gsm8kInstruction), Key: key, Grade: grade,
		Reference: strings.TrimSpace(fmt.Sprintf("%s\nThe answer is %s.", steps, key)),
	}, nil
}
