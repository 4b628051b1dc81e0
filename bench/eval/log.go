package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// logFormat is the version of the file. It changes when a field changes its meaning.
const logFormat = 3 // 2: answers had sizes of their questions

// Log has the answers of all runs, in memory and optionally in a file:
//
//	{"settings": {…}, "about": {…}}       the first line
//	{"question": "…", "run": "…", …}      one line for each answer, an [Answer], in the order of their being graded
//
// A line is written before the next answer of its question begins. A killed process leaves at most one incomplete line,
// which the next process removes.
type Log struct {
	Settings Settings
	About    About

	mu      sync.Mutex
	answers map[key]Answer
	asked   map[string]bool // ids of questions
	order   []string        // the same, as they first occur
	file    *os.File        // nil: in memory only
	path    string
	unlock  func()
}

// key identifies an answer.
type key struct{ question, run string }

// logHead is the first line.
type logHead struct {
	Settings *Settings `json:"settings"`
	About    About     `json:"about"`
}

// NewLog returns a log that is kept only in memory.
func NewLog(s Settings, a About) *Log {
	s.Format = logFormat
	return &Log{Settings: s, About: a, answers: map[key]Answer{}, asked: map[string]bool{}}
}

// OpenLog opens or creates the file of answers at path. It loads the existing answers. It refuses a file with other
// settings, and a file that another process has open.
func OpenLog(path string, s Settings, a About) (*Log, error) {
	l := NewLog(s, a)
	l.path = path
	var err error
	if l.unlock, err = files.Lock(path + ".lock"); err != nil {
		return nil, err
	}
	if l.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err == nil {
		err = l.resumeFile()
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close closes the file.
func (l *Log) Close() (err error) {
	if l.file != nil {
		err = l.file.Close()
	}
	if l.unlock != nil {
		l.unlock()
	}
	return err
}

// resumeFile reads the file up to its last complete line, and truncates it there.
func (l *Log) resumeFile() error {
	whole, lines, err := l.scanLines(bufio.NewReader(l.file), l.compareHead)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(whole); err != nil {
		return err
	}
	if _, err := l.file.Seek(whole, io.SeekStart); err != nil {
		return err
	}
	if lines > 0 {
		return nil
	}
	return l.writeLine(logHead{&l.Settings, l.About})
}

// scanLines reads the complete lines of a file and returns their length in bytes and their number.
func (l *Log) scanLines(r *bufio.Reader, readHead func(line []byte) error) (whole int64, line int, err error) {
	for {
		b, err := r.ReadBytes('\n')
		if err == io.EOF && (line > 0 || isPartialHead(b)) {
			return whole, line, nil
		}
		if err == io.EOF {
			return 0, 0, fmt.Errorf("%s: %w", l.path, errForeign)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", l.path, err)
		}
		line++
		if line == 1 {
			err = readHead(b)
		} else {
			err = l.loadAnswer(b)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("%s: line %d: %w", l.path, line, err)
		}
		whole += int64(len(b))
	}
}

var errForeign = errors.New("not a file of answers: use another name with -o")

// isPartialHead reports whether b may be an incomplete first line that a killed process left.
func isPartialHead(b []byte) bool {
	const first = `{"settings":{`
	n := min(len(b), len(first))
	return string(b[:n]) == first[:n]
}

func (l *Log) compareHead(b []byte) error {
	var h logHead
	if err := json.Unmarshal(b, &h); err != nil || h.Settings == nil {
		return errForeign
	}
	if d := errs.Differences(*h.Settings, l.Settings); d != "" {
		return fmt.Errorf("the answers there are of other settings: %s; "+
			"give another name with -o, or the settings of the file", d)
	}
	l.About = h.About
	return nil
}

func (l *Log) loadAnswer(b []byte) error {
	var a Answer
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return fmt.Errorf("invalid answer: %w", err)
	}
	if err := a.checkConsistency(l.Settings.Runs); err != nil {
		return err
	}
	k := key{a.Question, a.Run}
	if _, twice := l.answers[k]; twice {
		return fmt.Errorf("the answer to question %q of run %q is there twice", a.Question, a.Run)
	}
	l.storeAnswer(a)
	return nil
}

// storeAnswer adds an answer in memory.
func (l *Log) storeAnswer(a Answer) {
	if !l.asked[a.Question] {
		l.asked[a.Question] = true
		l.order = append(l.order, a.Question)
	}
	l.answers[key{a.Question, a.Run}] = a
}

// Answers returns the number of answers.
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

func (l *Log) appendAnswer(a Answer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		if err := l.writeLine(a); err != nil {
			return err
		}
	}
	l.storeAnswer(a)
	return nil
}

// writeLine appends a line in one system call: the next process finds it complete, even if this process is killed.
func (l *Log) writeLine(v any) error {
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
