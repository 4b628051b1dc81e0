package report

import (
	"encoding/json"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
)

// maxPage is the approximate maximum of bytes of answers on a page: phones do not open larger ones.
const maxPage = 16 << 20

// pageAnswers is the input of the page's script.
type pageAnswers struct {
	Runs      []string       `json:"runs"`
	Questions []pageQuestion `json:"questions"`
	Left      int            `json:"left"` // questions without room for their answers
}

// pageQuestion is a question with its answers, in the order of the runs. Equal answers are included once.
type pageQuestion struct {
	ID      string       `json:"id"`
	Text    string       `json:"text"`
	Key     string       `json:"key"`
	Answers []pageAnswer `json:"answers"`
	Of      []int        `json:"of"` // by run: index in Answers
}

// pageAnswer is an answer as spans of tokens with the same origin and audit.
type pageAnswer struct {
	Verdict string      `json:"verdict"`
	Stop    string      `json:"stop"`
	Tokens  int         `json:"tokens"`
	Cloud   int         `json:"cloud"`
	Spans   [][2]string `json:"spans"` // kind and text; e, c, E if missed, C if needless
}

// collectAnswers returns the answers for the page, for as many questions as fit.
func collectAnswers(set *task.Set, runs []eval.Run, log *eval.Log) (*pageAnswers, error) {
	all, size := &pageAnswers{Runs: eval.Names(runs), Questions: []pageQuestion{}}, 0
	for _, q := range set.Questions {
		one, err := collectQuestion(q, runs, log)
		if err != nil {
			return nil, err
		}
		if one == nil {
			continue
		}
		b, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		if size += len(b); size > maxPage {
			all.Left++
			continue
		}
		all.Questions = append(all.Questions, *one)
	}
	return all, nil
}

// collectQuestion returns a question for the page; nil if an answer is missing.
func collectQuestion(q task.Question, runs []eval.Run, log *eval.Log) (*pageQuestion, error) {
	one := &pageQuestion{ID: q.ID, Text: q.Text, Key: q.Key}
	first := map[string]int{} // by the content of the answer
	for _, r := range runs {
		a, ok := log.Answer(q.ID, r.Name())
		if !ok {
			return nil, nil
		}
		shown := newPageAnswer(&a)
		like, err := json.Marshal(shown)
		if err != nil {
			return nil, err
		}
		at, known := first[string(like)]
		if !known {
			at = len(one.Answers)
			first[string(like)] = at
			one.Answers = append(one.Answers, shown)
		}
		one.Of = append(one.Of, at)
	}
	return one, nil
}

// newPageAnswer joins consecutive tokens of one kind.
func newPageAnswer(a *eval.Answer) pageAnswer {
	p := pageAnswer{Verdict: a.Verdict, Stop: a.Stop, Tokens: len(a.Origins), Cloud: strings.Count(a.Origins, "c"),
		Spans: [][2]string{}}
	kinds := []byte(a.Origins)
	for _, i := range a.Missed {
		kinds[i] = 'E'
	}
	for _, i := range a.Needless {
		if kinds[i] == 'c' { // with verification the token is the small model's
			kinds[i] = 'C'
		}
	}
	for i, piece := range a.Pieces {
		kind := string(kinds[i])
		if n := len(p.Spans); n > 0 && p.Spans[n-1][0] == kind {
			p.Spans[n-1][1] += piece
		} else {
			p.Spans = append(p.Spans, [2]string{kind, piece})
		}
	}
	return p
}
