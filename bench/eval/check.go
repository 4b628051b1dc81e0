package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

func (a *Answer) checkConsistency(runs []string) error {
	n := len(a.Origins)
	switch {
	case a.Question == "" || !slices.Contains(runs, a.Run):
		return fmt.Errorf("there is no run %q", a.Run)
	case len(a.Pieces) != n || a.Tokens != nil && len(a.Tokens) != n:
		return fmt.Errorf("%d tokens have %d pieces and %d origins", len(a.Tokens), len(a.Pieces), n)
	case strings.Trim(a.Origins, "ec") != "":
		return fmt.Errorf("the origins %.20q have other letters than e and c", a.Origins)
	case !slices.Contains([]string{"", "right", "wrong", "silent"}, a.Verdict):
		return fmt.Errorf("there is no verdict %q", a.Verdict)
	case !slices.Contains([]string{"end", "length", "context", StopNoRoom, StopNext}, a.Stop):
		return fmt.Errorf("there is no reason %q to stop", a.Stop)
	case a.Stop == StopNoRoom && n+a.Asks > 0:
		return errors.New("an answer without room has tokens or questions")
	}
	run, err := ParseRun(a.Run)
	if err != nil {
		return err
	}
	return a.checkAgainstRun(run)
}

func (a *Answer) checkAgainstRun(run Run) error {
	at := func(list []int, origins string) bool {
		return !slices.ContainsFunc(list, func(i int) bool {
			return i < 0 || i >= len(a.Origins) || strings.IndexByte(origins, a.Origins[i]) < 0
		})
	}
	cloud, needless := a.cloudTokenCount(), "c"
	if !run.onlyAsks() {
		needless = "ce" // a token that only ends a check stays the small model's
	}
	switch {
	case !at(a.Missed, "e") || !at(a.Needless, needless):
		return errors.New("a position in missed or needless is none of a token of that origin")
	case run.onlyAsks() && a.Asks+a.Known != cloud:
		return fmt.Errorf("%d questions gave %d tokens of the large model", a.Asks+a.Known, cloud)
	case !run.onlyAsks() && (a.Turned > cloud || cloud > a.Turned+a.Asks+a.Known):
		return fmt.Errorf("%d questions replaced %d tokens, but the large model has %d", a.Asks+a.Known, a.Turned,
			cloud)
	case run.Policy == router.Never && run.onlyAsks() && cloud > 0,
		run.Policy == router.Always && cloud < len(a.Origins):
		return fmt.Errorf("the large model has %d of %d tokens", cloud, len(a.Origins))
	}
	return nil
}

// Check compares the answers with the questions: they have to be of the set, and right where its graders find them
// right, as far as these need no program.
func (l *Log) Check(ctx context.Context, set *task.Set) error {
	questions := map[string]*task.Question{}
	for i := range set.Questions {
		questions[set.Questions[i].ID] = &set.Questions[i]
	}
	for _, id := range l.order {
		q := questions[id]
		if q == nil {
			return fmt.Errorf("%s: the question %q is none of %s %s", l.path, id, set.Name, set.Split)
		}
		for _, run := range l.Settings.Runs {
			a, ok := l.Answer(id, run)
			if !ok || a.Stop == StopNoRoom {
				continue
			}
			if err := a.checkVerdict(ctx, set, q, l.Settings.Raw); err != nil {
				return fmt.Errorf("%s: question %s, run %q: %w", l.path, id, run, err)
			}
		}
	}
	return nil
}

// checkVerdict returns an error if the grader finds right what the verdict does not, or the reverse. Of a program it
// only finds whether there is one.
func (a *Answer) checkVerdict(ctx context.Context, set *task.Set, q *task.Question, raw bool) error {
	text := a.Text()
	if raw {
		text = set.Cut(text)
	}
	if q.Grade == nil {
		if a.Verdict != "" && !task.RunsPrograms(set.Name) {
			return fmt.Errorf("the verdict is %s, but the question has no answer", a.Verdict)
		}
		return nil
	}
	v, err := q.Judge(ctx, text, a.wasCut())
	if err != nil {
		return err
	}
	right := a.Verdict == task.Right.String()
	if (v == task.Right) != right && (q.Run == nil || v == task.Silent) {
		return fmt.Errorf("the verdict is %s, but the answer is %s", a.Verdict, v)
	}
	return nil
}
