package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// answersDir is the folder of recorded answers, one file for each run of eval: TASK-SPLIT.jsonl.gz, or with a number.
func answersDir(root string) string { return filepath.Join(root, kept, "answers") }

// adoptAnswers copies a file that eval -o wrote to the checkout: compared with its questions, compressed, and without
// paths of the machine. data is the file of the questions; "" for the demo's.
func adoptAnswers(root, path, data string) error {
	l, err := eval.ReadLog(path)
	if err != nil {
		return err
	}
	if err := checkAnswers(l, data); err != nil {
		return err
	}
	if l.Settings.Split == "test" && !regexp.MustCompile(`^[0-9a-f]{40}|^v`).MatchString(l.About.Version) {
		return fmt.Errorf("%s: answers to test questions need a program of a known revision, not %q: use one of "+
			"`make build`", path, l.About.Version)
	}
	l.About.Command = regexp.MustCompile(`([ =,])/[^ =,]*/`).ReplaceAllString(l.About.Command, "$1")
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := errors.Join(l.Write(z), z.Close()); err != nil {
		return err
	}
	if err := os.MkdirAll(answersDir(root), 0o755); err != nil {
		return err
	}
	name, err := freeAnswersPath(root, l)
	if err != nil {
		return err
	}
	return os.WriteFile(name, packed.Bytes(), 0o644)
}

// checkAnswers compares answers with their questions. It finds the split if the settings do not name it.
func checkAnswers(l *eval.Log, data string) error {
	s := &l.Settings
	o := task.Options{Data: data, Split: s.Split, Skip: s.Skip, Most: s.Questions, Shots: s.Shots, Run: task.Unrun}
	splits, file := []string{s.Split}, strings.HasSuffix(s.Task, ".jsonl")
	if s.Split == "" && s.Task != task.Demo && !file {
		splits = []string{"development", "test", "training", "calibration"}
		o.Most = 0
	}
	var wrong error
	for _, o.Split = range splits {
		set, err := task.Open(s.Task, o)
		if err == nil {
			err = l.Check(context.Background(), set)
		}
		if err == nil && s.Split == set.Split && s.Data != set.Hash {
			err = errors.New("the questions are not those of the answers: their SHA-256 differs")
		}
		if err == nil {
			if s.Split, s.Data = set.Split, set.Hash; file { // questions of the checkout
				s.Task = strings.TrimSuffix(filepath.Base(s.Task), ".jsonl")
			}
			return nil
		}
		wrong = cmp.Or(wrong, err)
	}
	return wrong
}

// freeAnswersPath returns the file for answers: one with answers of the same beginning is replaced, any other is not.
func freeAnswersPath(root string, l *eval.Log) (string, error) {
	base := strings.Trim(l.Settings.Task+"-"+l.Settings.Split, "-")
	for n := 1; ; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		path := filepath.Join(answersDir(root), name+".jsonl.gz")
		before, err := eval.ReadLog(path)
		if errors.Is(err, os.ErrNotExist) {
			return path, nil
		}
		if err != nil || before.About == l.About {
			return path, err
		}
	}
}

// readRecordedAnswers returns all recorded answers, by task and split, the newest first.
func readRecordedAnswers(root string) (all [][]*eval.Log, err error) {
	paths, err := filepath.Glob(filepath.Join(answersDir(root), "*.jsonl.gz"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		l, err := eval.ReadLog(path)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(g []*eval.Log) bool { return answersOrder(g[0]) == answersOrder(l) })
		if at < 0 {
			at, all = len(all), append(all, nil)
		}
		all[at] = append(all[at], l)
	}
	for _, group := range all {
		slices.SortStableFunc(group, func(a, b *eval.Log) int { return cmp.Compare(b.About.Date, a.About.Date) })
	}
	slices.SortStableFunc(all, func(a, b []*eval.Log) int {
		return cmp.Compare(answersOrder(a[0]), answersOrder(b[0]))
	})
	return all, nil
}

// answersOrder sorts tasks and splits: test questions first, and the tasks in the order of their benchmarks. Of a split
// the last questions come first: those before them were looked at before.
func answersOrder(l *eval.Log) string {
	tasks := task.Benchmarks()
	splits := []string{"test", "development", "calibration", "training", ""}
	at := slices.IndexFunc(tasks, func(b *task.Benchmark) bool { return b.Name == l.Settings.Task })
	if at < 0 {
		at = len(tasks)
	}
	return fmt.Sprintf("%d %d %s %09d", slices.Index(splits, l.Settings.Split), at, l.Settings.Task,
		math.MaxInt32-l.Settings.Skip)
}

// answerSet has all recorded answers to one split of a task.
type answerSet struct {
	eval.Settings
	log    *eval.Log
	runs   []eval.Run
	report *eval.Report
}

func newAnswerSet(logs []*eval.Log) (*answerSet, error) {
	l, err := eval.Join(logs)
	if err != nil {
		return nil, err
	}
	runs, err := l.Runs()
	if err != nil {
		return nil, err
	}
	return &answerSet{Settings: l.Settings, log: l, runs: runs, report: eval.Summarize(l.Set(), runs, l)}, nil
}

// modelsAlone returns the runs with the texts of each model alone; nil for one that is missing.
func (l *answerSet) modelsAlone() (small, large *eval.RunReport) {
	for i := range l.report.Runs {
		switch r := &l.report.Runs[i]; {
		case r.Policy == "never" && r.Verify == nil:
			small = r
		case r.Policy == "always", r.Verify != nil && *r.Verify == 0:
			large = r
		}
	}
	return small, large
}

