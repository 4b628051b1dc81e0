package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// evalFlags has the flags of `pilotfish eval`.
type evalFlags struct {
	pair       group.PairFlags
	data       string
	questions  int
	policies   string
	thresholds string
	budgets    string
	router     string
	verify     string
	every      int
	ahead      string
	raw        bool
	shots      int
	code       group.CodeFlag
	max        int
	temp       float64
	seed       uint64
	parallel   int
	out        string
	html       string
	json       bool
}

func (f *evalFlags) register(c *cobra.Command) {
	f.pair.Register(c)
	p := c.Flags()
	cli.Add(p, "data", &f.data, "")
	cli.Add(p, "questions", &f.questions, 0)
	cli.Add(p, "eval.policy", &f.policies, "")
	cli.Add(p, "eval.threshold", &f.thresholds, "")
	cli.Add(p, "eval.budget", &f.budgets, "")
	cli.Add(p, "router", &f.router, "")
	cli.Add(p, "eval.verify", &f.verify, "off")
	cli.Add(p, "verify-every", &f.every, 64)
	cli.Add(p, "eval.ahead", &f.ahead, "1")
	cli.Add(p, "raw", &f.raw, false)
	cli.Add(p, "shots", &f.shots, 0)
	f.code.Register(p)
	cli.Add(p, "max-tokens", &f.max, 0)
	cli.Add(p, "temp", &f.temp, 0)
	cli.Add(p, "seed", &f.seed, 0)
	cli.Add(p, "parallel", &f.parallel, 32)
	cli.Add(p, "out", &f.out, "")
	cli.Add(p, "html", &f.html, "")
	cli.Add(p, "json", &f.json, false)
}

// policyNames returns their names for messages.
func policyNames() string {
	var all []string
	for _, p := range router.Policies() {
		all = append(all, string(p))
	}
	return strings.Join(all, ", ")
}

// defaultThresholds returns thresholds of a policy that cover the useful shares.
func defaultThresholds(p router.Policy) []float64 {
	switch p {
	case router.Random:
		return []float64{0.03, 0.07, 0.15, 0.3, 0.5}
	case router.Margin:
		return []float64{0.05, 0.15, 0.35, 0.65, 0.9, 0.97}
	case router.Entropy:
		return []float64{0.1, 0.25, 0.4, 0.6, 0.85, 0.95}
	}
	return []float64{0.2, 0.4, 0.6, 0.8, 0.95, 0.99}
}

// check returns an error for wrong values and for flags without an effect, otherwise the runs.
func (f *evalFlags) check(name string) ([]eval.Run, error) {
	for _, err := range []error{
		f.checkTask(name),
		f.pair.Check(name == task.Demo),
		group.CheckRange("questions", f.questions, 0, group.MaxQuestions, "1 or more, or 0 for all"),
		group.CheckRange("parallel", f.parallel, 1, group.MaxDevices, "1 to 64 questions at the same time"),
		cli.CheckPlace("--html", f.html),
	} {
		if err != nil {
			return nil, err
		}
	}
	return f.runs(name)
}

// checkTask returns an error for flags that do not apply to the task.
func (f *evalFlags) checkTask(name string) error {
	public := slices.Contains(group.PublicTasks(), name)
	switch given := f.pair.Set.Changed; {
	case slices.Contains([]string{task.DemoTrain, csqaTrain, gsm8kTrain, arcTrain, task.MBPPTrain}, name):
		return cli.Usagef("%s is for training routers: judge them with %s", name, strings.TrimSuffix(name, "-train"))
	case given("data") && f.data == "":
		return cli.Usagef("--data names no file: give one, or leave it out")
	case !public && given("data"):
		return cli.Usagef("--data is for csqa, gsm8k, arc, humaneval and mbpp: give the file itself in place of %s",
			name)
	case (!public || name == task.HumanEval) && given("shots"):
		return cli.Usagef("--shots has no effect with %s: csqa, gsm8k, arc and mbpp have worked examples", name)
	case f.shots < 0 || f.shots > task.MostShots:
		return cli.Usagef("--shots %d is out of range: give 0 to %d", f.shots, task.MostShots)
	case given("out") && f.out == "" || given("html") && f.html == "":
		return cli.Usagef("-o and --html name files: give a name, or leave them out")
	case f.out != "" && f.out == f.html:
		return cli.Usagef("-o and --html are the same file: give two names")
	}
	return f.code.Check(name)
}

