package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/train"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// roundFlags has the flags for rounds after the first, with texts that are decoded with the router of the previous
// round.
type roundFlags struct {
	count  int
	share  float64
	data   string
	seed   uint64
	folder string

	training *cli.OptionsFlag
}

func (r *roundFlags) register(p *pflag.FlagSet, training *cli.OptionsFlag) {
	r.training = training
	cli.Add(training.FlagSet, "training.rounds", &r.count, 1)
	cli.Add(training.FlagSet, "training.share", &r.share, 0.1)
	cli.Add(p, "data", &r.data, "")
	cli.Add(training.FlagSet, "training.data-seed", &r.seed, 0)
	cli.Add(training.FlagSet, "training.on-policy", &r.folder, "")
}

// check returns an error for missing flags and for those without an effect.
func (r *roundFlags) check(pair *group.PairFlags) error {
	if !(r.share > 0 && r.share < 1) {
		return cli.Usagef("--training share=%v is out of range: give a share above 0 and below 1", r.share)
	}
	if r.count == 1 {
		for _, name := range []string{"share", "data-seed", "on-policy"} {
			if r.training.Changed(name) {
				return cli.Usagef(
					"--training %s has no effect in one round, which only reads traces: leave it out, or "+
						"add rounds=2", name)
			}
		}
		for _, name := range []string{
			"data", "model", "large", "cloud", "pin", "token-file", "no-resume",
			"dictionary", "ctx", "kv", "backend", "exact", "huge-pages",
		} {
			if pair.Set.Changed(name) {
				return cli.Usagef("--%s has no effect in one round, which only reads traces: leave it out, or add "+
					"--training rounds=2", name)
			}
		}
		return nil
	}
	switch {
	case r.data == "":
		return cli.Usagef("--training rounds=%d decodes the questions again: name their source with --data",
			r.count)
	case r.folder == "":
		return cli.Usagef("--training rounds=%d keeps the texts that it decodes: name a folder for them with "+
			"on-policy=FOLDER", r.count)
	case r.training.Changed("data-seed") && r.data != task.DemoTrain:
		return cli.Usagef("--training data-seed has no effect: questions are drawn for --data demo-train only")
	}
	return pair.Check(r.data == task.Demo || r.data == task.DemoTrain)
}

// onPolicy runs the rounds after the first.
func (c *course) onPolicy(ctx context.Context) error {
	set, err := c.questions()
	if err != nil {
		return err
	}
	models, err := c.f.pair.Open(ctx, c.a, c.folders[0].Set.Settings().Raw)
	if err != nil {
		return err
	}
	defer models.Close()
	if models.Large == nil { // the network needs threads while all threads of the model compute
		before := runtime.GOMAXPROCS(models.Edge.Threads() + 2)
		defer runtime.GOMAXPROCS(before)
	}
	fingerprint, err := models.Edge.Fingerprint()
	if err != nil {
		return err
	}
	if s := c.folders[0].Set.Settings(); fingerprint != s.Small.Fingerprint {
		return fmt.Errorf("%s has traces of the small model %q, -m names %q: give the model of the traces",
			c.folders[0].Name, s.Small.Name, models.Edge.Name())
	}
	for len(c.rounds) < c.f.rounds.count {
		folder, err := c.decode(ctx, models, set)
		if err != nil {
			return err
		}
		c.folders = append(c.folders, folder)
		if err := c.train(ctx); err != nil {
			return err
		}
	}
	return nil
}

// questions returns the questions of the first folder, written as there.
func (c *course) questions() (*task.Set, error) {
	s, name := c.folders[0].Set.Settings(), c.f.rounds.data
	o := task.Options{Most: s.Prompts, Seed: c.f.rounds.seed, Data: name}
	for _, public := range group.PublicTasks() {
		if strings.HasPrefix(s.Task, public+"-") && !task.RunsPrograms(public) {
			name, o.Shots = public, s.Shots
		}
	}
	set, err := task.Open(name, o)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--data: %w", err)
	case set.Hash != s.Data:
		return nil, fmt.Errorf("--data %s is not the source of %s: name the same file, unchanged", o.Data,
			c.folders[0].Name)
	case s.Task != "" && set.Prompts != s.Task:
		return nil, fmt.Errorf("%s has prompts of %s, and --data gives those of %s: begin further rounds with traces "+
			"of the latter", c.folders[0].Name, s.Task, set.Prompts)
	}
	return set, nil
}

// routed returns the options for decoding the texts of the next round: like those of the first folder, but with the
// last router, at the threshold that escalates the wanted share of the held-out positions.
func (c *course) routed() collect.Options {
	last := c.rounds[len(c.rounds)-1]
	held := train.Judge(c.src, last.result.HeldOut.Rows, last.file.Net, c.f.options().Threads)
	threshold := router.Rank(held).Threshold(c.f.rounds.share)
	sum := sha256.Sum256(last.bytes)
	s := c.folders[0].Set.Settings()
	return collect.Options{
		Raw: s.Raw, Reference: collect.Routed, MaxTokens: s.MaxTokens, Labels: []string{c.rule},
		Compute: c.f.pair.Model.Compute(), RouterHash: hex.EncodeToString(sum[:]),
		Router: router.Options{Policy: router.Learned, Net: last.file.Net, Threshold: &threshold},
	}
}

// decode creates the traces of the next round.
func (c *course) decode(ctx context.Context, models *group.Pair, set *task.Set) (train.Folder, error) {
	o := c.routed()
	o.Edge, o.Large, o.Far, o.Data = models.Edge, models.Large, models.Far, set
	plan, err := collect.NewPlan(o)
	if err != nil {
		return train.Folder{}, err
	}
	dir := filepath.Join(c.f.rounds.folder, fmt.Sprintf("round-%d", len(c.rounds)+1))
	m := cli.NewMeter(c.a.Stderr, "decode", cli.InPieces)
	did, err := plan.Run(ctx, dir, func(done, total int) { m.Show(int64(done), int64(total)) })
	m.Close()
	if err != nil {
		return train.Folder{}, err
	}
	fmt.Fprintf(c.a.Stderr,
		"decoded %d prompts at a threshold of %.4g: %d of %d tokens from the large model (%.2f%%)\n", did.Prompts,
		*o.Router.Threshold, did.Cloud, did.Positions, 100*float64(did.Cloud)/float64(max(1, did.Positions)))
	opened, err := trace.Open(dir)
	return train.Folder{Name: dir, Set: opened}, err
}
