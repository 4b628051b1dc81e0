package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// SplitFlag chooses a part of a benchmark's questions.
type SplitFlag struct{ Name string }

// Register adds the flag to those of a command.
func (f *SplitFlag) Register(p *pflag.FlagSet) { Add(p, "split", &f.Name, "") }

// Check returns an error for a split that the task does not have.
func (f *SplitFlag) Check(name string) error {
	if f.Name == "" {
		return nil
	}
	if _, err := task.FindSplit(name, f.Name); err != nil {
		return cli.Usagef("--split: %w", err)
	}
	return nil
}

// CheckTask returns an error for values of --task, --data and --split that do not belong together; "" if not given.
func (f *SplitFlag) CheckTask(name, data string) error {
	switch {
	case f.Name != "" && name == "":
		return cli.Usagef("--split %s is a part of a benchmark: name it with --task", f.Name)
	case f.Name == "" && name != "" && data == "":
		return cli.Usagef("--task %s lacks its questions: choose a part of them with --split, or give --data", name)
	}
	return f.Check(name)
}

// OpenQuestions opens the questions of a task or a file. Those of a benchmark without o.Data are in the file that
// `pilotfish-bench eval fetch` downloaded.
func OpenQuestions(name string, o task.Options) (*task.Set, error) {
	fetch, given := name, o.Data != ""
	if o.Split != "" {
		split, err := task.FindSplit(name, o.Split)
		if err != nil {
			return nil, err
		}
		fetch = fetchName(split)
	}
	from, known := Published()[fetch]
	if given || !known {
		s, err := task.Open(name, o)
		if errors.Is(err, task.ErrNotPublished) {
			err = fmt.Errorf("%w; leave --data out and fetch it with `pilotfish-bench eval fetch %s`", err, fetch)
		}
		if err != nil && given {
			err = fmt.Errorf("--data: %w", err)
		}
		return s, err
	}
	dir, err := DataDir()
	if err != nil {
		return nil, err
	}
	o.Data = filepath.Join(dir, from.Name)
	s, err := task.Open(name, o)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("the questions are not here: fetch them with `pilotfish-bench eval fetch %s`, "+
			"or give their file with --data", fetch)
	case errors.Is(err, task.ErrNotPublished), err == nil && o.Split == "" && s.Hash != from.SHA256:
		return nil, fmt.Errorf("%s is not the published file: fetch it with `pilotfish-bench eval fetch %s`, "+
			"or give one of your own with --data", o.Data, fetch)
	}
	return s, err
}