// runs returns the policies with their thresholds and budgets.
func (f *evalFlags) runs(name string) (all []eval.Run, err error) {
	thresholds, err := numbers("threshold", f.thresholds, true)
	if err != nil {
		return nil, err
	}
	budgets, err := numbers("budget", f.budgets, false)
	if err != nil {
		return nil, err
	}
	policies, err := f.chosen(name)
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		if p == router.Never || p == router.Always {
			all = append(all, eval.Run{Policy: p})
			continue
		}
		these := thresholds
		if len(these) == 0 && len(budgets) == 0 {
			these = defaultThresholds(p)
		}
		for _, t := range these {
			all = append(all, eval.Run{Policy: p, Threshold: &t})
		}
		for _, b := range budgets {
			all = append(all, eval.Run{Policy: p, Budget: b})
		}
	}
	if err := f.checkUse(policies); err != nil {
		return nil, err
	}
	if all, err = f.dialled(all); err != nil {
		return nil, err
	}
	if f.pair.Set.Changed("verify-every") &&
		!slices.ContainsFunc(all, func(r eval.Run) bool { return r.Verify != nil }) {
		return nil, cli.Usagef(
			"--verify-every has no effect without verification: add a margin to --verify, such as off,0")
	}
	return all, nil
}

// dialled returns the runs with each margin of verification and each number of tokens ahead. If the large model chooses
// all tokens, there is nothing to verify. If it is never asked, it decodes nothing ahead.
func (f *evalFlags) dialled(runs []eval.Run) (all []eval.Run, err error) {
	margins, err := f.margins()
	if err != nil {
		return nil, err
	}
	aheads, err := f.aheads()
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		for _, m := range margins {
			for _, n := range aheads {
				if r.Policy == router.Always && m != nil || r.Policy == router.Never && m == nil && n > 1 {
					continue
				}
				one := r
				if one.Verify = m; n > 1 {
					one.Ahead = n
				}
				all = append(all, one)
			}
		}
	}
	if len(all) == 0 {
		return nil,
			cli.Usagef("--verify %s and --ahead %s leave no run with --policy %s: add off to --verify, or 1 to --ahead",
				f.verify, f.ahead, f.policies)
	}
	return all, nil
}

// margins parses --verify; nil means off.
func (f *evalFlags) margins() (all []*float64, err error) {
	for field := range strings.SplitSeq(f.verify, ",") {
		var m group.Margin
		if err := m.Set(strings.TrimSpace(field)); err != nil {
			return nil, cli.Usagef("--verify: %.40q is not possible: %w", field, err)
		}
		same := func(x *float64) bool { return (x != nil) == m.On && (x == nil || *x == m.Nats) }
		if slices.ContainsFunc(all, same) {
			return nil, cli.Usagef("--verify names %v twice: give each once", &m)
		}
		if !m.On {
			all = append(all, nil)
		} else {
			all = append(all, &m.Nats)
		}
	}
	return all, nil
}

// aheads parses --ahead.
func (f *evalFlags) aheads() (all []int, err error) {
	for field := range strings.SplitSeq(f.ahead, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 || n > group.MaxAhead {
			return nil, cli.Usagef("--ahead: %.40q is not possible: give numbers of tokens, 1 to 64, such as 1,8",
				field)
		}
		if slices.Contains(all, n) {
			return nil, cli.Usagef("--ahead names %d twice: give each once", n)
		}
		all = append(all, n)
	}
	return all, nil
}

// numbers parses a list of different numbers up to 1. They are above 0, or 0 too if zero is set.
func numbers(flag, list string, zero bool) (all []float64, err error) {
	if list == "" {
		return nil, nil
	}
	for field := range strings.SplitSeq(list, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(v >= 0 && v <= 1) || v == 0 && !zero {
			return nil, cli.Usagef("--%s: %.40q is not possible: give numbers up to 1, such as 0.1,0.3", flag, field)
		}
		if slices.Contains(all, v) {
			return nil, cli.Usagef("--%s names %v twice: give each once", flag, v)
		}
		all = append(all, v)
	}
	return all, nil
}

// chosen returns the policies of --policy, or all.
func (f *evalFlags) chosen(name string) (all []router.Policy, err error) {
	own := f.router != "" || name == task.Demo && !f.pair.Set.Changed("model")
	if f.policies == "" && !f.pair.Set.Changed("policy") {
		all = router.Policies()
		if !own {
			all = slices.DeleteFunc(all, func(p router.Policy) bool { return p == router.Learned })
		}
		return all, nil
	}
	for field := range strings.SplitSeq(f.policies, ",") {
		p, err := router.ParsePolicy(strings.TrimSpace(field))
		switch {
		case err != nil:
			return nil, cli.Usagef("--policy: %w", err)
		case slices.Contains(all, p):
			return nil, cli.Usagef("--policy names %s twice: give each once", p)
		case p == router.Learned && !own:
			return nil, cli.Usagef("--policy learned needs a router: give its file with --router")
		}
		all = append(all, p)
	}
	return all, nil
}

// checkUse returns an error for flags that no policy uses.
func (f *evalFlags) checkUse(policies []router.Policy) error {
	decides := slices.ContainsFunc(policies,
		func(p router.Policy) bool { return p != router.Never && p != router.Always })
	switch given := f.pair.Set.Changed; {
	case !decides && (given("threshold") || given("budget")):
		return cli.Usagef("--threshold and --budget have no effect with --policy %s: add a policy that decides",
			f.policies)
	case given("router") && (f.router == "" || !slices.Contains(policies, router.Learned)):
		return cli.Usagef("--router has no effect without the policy learned: give a file, and learned in --policy")
	case given("seed") && f.temp == 0 && !slices.Contains(policies, router.Random):
		return cli.Usagef("--seed has no effect without --temp and without the policy random: leave it out")
	}
	return nil
}

// sampling returns how tokens are chosen. The policy random uses the same seed.
func (f *evalFlags) sampling() terms.Sampling {
	return terms.Sampling{Temperature: f.temp, Seed: f.seed}
}

// learned returns the router and the SHA-256 of its file, if a run needs one. Without --router it is the demo's.
func (f *evalFlags) learned(a *cli.App, models *group.Pair, runs []eval.Run) (*router.File, string, error) {
	if !slices.ContainsFunc(runs, isLearned) {
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
	if err := group.Fitting(file, models.Edge, f.router); err != nil {
		return nil, "", err
	}
	group.WarnForeign(a, file, models.Edge)
	sum := sha256.Sum256(b)
	return file, hex.EncodeToString(sum[:]), nil
}

func isLearned(r eval.Run) bool { return r.Policy == router.Learned }

// certified adds the threshold of a certificate to the runs of the learned policy, unless thresholds were given.
func (f *evalFlags) certified(runs []eval.Run, c *router.Certificate) []eval.Run {
	if c == nil || f.thresholds != "" {
		return runs
	}
	at := len(runs)
	for i, r := range runs {
		switch {
		case !isLearned(r):
		case r.Threshold == nil || *r.Threshold > c.Threshold: // nil: a budget
			at = min(at, i)
		case *r.Threshold == c.Threshold:
			return runs
		default:
			at = i + 1
		}
	}
	more, err := f.dialled([]eval.Run{{Policy: router.Learned, Threshold: &c.Threshold}})
	if err != nil {
		return runs // cannot fail: the flags were checked before
	}
	return slices.Insert(runs, at, more...)
}
