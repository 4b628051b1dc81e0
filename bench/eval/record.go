package eval

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// ReadLog reads a file of answers, compressed with gzip or not. A file of another format, and answers that contradict
// themselves or each other, are errors.
func ReadLog(path string) (*Log, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if begin, _ := r.Peek(2); string(begin) == "\x1f\x8b" {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r = bufio.NewReader(z)
	}
	l := NewLog(Settings{}, About{})
	l.path = path
	if _, lines, err := l.scanLines(r, l.adoptHead); err != nil || lines > 0 {
		return l, err
	}
	return nil, fmt.Errorf("%s: the file is empty", path)
}

func (l *Log) adoptHead(b []byte) error {
	var h logHead
	if err := json.Unmarshal(b, &h); err != nil || h.Settings == nil {
		return errForeign
	}
	if h.Settings.Format != logFormat {
		return fmt.Errorf("the answers are of format %d: this program reads %d", h.Settings.Format, logFormat)
	}
	l.Settings, l.About = *h.Settings, h.About
	return nil
}

// Write writes the answers to all questions that are answered in all runs, question by question and without what can be
// derived from the rest.
func (l *Log) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(logHead{&l.Settings, l.About}); err != nil {
		return err
	}
	for _, id := range l.completeQuestions() {
		for _, run := range l.Settings.Runs {
			a := l.answers[key{id, run}]
			a.Tokens = nil
			if err := e.Encode(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// completeQuestions returns the questions that are answered in all runs, in the order of the file.
func (l *Log) completeQuestions() (all []string) {
	for _, id := range l.order {
		missing := false
		for _, run := range l.Settings.Runs {
			_, there := l.answers[key{id, run}]
			missing = missing || !there
		}
		if !missing {
			all = append(all, id)
		}
	}
	return all
}

// Set returns the questions of the log by their ids alone. Texts and graders are in the file of the questions.
func (l *Log) Set() *task.Set {
	s := &task.Set{Name: l.Settings.Task, Split: l.Settings.Split, Hash: l.Settings.Data, Prompts: l.Settings.Prompts}
	for _, id := range l.order {
		s.Questions = append(s.Questions, task.Question{ID: id})
	}
	return s
}

// Runs returns the runs of the log.
func (l *Log) Runs() (all []Run, err error) {
	for _, name := range l.Settings.Runs {
		r, err := ParseRun(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.path, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// Join returns one log with the runs of all logs, of which the first has precedence. They have to agree in everything
// that answers depend on, except for runs and their routers.
func Join(logs []*Log) (*Log, error) {
	one := NewLog(logs[0].Settings, logs[0].About)
	one.path, one.Settings.Runs = logs[0].path, nil
	for _, l := range logs {
		like, before := l.Settings, one.Settings.Runs
		like.Runs, like.Router, like.VerifyEvery = before, one.Settings.Router, one.Settings.VerifyEvery
		if d := errs.Differences(one.Settings, like); d != "" {
			return nil, fmt.Errorf("%s and %s are of different settings: %s", one.path, l.path, d)
		}
		for _, run := range l.Settings.Runs {
			if slices.Contains(before, run) {
				continue
			}
			one.Settings.Runs = append(one.Settings.Runs, run)
			for _, id := range l.order {
				if a, ok := l.answers[key{id, run}]; ok {
					one.storeAnswer(a)
				}
			}
		}
	}
	return one, nil
}
