package task

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

//go:embed splits.txt
var splitTable string

// Split is a part of a benchmark's questions: lines of its published file. The parts of a file do not overlap.
type Split struct {
	Task string
	Name string // training, calibration, development or test
	File string // SHA-256 of the published file, in hexadecimal

	lines []numberRange // ascending
}

// ErrNotPublished means that a file is not the one of a split.
var ErrNotPublished = errors.New("not the published file")

// FindSplit returns a split of a task. The error lists those that there are.
func FindSplit(task, name string) (*Split, error) {
	all, err := parseSplits(splitTable)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range all {
		if s.Task == task && s.Name == name {
			return &s, nil
		}
		if s.Task == task {
			names = append(names, s.Name)
		}
	}
	if names == nil {
		return nil, fmt.Errorf("%s has no splits", task)
	}
	return nil, fmt.Errorf("%s has no split %s: it has %s", task, name, strings.Join(names, ", "))
}

// Hash identifies the questions: the file and its lines.
func (s *Split) Hash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v", s.File, s.lines))
	return hex.EncodeToString(sum[:])
}

// includesLine reports whether a line of the file, from 1, belongs to the split.
func (s *Split) includesLine(line int) bool {
	return slices.ContainsFunc(s.lines, func(p numberRange) bool { return p.includes(line) })
}

// checkPublished reads a file to its end and returns [ErrNotPublished] if it is another one.
func (s *Split) checkPublished(file io.Reader) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != s.File {
		return fmt.Errorf("%w of %s %s, whose SHA-256 begins with %.12s", ErrNotPublished, s.Task, s.Name, s.File)
	}
	return nil
}

// parseSplits parses the table: a split in a line, with its task, name, ranges of lines, number of lines of the file,
// and SHA-256 of the file. A range outside of the file, or lines in two splits, are errors.
func parseSplits(table string) (all []Split, err error) {
	for text := range strings.Lines(table) {
		if text = strings.TrimSpace(text); text == "" || text[0] == '#' {
			continue
		}
		s, err := parseSplit(text)
		if err != nil {
			return nil, fmt.Errorf("splits.txt: %q: %w", text, err)
		}
		for _, before := range all {
			if at := before.commonLine(&s); at > 0 {
				return nil, fmt.Errorf("splits.txt: line %d of a file is in %s %s and in %s %s", at, before.Task,
					before.Name, s.Task, s.Name)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

func parseSplit(text string) (s Split, err error) {
	f := strings.Fields(text)
	if len(f) != 5 || len(f[4]) != 2*sha256.Size {
		return s, errors.New("a line has task, split, lines, their number and a SHA-256")
	}
	most, err := strconv.Atoi(f[3])
	if err != nil {
		return s, err
	}
	s = Split{Task: f[0], Name: f[1], File: f[4]}
	last := 0
	for text := range strings.SplitSeq(f[2], ",") {
		var p numberRange
		if n, _ := fmt.Sscanf(text, "%d-%d", &p.first, &p.last); n < 2 || p.first <= last || p.last < p.first ||
			p.last > most {
			return s, fmt.Errorf("%s is not an ascending list of ranges within %d lines", f[2], most)
		}
		s.lines, last = append(s.lines, p), p.last
	}
	return s, nil
}

// commonLine returns a line that both splits have, or two entries for the same split; 0 if there is none.
func (s *Split) commonLine(o *Split) int {
	if s.Task == o.Task && s.Name == o.Name {
		return o.lines[0].first
	}
	if s.File != o.File {
		return 0
	}
	for _, a := range s.lines {
		for _, b := range o.lines {
			if first := max(a.first, b.first); first <= min(a.last, b.last) {
				return first
			}
		}
	}
	return 0
}
