package task

import "slices"

// Benchmark is a public set of questions with a file format of its own. What there is to say of one is in one file of
// this package, and in [Benchmarks].
type Benchmark struct {
	Name     string
	About    string // in a few words, with the number of questions
	Source   string // the paper
	Programs bool   // answers are graded by running their programs
	Examples bool   // there are worked examples
	File     File
	Training File // the file with the questions for training; zero: they are in File

	newSet func(run Runner) *Set // with prompts, examples, limit and parser, without questions
}

// File is a published file of questions.
type File struct {
	URL    string // https
	Name   string // in the folder of downloads
	Size   int64  // bytes
	SHA256 string // in hexadecimal
}

// Benchmarks returns all benchmarks, in the order of tables.
func Benchmarks() []*Benchmark {
	return []*Benchmark{csqa(), arc(), gsm8k(), mbpp(), mbppTraining(), humanEval()}
}

// FindBenchmark returns the benchmark with a name; nil if there is none.
func FindBenchmark(name string) *Benchmark {
	all := Benchmarks()
	if i := slices.IndexFunc(all, func(b *Benchmark) bool { return b.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// RunsPrograms reports whether answers to a task are graded by running their programs.
func RunsPrograms(name string) bool {
	b := FindBenchmark(name)
	return b != nil && b.Programs
}

// newBenchmarkSet returns the set of a benchmark without its questions; nil for other names.
func newBenchmarkSet(name string, run Runner) *Set {
	b := FindBenchmark(name)
	if b == nil {
		return nil
	}
	s := b.newSet(run)
	s.Name = name
	return s
}

// newAnswerSet returns a set of questions whose answers are words. The version of the prompts changes when a prompt or
// a grader does.
func newAnswerSet(prompts string, shots []Question, tokens int, parse func([]byte) (Question, error)) *Set {
	return &Set{Prompts: prompts, Shots: shots, Tokens: tokens, parse: parse, lead: "\nAnswer:", next: "\nQuestion:"}
}
