package eval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// showFlags has the flags of `pilotfish-bench eval show`.
type showFlags struct {
	data string
	html string
	json bool
}

func newEvalShowCommand(a *cli.App) *cobra.Command {
	var f showFlags
	c := &cobra.Command{
		Use:   "show FILE [flags]",
		Short: "Report the answers in a file that eval -o wrote, without models",
		Long: `Report the answers in a file that eval -o wrote, compressed with gzip or not: a table, lines of JSON,
or a page with every answer (--html). No model is needed.

If the questions are here, from "pilotfish-bench eval fetch" or with --data, each verdict is compared with what the
grader says, except where a program had to run, and the page has their texts. A
file whose parts contradict each other is
refused.`,
		Example: "  pilotfish-bench eval show docs/results/answers/demo.jsonl.gz --html page.html",
		Args:    cli.OneArg("a file that eval -o wrote"),
		RunE:    func(c *cobra.Command, args []string) error { return f.showAnswers(c.Context(), a, args[0]) },
	}
	p := c.Flags()
	measure.Add(p, "data", &f.data, "")
	measure.Add(p, "html", &f.html, "")
	cli.Add(p, "json", &f.json, false)
	return c
}

func (f *showFlags) showAnswers(ctx context.Context, a *cli.App, path string) error {
	if err := cli.CheckPlace("--html", f.html); err != nil {
		return err
	}
	l, err := eval.ReadLog(path)
	if err != nil {
		return err
	}
	runs, err := l.Runs()
	if err != nil {
		return err
	}
	set, err := f.loadQuestions(ctx, a, l)
	if err != nil {
		return err
	}
	about := record.Run{Measurement: "eval", Version: l.About.Version, Command: l.About.Command}
	if about.Date, err = time.Parse(time.RFC3339, l.About.Date); err != nil {
		return fmt.Errorf("%s: the date: %w", path, err)
	}
	return reportAnswers(a, set, runs, l, about, f.json, f.html)
}

// loadQuestions returns the questions of the answers, after comparing the two; without their file only the ids.
func (f *showFlags) loadQuestions(ctx context.Context, a *cli.App, l *eval.Log) (*task.Set, error) {
	s := l.Settings
	set, err := measure.OpenQuestions(s.Task, task.Options{Data: f.data, Split: s.Split, Skip: s.Skip,
		Most: s.Questions, Shots: s.Shots, Run: task.Unrun})
	switch {
	case err != nil && f.data != "":
		return nil, err
	case err != nil:
		fmt.Fprintf(a.Stderr, "the verdicts are not compared with the questions: %v\n", err)
		return l.Set(), nil
	case set.Hash != s.Data:
		return nil, errors.New("the questions are not those of the answers: their SHA-256 differs")
	}
	return set, l.Check(ctx, set)
}

// reportAnswers prints the report and writes the page. An error of one does not prevent the other.
func reportAnswers(a *cli.App, set *task.Set, runs []eval.Run, log *eval.Log, about record.Run, json bool,
	html string) error {
	r := eval.Summarize(set, runs, log)
	if r.Questions == 0 {
		return nil
	}
	page, err := report.OfEval(r, log.Settings, about)
	if err != nil {
		return err
	}
	if json {
		for i := range r.Runs {
			err = errors.Join(err, group.PrintResult(a, r.Runs[i], about))
		}
	} else {
		fmt.Fprintf(a.Stdout, "%s%s\n\n", r.Gain(router.DefaultBudget), page.Sections[0].Title)
		for _, t := range page.Sections[0].Tables {
			err = errors.Join(err, t.Text(a.Stdout))
			fmt.Fprintln(a.Stdout)
		}
	}
	if html == "" {
		return err
	}
	pageErr := page.AddAnswers(set, runs, log)
	if pageErr == nil {
		pageErr = measure.WritePage(page, html)
	}
	if pageErr != nil {
		err = errors.Join(err, fmt.Errorf("--html: %w", pageErr))
	}
	return err
}
