package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// GSM8K (Cobbe et al., arXiv 2110.14168): 1,319 word problems of grade school mathematics, each with a worked solution
// that ends with "#### " and a number. Answers are graded by [numberGraders].

// gsm8kInstruction follows each problem.
const gsm8kInstruction = `Solve it step by step. Then end with "The answer is N.", where N is a number.`

const gsm8kFiles = "https://raw.githubusercontent.com/openai/grade-school-math/" +
	"3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/"

func gsm8k() *Benchmark {
	return &Benchmark{
		Name: GSM8K, About: "GSM8K, 1,319 problems of grade school mathematics", Examples: true,
		Source: "Cobbe et al., arXiv 2110.14168: the test split",
		File: File{
			URL: gsm8kFiles + "test.jsonl", Name: "gsm8k-test.jsonl", Size: 749_738,
			SHA256: "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
		},
		Training: File{
			URL: gsm8kFiles + "train.jsonl", Name: "gsm8k-train.jsonl", Size: 4_166_206,
			SHA256: "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465",
		},
		newSet: func(Runner) *Set { return newAnswerSet(GSM8K+"-1", gsm8kShots(), 640, parseGSM8K) },
	}
}

func gsm8kShots() []Question {
	return []Question{
		{Text: `Question: A box holds 6 eggs. Mia buys 4 boxes and drops 3 eggs on the way home. How many eggs are left?
` + gsm8kInstruction,
			Reference: `4 boxes of 6 eggs are 4 * 6 = 24 eggs. 24 - 3 = 21 of them are left. The answer is 21.`},
		{Text: `Question: A train leaves with 120 people. A quarter of them get off and 15 get on. ` +
			"How many are on it then?\n" + gsm8kInstruction,
			Reference: `A quarter of 120 is 30, so 120 - 30 = 90 stay. 15 more are 90 + 15 = 105. The answer is 105.`},
		{Text: `Question: Tom saves $2.50 a week. How many weeks does he need for a book of $20?
` + gsm8kInstruction,
			Reference: `He needs 20 / 2.50 = 8 weeks. The answer is 8.`},
		{Text: `Question: A field is 30 m long and half as wide. How long is the fence around it, in metres?
` + gsm8kInstruction,
			Reference: `It is 30 / 2 = 15 m wide. Around it are 2 * 30 + 2 * 15 = 90 m. The answer is 90.`},
	}
}

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
	grade, gradeCut, err := numberGraders(key)
	if err != nil {
		return Question{}, err
	}
	steps := strings.TrimSpace(calculator.ReplaceAllString(q.Answer[:at], ""))
	return Question{
		Text: fmt.Sprintf("Question: %s\n%s", q.Question, gsm8kInstruction), Key: key,
		Grade: grade, gradeCut: gradeCut,
		Reference: strings.TrimSpace(fmt.Sprintf("%s\nThe answer is %s.", steps, key)),
	}, nil
}
