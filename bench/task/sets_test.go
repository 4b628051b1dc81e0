package task

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Two formats of CommonsenseQA, for one question with two equal options.
const (
	nested = `{"answerKey":"C","id":"q1","question":{"question_concept":"x","stem":"Where do you shop?","choices":[` +
		`{"label":"A","text":"bank"},{"label":"B","text":"mall"},{"label":"C","text":"Mall"}]}}`
	flat = `{"answerKey":"C","id":"q1","question":"Where do you shop?",` +
		`"choices":{"label":["A","B","C"],"text":["bank","mall","Mall"]}}`
)

// written returns a file with these lines.
func written(t *testing.T, lines ...string) string {
	path := filepath.Join(held.TempDir(t), "q.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return path
}

// TestMultipleForms: both formats of CommonsenseQA give the same question, as a task and as a file.
func TestMultipleForms(t *testing.T) {
	for _, form := range []string{nested, flat} {
		path := written(t, form)
		for _, name := range []string{CSQA, ARC, path} {
			s := mustOpen(t, name, Options{Data: path})
			q := s.Questions[0]
			assert.Equal(t, "q1", q.ID)
			assert.True(t, strings.HasPrefix(q.Text, "Question: Where do you shop?\nA. bank\nB. mall\nC. Mall\nThink"),
				q.Text)
			assert.True(t, strings.HasSuffix(q.Text, "of your choice."), q.Text)
			assert.Equal(t, "C. Mall", q.Key)
			assert.InDelta(t, 1./3, q.Guess, 1e-12)
			assert.Equal(t, Right, q.Grade(q.Reference))
			assert.Equal(t, Right, q.Grade("the mall"))
			assert.Equal(t, Wrong, q.Grade("B"))
			assert.Equal(t, Silent, q.Grade("no idea"))
		}
	}
	s, err := Read(strings.NewReader(strings.Replace(flat, `"answerKey":"C"`,
		`"answerKey":"C","answer":"A","grader":"choice","reference":"Bank."`, 1)), "F")
	require.NoError(t, err)
	assert.Equal(t, "A. bank", s.Questions[0].Key)
	assert.Equal(t, "Bank.", s.Questions[0].Reference)
}

// TestLabels: labels are capital letters, or digits from 1 on.
func TestLabels(t *testing.T) {
	for label, good := range map[string]bool{"Z": true, "1": true, "9": true, "0": false, ":": false, "@": false,
		"[": false} {
		m := multipleChoice{stem: "q", key: "A", options: []option{{"A", "x"}, {label, "y"}}}
		assert.Equal(t, good, m.checkGradable() == nil, label)
	}
	m := multipleChoice{stem: "q", key: "A"}
	for label := 'A'; label <= 'Z'; label++ {
		m.options = append(m.options, option{string(label), "x"})
	}
	assert.NoError(t, m.checkGradable())
	m.options = append(m.options, option{"1", "x"})
	assert.ErrorContains(t, m.checkGradable(), "there must be 2 to 26")
}

// TestForms: a set has its name, the version of its prompts, and room for its answers.
func TestForms(t *testing.T) {
	tokens := map[string]int{Demo: 64, DemoTrain: 64, CSQA: 128, ARC: 320, GSM8K: 640, HumanEval: 640, MBPP: 512,
		MBPPTrain: 512}
	all := map[string]*Set{}
	for name := range tokens {
		all[name] = newBenchmarkSet(name, nil)
	}
	for _, name := range []string{Demo, DemoTrain} {
		s := mustOpen(t, name, Options{Most: 1})
		all[name] = s
	}
	assert.Nil(t, newBenchmarkSet("a file", nil))
	for name, s := range all {
		assert.Equal(t, name, s.Name)
		assert.Equal(t, strings.TrimSuffix(name, "-train")+"-1", s.Prompts)
		assert.Equal(t, tokens[name], s.Tokens, name)
	}
}

// TestBreaksOff: an error in the part of a file that is not needed is an error, because its hash is unknown.
func TestBreaksOff(t *testing.T) {
	broken := errors.New("broken")
	file := io.MultiReader(strings.NewReader(`{"question":"a"}`+"\n"), iotest.ErrReader(broken))
	assert.ErrorIs(t, newFileSet("F").readQuestions(file, "F", 1), broken)
}

// TestFileGraders: a line names its grader.
func TestFileGraders(t *testing.T) {
	for line, want := range map[string]struct{ sentence, number Verdict }{
		`{"question":"q","answer":"1000"}`:                             {Wrong, Right},
		`{"question":"q","answer":"1000","grader":"contains"}`:         {Wrong, Right},
		`{"question":"q","answer":"1000","grader":"number"}`:           {Right, Right},
		`{"question":"q","answer":"1000","grader":"exact"}`:            {Wrong, Right},
		`{"question":"q","answer":"IS 1,0+$","grader":"pattern"}`:      {Right, Wrong},
		`{"question":"q","answer":" so IT is 1,000","grader":"exact"}`: {Right, Wrong},
	} {
		t.Run(line, func(t *testing.T) {
			s, err := Read(strings.NewReader(line), "F")
			require.NoError(t, err)
			q := s.Questions[0]
			assert.Equal(t, want.sentence, q.Grade("So  it is 1,000"))
			assert.Equal(t, want.number, q.Grade("1000."))
			assert.Equal(t, Silent, q.Grade(" \n"))
			assert.Equal(t, q.Text, s.Raw(q), "unchanged")
			assert.Equal(t, "a\nQuestion: b", s.Cut("a\nQuestion: b"))
		})
	}
}

// TestLinesRefused: each error names the line and the field.
func TestLinesRefused(t *testing.T) {
	choices := func(c string) string { return `{"question":"q","answerKey":"A","choices":` + c + `}` }
	for line, want := range map[string]string{
		`{"question":"q","answer":"x","grader":"number"}`:          `F: line 1: the answer "x" is not a number`,
		`{"question":"q","answer":"x","grader":"best"}`:            `the "grader" "best" is not known: use choice`,
		`{"question":"q","answer":"(","grader":"pattern"}`:         `F: line 1: the "answer" is no pattern: `,
		`{"question":"q","answer":"x","grader":"choice"}`:          `the "grader" choice needs "choices"`,
		`{"question":"q","grader":"exact"}`:                        `the "grader" "exact" has no "answer"`,
		`{"question":5}`:                                           `"question": `,
		`{"question":{"stem":"q","choices":5}}`:                    `"question": `,
		strings.Replace(flat, `"Where do you shop?"`, "5", 1):      `"question": json: `,
		choices(`{"label":["A"],"text":["x","y"]}`):                `"choices" has 1 labels, but 2 texts`,
		choices(`{"label":["A"],"text":["x"]}`):                    `"choices" are 1: there must be 2 to 26`,
		choices(`{"label":["A","AB"],"text":["x","y"]}`):           `the label "AB" of "choices" is not one of A to Z`,
		choices(`{"label":["A","a"],"text":["x","y"]}`):            `the label "a" of "choices"`,
		choices(`{"label":["A","0"],"text":["x","y"]}`):            `the label "0" of "choices"`,
		choices(`{"label":["A","A"],"text":["x","y"]}`):            `the label "A" of "choices" occurs twice`,
		choices(`{"label":["A","B"],"text":["x"," "]}`):            `the choice B has no text`,
		choices(`{"label":["B","C"],"text":["x","y"]}`):            `the answer "A" is none of the labels`,
		strings.Replace(flat, "Where do you shop?", " ", 1):        `the object has no "question"`,
		strings.Replace(flat, `"id"`, `"grader":"number","id"`, 1): `the "grader" "number" is not for "choices"`,
	} {
		_, err := Read(strings.NewReader(line), "F")
		if assert.ErrorContains(t, err, want, line) {
			assert.ErrorContains(t, err, "F: line 1: ")
		}
	}
	for line, want := range map[string]string{
		`{"question":" ","answer":"#### 1"}`: `no "question"`, `{"question":"q","answer":"1"}`: "begins with ####",
		`{"question":"q","answer":"#### one"}`: `the answer "one" is not a number`, "[]": "line 1: json: ",
	} {
		_, err := Open(GSM8K, Options{Data: written(t, line)})
		assert.ErrorContains(t, err, want, line)
	}
}

// TestShots: worked examples precede a question, are right by the rules of grading, and have the format of the
// questions. Without a chat template a question is a text to continue, which ends where the next question begins.
func TestShots(t *testing.T) {
	for name, line := range map[string]string{CSQA: nested, ARC: flat,
		GSM8K: `{"question":"How many?","answer":"It is <<3=3>>3.\n#### 3"}`} {
		path := written(t, line)
		none := mustOpen(t, name, Options{Data: path})
		q := none.Questions[0]
		assert.Empty(t, none.Shots)
		assert.Equal(t, q.Text+"\nAnswer:", none.Raw(q))
		assert.Equal(t, " B", none.Cut(" B\nQuestion: what"))
		assert.Equal(t, " B", none.Follow("B"))
		all := mustOpen(t, name, Options{Data: path, Shots: 4})
		require.Len(t, all.Shots, 4)
		assert.Equal(t, none.Prompts, all.Prompts)
		var chat []tokenizer.Message
		raw, instruction := "", q.Text[strings.LastIndex(q.Text, "\n")+1:]
		for _, s := range all.Shots {
			chat = append(chat, tokenizer.Message{Role: "user", Content: s.Text},
				tokenizer.Message{Role: "assistant", Content: s.Reference})
			raw += s.Text + "\nAnswer: " + s.Reference + "\n\n"
			assert.True(t, strings.HasPrefix(s.Text, "Question: "))
			assert.True(t, strings.HasSuffix(s.Text, "\n"+instruction))
			assert.Regexp(t, `The answer is ([A-E]|\d+)\.$`, s.Reference)
		}
		assert.Equal(t, append(chat, tokenizer.Message{Role: "user", Content: "q"}), all.Chat("q"))
		assert.Equal(t, raw+q.Text+"\nAnswer:", all.Raw(q))
		for _, n := range []int{-1, 5} {
			_, err := Open(name, Options{Data: path, Shots: n})
			assert.ErrorContains(t, err, "has 4 worked examples, not ")
		}
		_, err := Open(name, Options{})
		assert.ErrorContains(t, err, "no file of questions for "+name)
		if name == GSM8K {
			assert.Equal(t, "1", q.ID)
			assert.Equal(t, "3", q.Key)
			assert.Equal(t, "It is 3.\nThe answer is 3.", q.Reference)
			assert.Equal(t, Right, q.Grade(q.Reference))
		}
	}
	s := mustOpen(t, written(t, flat), Options{})
	assert.Equal(t, "2", s.Follow("2"), "a text is continued unchanged")
	for _, name := range []string{Demo, DemoTrain, written(t, flat)} {
		_, err := Open(name, Options{Shots: 1})
		assert.ErrorContains(t, err, "has 0 worked examples, not 1")
	}
}

// TestPublishedSets: the published files are read completely and have the known properties.
func TestPublishedSets(t *testing.T) {
	for name, c := range map[string]struct {
		file      string
		questions int
		guess     float64
	}{
		CSQA:  {"csqa/dev_rand_split.jsonl", 1221, 1221. / 5},
		ARC:   {"arc_challenge/test.jsonl", 1172, 1165./4 + 4./3 + 3./5},
		GSM8K: {"gsm8k/test.jsonl", 1319, 0},
	} {
		s := mustOpen(t, name, Options{Data: sharedtest.Shared(t, "data", c.file)})
		assert.Len(t, s.Questions, c.questions)
		guess := 0.0
		for _, q := range s.Questions {
			guess += q.Guess
			require.Equal(t, Right, q.Grade(q.Reference), q.ID)
			require.Equal(t, Silent, q.Grade("no"), q.ID)
		}
		assert.InDelta(t, c.guess, guess, 1e-9)
	}
}

// FuzzRead: reading any file does not panic, and its questions can be asked and graded.
func FuzzRead(f *testing.F) {
	for _, s := range []string{nested, flat, `{"question":"q","answer":"1","grader":"number"}`, "{}", "", "[", "\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, form := range []*Set{{parse: parseQuestion}, newBenchmarkSet(CSQA, nil), newBenchmarkSet(GSM8K, nil)} {
			if form.readQuestions(bytes.NewReader(b), "F", 0) != nil {
				continue
			}
			for _, q := range form.Questions {
				assert.NotEmpty(t, q.Text)
				assert.NotEmpty(t, q.ID)
				if q.Grade != nil {
					q.Grade(string(b))
				}
				if q.gradeCut != nil {
					q.gradeCut(string(b))
				}
				if q.Guess > 0 {
					assert.Equal(t, Right, q.Grade("The answer is "+q.Key[:1]+"."))
				}
			}
		}
	})
}
