package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxOptions is the maximum number of options of a question.
const maxOptions = 26

// multipleChoice is a question with options, as in a line of a file: flattened, with choices in two lists, or as
// CommonsenseQA is published, with an object for each choice inside the question.
type multipleChoice struct {
	id, stem, key string
	options       []option
}

func parseMultiple(line []byte) (multipleChoice, error) {
	var q struct {
		ID, AnswerKey, Answer string
		Question              json.RawMessage
		Choices               struct{ Label, Text []string }
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return multipleChoice{}, err
	}
	m := multipleChoice{id: q.ID, key: cmp.Or(q.Answer, q.AnswerKey)}
	if isObject(q.Question) {
		if err := m.parseNested(q.Question); err != nil {
			return m, err
		}
	} else {
		if len(q.Question) > 0 {
			if err := json.Unmarshal(q.Question, &m.stem); err != nil {
				return m, fmt.Errorf(`"question": %w`, err)
			}
		}
		if err := m.setOptions(q.Choices.Label, q.Choices.Text); err != nil {
			return m, err
		}
	}
	return m, m.checkGradable()
}

// parseNested parses the question in CommonsenseQA's own form.
func (m *multipleChoice) parseNested(b []byte) error {
	var q struct {
		Stem    string
		Choices []struct{ Label, Text string }
	}
	if err := json.Unmarshal(b, &q); err != nil {
		return fmt.Errorf(`"question": %w`, err)
	}
	m.stem = q.Stem
	for _, c := range q.Choices {
		m.options = append(m.options, option{c.Label, c.Text})
	}
	return nil
}

func (m *multipleChoice) setOptions(labels, texts []string) error {
	if len(labels) != len(texts) {
		return fmt.Errorf(`"choices" has %d labels, but %d texts`, len(labels), len(texts))
	}
	for i, label := range labels {
		m.options = append(m.options, option{label, texts[i]})
	}
	return nil
}

func (m *multipleChoice) checkGradable() error {
	if strings.TrimSpace(m.stem) == "" {
		return errors.New(`the object has no "question"`)
	}
	if len(m.options) < 2 || len(m.options) > maxOptions {
		return fmt.Errorf(`"choices" are %d: there must be 2 to %d`, len(m.options), maxOptions)
	}
	for i, o := range m.options {
		switch {
		case len(o.label) != 1 || !(o.label[0] >= 'A' && o.label[0] <= 'Z' || o.label[0] >= '1' && o.label[0] <= '9'):
			return fmt.Errorf(`the label %.20q of "choices" is not one of A to Z or 1 to 9`, o.label)
		case slices.ContainsFunc(m.options[:i], func(b option) bool { return b.label == o.label }):
			return fmt.Errorf(`the label %q of "choices" occurs twice`, o.label)
		case strings.TrimSpace(o.text) == "":
			return fmt.Errorf(`the choice %s has no text`, o.label)
		}
	}
	if !slices.ContainsFunc(m.options, func(o option) bool { return o.label == m.key }) {
		return fmt.Errorf(`the answer %.20q is none of the labels`, m.key)
	}
	return nil
}

func (m *multipleChoice) formatQuestion(instruction string) Question {
	var b strings.Builder
	fmt.Fprintf(&b, "Question: %s\n", m.stem)
	q := Question{ID: m.id, Guess: 1 / float64(len(m.options)), Grade: choiceGrader(m.options, m.key),
		gradeCut: choiceCutGrader(m.options, m.key)}
	for _, o := range m.options {
		fmt.Fprintf(&b, "%s. %s\n", o.label, o.text)
		if o.label == m.key {
			q.Key = o.label + ". " + o.text
		}
	}
	q.Text = b.String() + instruction
	q.Reference = "The answer is " + m.key + "."
	return q
}

func multipleChoiceParser(instruction string) func(line []byte) (Question, error) {
	return func(line []byte) (Question, error) {
		m, err := parseMultiple(line)
		if err != nil {
			return Question{}, err
		}
		return m.formatQuestion(instruction), nil
	}
}