// addAnswerTables makes the table and the figure of each task from its answers: to test questions, and to development
// questions, or of the demo. It also makes the list of all runs, and what README shows: of a task the first of these.
func (m *pageContent) addAnswerTables(root string) error {
	all, err := readRecordedAnswers(root)
	if err != nil {
		return err
	}
	var tables, list strings.Builder
	list.WriteString("|date|program|questions|runs|\n|---|---|---|---|\n")
	var every, shown []*answerSet
	for _, group := range all {
		if name := group[0].Settings.Task; name != task.Demo || len(shown) == 0 {
			l, err := newAnswerSet(group)
			if err == nil {
				err = m.addAnswerTable(&tables, l)
			}
			if err == nil && name == "everyday" {
				err = m.addEveryday(l)
			}
			if err != nil {
				return err
			}
			every = append(every, l)
			if !slices.ContainsFunc(shown, func(l *answerSet) bool { return l.Task == name }) {
				shown = append(shown, l)
			}
		}
		for _, l := range group {
			date, err := time.Parse(time.RFC3339, l.About.Date)
			if err != nil {
				return err
			}
			s := l.Settings
			fmt.Fprintf(&list, "|%s|%s|%s|%s|\n", date.Format("2 January 2006"),
				shortVersion(l.About.Version), s.Title(), shortRunName(strings.Join(s.Runs, ", ")))
		}
	}
	if len(all) > 0 {
		m.addHeadline(shown)
		m.texts["conclusions"] = wrapText(conclusionsText(shown) + ruleText(every))
		m.texts["ladders"], m.texts["runs"] = tables.String(), list.String()
	}
	return nil
}

func (m *pageContent) addAnswerTable(b *strings.Builder, l *answerSet) error {
	r, s := l.report, l.Settings
	name := strings.ReplaceAll(s.Title(), " ", "-")
	fmt.Fprintf(b, "\n**%s**, %d questions, at most %d tokens an answer:\n\n", s.Title(), r.Questions, s.MaxTokens)
	b.WriteString("|run|right|gap recovered|chosen|asked|replaced|read/tokens|questions|cut|\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	slices.SortStableFunc(r.Runs, func(a, b eval.RunReport) int { return cmp.Compare(runOrder(&a), runOrder(&b)) })
	for i := range r.Runs {
		writeRunRow(b, &r.Runs[i])
	}
	page, err := report.OfEval(r, s, record.Run{Measurement: "eval"})
	if err != nil {
		return err
	}
	picture := slices.IndexFunc(page.Sections[0].Pictures, func(p report.Picture) bool { return p.Name == "curves-10" })
	if picture < 0 {
		return nil
	}
	file := name + "-curves-10.svg"
	m.figures[file] = page.Sections[0].Pictures[picture].SVG
	fmt.Fprintf(b, "\n![%s: right answers over tokens chosen](../results/%s)\n", name, file)
	return nil
}

// runOrder sorts the runs of a task: from the small model alone by policy, then by falling margin of verification and
// rising threshold of the judge, to the large model alone.
func runOrder(r *eval.RunReport) float64 {
	const verified = 1e6
	order := []string{"never", "random", "entropy", "margin", string(eval.Rule), "learned", "verify", "judge"}
	at := float64(slices.Index(order, r.Policy))
	switch {
	case r.Policy == eval.Oracle:
		return 3 * verified
	case r.Policy == "always":
		return 2 * verified
	case r.Verify != nil && *r.Verify == 0: // the large model's own text
		return 1.9*verified + at
	case r.Verify != nil:
		return verified*(1+1/(2+*r.Verify)) + at
	case r.Policy == "judge" && r.Threshold != nil:
		return 1.6*verified + *r.Threshold
	}
	return at
}

func writeRunRow(b *strings.Builder, r *eval.RunReport) {
	name := map[string]string{"never": "small alone", "always": "large alone"}[r.Name()]
	if r.Verify != nil && *r.Verify == 0 {
		name = "large alone, as " + shortRunName(r.Name())
	}
	right, cut, n := "", "", float64(r.Answers)
	if r.Accuracy != nil {
		right, cut = formatAccuracy(r), fmt.Sprint(*r.Cut)
	}
	fmt.Fprintf(b, "|%s|%s|%s|%s|%s|%s|%.0f/%.0f|%.1f|%s|\n", cmp.Or(name, shortRunName(r.Name())), right,
		formatGap(r), formatShare(r.Share(r.Cloud)), formatShare(r.Share(r.Asked())),
		formatShare(r.Share(r.Replaced())), float64(r.Read)/n, float64(r.Tokens)/n, float64(r.Asks)/n, cut)
}

// shortRunName shortens names of runs with verification of all tokens.
func shortRunName(names string) string {
	return strings.ReplaceAll(names, "never verified", "verified")
}

func formatAccuracy(r *eval.RunReport) string {
	return fmt.Sprintf("%.1f%% (%.1f–%.1f)", 100*r.Accuracy.Value, 100*r.Accuracy.Low, 100*r.Accuracy.High)
}

// formatGap formats the part of the distance between both models that a run gains; "" without both.
func formatGap(r *eval.RunReport) string {
	if r.Gap == nil {
		return ""
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", r.Gap.Value, r.Gap.Low, r.Gap.High)
}

func formatShare(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }
