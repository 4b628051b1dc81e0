package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// evalFlags has the flags of `pilotfish-bench eval`.
type evalFlags struct {
	pair       measure.PairFlags
	data       string
	split      measure.SplitFlag
	questions  int
	skip       int
	policies   group.List[router.Policy]
	thresholds group.List[float64]
	budgets    group.List[float64]
	router     string
	verify     group.List[group.Margin]
	every      int
	raw        bool
	shots      int
	code       measure.CodeFlag
	max        int
	temp       float64
	seed       uint64
	out        string
	html       string
	json       bool
}

func (f *evalFlags) registerFlags(c *cobra.Command) {
	f.pair.Register(c)
	p := c.Flags()
	measure.Add(p, "data", &f.data, "")
	f.split.Register(p)
	measure.Add(p, "questions", &f.questions, 0)
	measure.Add(p, "skip", &f.skip, 0)
	f.policies, f.thresholds = group.ListOf("policies", "", eval.ParsePolicy), group.Floats("")
	f.budgets = group.Floats("")
	f.verify = group.ListOf("margins", "off", func(text string) (m group.Margin, err error) { return m, m.Set(text) })
	measure.AddValue(p, "eval.policy", &f.policies)
	measure.AddValue(p, "eval.threshold", &f.thresholds)
	measure.AddValue(p, "eval.budget", &f.budgets)
	cli.Add(p, "router", &f.router, "")
	measure.AddValue(p, "eval.verify", &f.verify)
	measure.Add(p, "verify-every", &f.every, 64)
	cli.Add(p, "raw", &f.raw, false)
	measure.Add(p, "shots", &f.shots, 0)
	f.code.Register(p)
	cli.Add(p, "max-tokens", &f.max, 0)
	cli.Add(p, "temp", &f.temp, 0)
	cli.Add(p, "seed", &f.seed, 0)
	measure.Add(p, "out", &f.out, "")
	measure.Add(p, "html", &f.html, "")
	cli.Add(p, "json", &f.json, false)
}

// checkedRuns returns an error for wrong values, otherwise the runs.
func (f *evalFlags) checkedRuns(a *cli.App, name string) ([]eval.Run, error) {
	f.warnUnusedFlags(a, name)
	if train, found := strings.CutSuffix(name, "-train"); found {
		return nil, cli.Usagef("%s is for training routers: judge them with %s", name, train)
	}
	if f.out != "" && f.out == f.html {
		return nil, cli.Usagef("-o and --html are the same file: give two names")
	}
	for _, err := range []error{
		f.split.Check(name),
		f.code.Check(name),
		f.pair.Check(name == task.Demo),
		cli.CheckPlace("--html", f.html),
	} {
		if err != nil {
			return nil, err
		}
	}
	return f.listRuns(name)
}

func (f *evalFlags) warnUnusedFlags(a *cli.App, name string) {
	if f.data != "" && task.FindBenchmark(name) == nil {
		fmt.Fprintf(a.Stderr, "--data has no effect: the questions are those of %s\n", name)
		f.data = ""
	}
	f.shots = measure.Shots(a, name, f.shots)
}

// listRuns returns the policies with their thresholds and budgets, each with each margin of verification.
func (f *evalFlags) listRuns(name string) (all []eval.Run, err error) {
	policies, err := f.chosenPolicies(name)
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		if p == router.Never || p == router.Always || p == eval.Rule {
			all = append(all, eval.Run{Policy: p})
			continue
		}
		thresholds, budgets := f.thresholds.Values, f.budgets.Values
		if p == router.Verify {
			thresholds = nil // --verify has them
		}
		for _, t := range thresholds {
			all = append(all, eval.Run{Policy: p, Threshold: &t})
		}
		if len(thresholds) == 0 && len(budgets) == 0 {
			budgets = []float64{router.DefaultBudget}
		}
		for _, b := range budgets {
			all = append(all, eval.Run{Policy: p, Budget: b})
		}
	}
	return f.addMargins(all)
}

// addMargins returns the runs with each margin of verification. If the large model chooses all tokens, there is nothing
// to verify, the policies verify and judge have their own margin, and the rule is one for asking.
func (f *evalFlags) addMargins(runs []eval.Run) (all []eval.Run, err error) {
	for _, r := range runs {
		for _, m := range f.verify.Values {
			own := r.Policy == router.Always || r.Policy == eval.Rule || r.Policy.Verifies()
			if own && m.On {
				continue
			}
			one := r
			if m.On {
				one.Verify = &m.Nats
			}
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil,
			cli.Usagef("--verify %s leaves no run with --policy %s: add off to --verify", &f.verify, &f.policies)
	}
	return all, nil
}

func (f *evalFlags) chosenPolicies(name string) (all []router.Policy, err error) {
	own := f.router != "" || name == task.Demo && !f.pair.Set.Changed("model")
	if len(f.policies.Values) == 0 {
		return slices.DeleteFunc(router.Policies(), func(p router.Policy) bool {
			return p == router.Learned && !own || p.Verifies()
		}), nil
	}
	for _, p := range f.policies.Values {
		if p == router.Learned && !own || p == router.Judged && f.router == "" {
			return nil, cli.Usagef("--policy %s needs a router file: give it with --router", p)
		}
	}
	return f.policies.Values, nil
}

// loadRouter returns the router and the SHA-256 of its file, if a run needs one. Without --router it is the demo's.
func (f *evalFlags) loadRouter(runs []eval.Run) (*router.File, string, error) {
	judged := slices.ContainsFunc(runs, func(r eval.Run) bool { return r.Policy == router.Judged })
	if !slices.ContainsFunc(runs, isLearnedRun) && !judged {
		return nil, "", nil
	}
	b := demo.Router()
	if f.router != "" {
		var err error
		if b, err = os.ReadFile(f.router); err != nil {
			return nil, "", fmt.Errorf("--router: %w", err)
		}
	}
	file, err := group.ParseRouter(b)
	if err != nil {
		return nil, "", fmt.Errorf("--router %s: %w", f.router, err)
	}
	for _, r := range runs {
		if _, err := file.Options(r.Policy); err != nil {
			return nil, "", fmt.Errorf("--router %s: %w", f.router, err)
		}
	}
	sum := sha256.Sum256(b)
	return file, hex.EncodeToString(sum[:]), nil
}

func isLearnedRun(r eval.Run) bool { return r.Policy == router.Learned }

// addCertifiedRun adds the certificate's choice to the runs if they have the learned policy, unless thresholds were
// given.
func (f *evalFlags) addCertifiedRun(runs []eval.Run, c *router.Certificate) []eval.Run {
	switch {
	case c == nil || len(f.thresholds.Values) > 0 || c.Policy == router.Never:
		return runs
	case c.Policy == router.Verify:
		return append(runs, eval.Run{Policy: router.Never, Verify: new(-math.Log(c.Threshold))})
	case c.Policy != router.Learned:
		return append(runs, eval.Run{Policy: c.Policy, Threshold: &c.Threshold})
	}
	at := len(runs)
	for i, r := range runs {
		switch {
		case !isLearnedRun(r):
		case r.Threshold == nil || *r.Threshold > c.Threshold: // nil: a budget
			at = min(at, i)
		case *r.Threshold == c.Threshold:
			return runs
		default:
			at = i + 1
		}
	}
	more, err := f.addMargins([]eval.Run{{Policy: router.Learned, Threshold: &c.Threshold}})
	if err != nil {
		return runs // cannot fail: the flags were checked before
	}
	return slices.Insert(runs, at, more...)
}
