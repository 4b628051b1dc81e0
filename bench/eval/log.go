package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/pilotfish-ai/pilotfish/internal/filelock"
)

// logFormat is the version of the file. It changes when a field changes its meaning.
const logFormat = 2 // 1: runs with a budget did not say what they spent

// Log has the answers of all runs, in memory and, if it was opened from one, in a file:
//
//	{"settings": {…}, "about": {…}}       the first line
//	{"question": "…", "run": "…", …}      one line for each answer, an [Answer], in the order of their being graded
//
// A line is written before the next answer of its question begins. A process that is killed leaves at most a part of a
// line behind, which the next one drops.
type Log struct {
	Settings Settings
	About    About

	mu      sync.Mutex
	answers map[key]Answer
	file    *os.File // nil: in memory alone
	path    string
	unlock  func()
}

// key names an answer.
type key struct{ question, run string }

// logHead is the first line.
type logHead struct {
	Settings *Settings `json:"settings"`
	About    About     `json:"about"`
}

// NewLog returns a log that is kept in memory alone.
func NewLog(s Settings, a About) *Log {
	s.Format = logFormat
	return &Log{Settings: s, About: a, answers: map[key]Answer{}}
}

// OpenLog opens the file of answers at path, or begins it. It takes up the answers that are there. A file with other
// settings is refused, and so is one that another process writes.
func OpenLog(path string, s Settings, a About) (*Log, error) {
	l := NewLog(s, a)
	l.path = path
	var err error
	if l.unlock, err = filelock.Lock(path + ".lock"); err != nil {
		return nil, err
	}
	if l.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err == nil {
		err = l.takeUp()
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close ends the use of the file.
func (l *Log) Close() (err error) {
	if l.file != nil {
		err = l.file.Close()
	}
	if l.unlock != nil {
		l.unlock()
	}
	return err
}

// takeUp reads the file up to its last whole line, and cuts off what follows.
func (l *Log) takeUp() error {
	r, whole, line := bufio.NewReader(l.file), int64(0), 0
	for {
		b, err := r.ReadBytes('\n')
		if err == io.EOF && (line > 0 || isBegun(b)) {
			break
		}
		if err == io.EOF {
			return fmt.Errorf("%s: %w", l.path, errForeign)
		}
		if err != nil {
			return err
		}
		line++
		if line == 1 {
			err = l.takeHead(b)
		} else {
			err = l.takeAnswer(b)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", l.path, line, err)
		}
		whole += int64(len(b))
	}
	if err := l.file.Truncate(whole); err != nil {
		return err
	}
	if _, err := l.file.Seek(whole, io.SeekStart); err != nil {
		return err
	}
	if line > 0 {
		return nil
	}
	return l.write(logHead{&l.Settings, l.About})
}

var errForeign = errors.New("this is no file of answers: give another name with -o")

// isBegun reports whether b may be the part of a first line that a killed process left.
func isBegun(b []byte) bool {
	const first = `{"settings":{`
	n := min(len(b), len(first))
	return string(b[:n]) == first[:n]
}

// takeHead compares the settings with those of the file.
func (l *Log) takeHead(b []byte) error {
	var h logHead
	if err := json.Unmarshal(b, &h); err != nil || h.Settings == nil {
		return errForeign
	}
	if d := h.Settings.differences(l.Settings); d != "" {
		return fmt.Errorf("the answers there are of other settings: %s; "+
			"give another name with -o, or the settings of the file", d)
	}
	l.About = h.About
	return nil
}

// takeAnswer takes an answer from the file.
func (l *Log) takeAnswer(b []byte) error {
	var a Answer
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return fmt.Errorf("this is no answer: %w", err)
	}
	if err := a.validate(l.Settings.Runs); err != nil {
		return err
	}
	k := key{a.Question, a.Run}
	if _, twice := l.answers[k]; twice {
		return fmt.Errorf("the answer to question %q of run %q stands there twice", a.Question, a.Run)
	}
	l.answers[k] = a
	return nil
}

// validate refuses what no run writes.
func (a *Answer) validate(runs []string) error {
	within := func(list []int) bool {
		return !slices.ContainsFunc(list, func(i int) bool { return i < 0 || i >= len(a.Tokens) })
	}
	switch {
	case a.Question == "" || !slices.Contains(runs, a.Run):
		return fmt.Errorf("there is no run %q", a.Run)
	case len(a.Pieces) != len(a.Tokens) || len(a.Origins) != len(a.Tokens):
		return fmt.Errorf("%d tokens have %d pieces and %d origins", len(a.Tokens), len(a.Pieces), len(a.Origins))
	case !slices.Contains([]string{"", "right", "wrong", "silent"}, a.Verdict):
		return fmt.Errorf("there is no verdict %q", a.Verdict)
	case !within(a.Missed) || !within(a.Needless):
		return errors.New("a position lies outside of the answer")
	}
	return nil
}

// has reports whether there is an answer.
func (l *Log) has(question, run string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.answers[key{question, run}]
	return ok
}

// Answers is how many answers there are.
func (l *Log) Answers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.answers)
}

// Answer returns an answer.
func (l *Log) Answer(question, run string) (Answer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.answers[key{question, run}]
	return a, ok
}

// add keeps an answer.
func (l *Log) add(a Answer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		if err := l.write(a); err != nil {
			return err
		}
	}
	l.answers[key{a.Question, a.Run}] = a
	return nil
}

// write appends a line in one call of the system: the next process sees it whole, also if this one is killed.
func (l *Log) write(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	if _, err := l.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("keep an answer: %w", err)
	}
	return nil
}
