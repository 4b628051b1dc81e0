package routing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// replayHelp explains --record and --replay.
const replayHelp = `--record FILE records all that the answers depended on: the small model's output, every
question to the cloud with its answer, and how long each step took. --replay FILE decodes the same questions again from
such a file, in virtual time: without models, almost instantly, and with the same results each time. Modes, and all
flags about when to ask and how to draft, can differ; the others are as in the recording. --rtt, --loss and
--trace replace the link, --edge-tps and --cloud-ms the speed of the models. If a replay needs data that is not in
the recording, it is estimated and counted. A recording contains the text of questions and answers.`

// recordFlags has the flags --record and --replay.
type recordFlags struct{ record, replay string }

func (r *recordFlags) registerFlags(c *cobra.Command) {
	measure.Add(c.Flags(), "record", &r.record, "")
	measure.Add(c.Flags(), "replay", &r.replay, "")
}

// startRecording starts recording the measurement of o, which must be a single cell. The recording is complete only
// after the call of end.
func (r *recordFlags) startRecording(o *routing.Options, about record.Run, cells int) (end func() error, err error) {
	if r.record == "" {
		return func() error { return nil }, nil
	}
	if cells > 1 {
		return nil, cli.Usagef("--record keeps one link: give one value each of --rtt, --loss and --trace")
	}
	h, err := o.Records()
	if err != nil {
		return nil, err
	}
	h.Run = about
	out, err := os.OpenFile(r.record, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // it has text of users
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("--record: %s exists already: choose another name, or remove it first", r.record)
	}
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	if o.Record, err = replay.NewRecorder(out, h); err != nil {
		return nil, errors.Join(fmt.Errorf("--record %s: %w", r.record, err), out.Close())
	}
	return func() error {
		if err := errors.Join(o.Record.Close(), out.Close()); err != nil {
			return fmt.Errorf("--record %s: %w", r.record, err)
		}
		return nil
	}, nil
}

// linkFlags change the link of the recording, and paceFlags its paces.
const (
	linkFlags = "rtt loss trace seed"
	paceFlags = "edge-tps edge-row-cost cloud-ms"
)

func (f *routingFlags) isAnyGiven(names string) bool {
	return slices.ContainsFunc(strings.Fields(names), f.flags.Changed)
}

func (f *routingFlags) replayRecording(ctx context.Context, a *cli.App) error {
	const useless = "workload model large upstream tokenizer engine " +
		"raw max-tokens repeat parallel record timeline with"
	for name := range strings.FieldsSeq(useless) {
		if f.flags.Changed(name) {
			fmt.Fprintf(a.Stderr, "--%s has no effect with --replay: the recording has it\n", name)
		}
	}
	rec, err := replay.ReadFile(f.recording.replay)
	if err != nil {
		return fmt.Errorf("--replay: %w", err)
	}
	player, err := replay.NewPlayer(rec)
	if err != nil {
		return fmt.Errorf("--replay %s: %w", f.recording.replay, err)
	}
	if _, partial, _ := player.Questions(); len(partial) > 0 {
		fmt.Fprintf(a.Stderr, "%s was stopped: %d questions that lack answers in some modes are left out\n",
			f.recording.replay, len(partial))
	}
	r, s, err := f.replayOptions(player)
	if err != nil {
		return err
	}
	return f.replayCells(ctx, a, r, s, rec.Run)
}

func (f *routingFlags) replayOptions(p *replay.Player) (r routing.ReplayOptions, s remote.StageOptions, err error) {
	if err := f.setRecordedFlags(p); err != nil {
		return r, s, err
	}
	o, s, err := f.routingOptions(demo.Router())
	if err != nil {
		return r, s, err
	}
	if o.Router.Policy == router.Learned && !f.flags.Changed("router") {
		o.Router.Net, o.Router.Calibration = nil, p.Calibration // use the router of the recording
	}
	r = routing.ReplayOptions{Player: p, Modes: o.Modes, Router: o.Router, Draft: o.Draft}
	if f.flags.Changed("questions") {
		r.Questions = f.questions
	}
	if f.flags.Changed("cloud-ms") {
		r.CloudPace = new(o.CloudPace)
	}
	return r, s, nil
}

func (f *routingFlags) replayCellOptions(
	c cellFlags, r routing.ReplayOptions, s remote.StageOptions,
) routing.ReplayOptions {
	if f.isAnyGiven(linkFlags) {
		c.applyCell(new(routing.Options), &s)
		r.Link = &s
	}
	if f.flags.Changed("edge-tps") {
		r.EdgeTPS, r.RowCost = f.edgeTPS, r.Player.RowCost
		if f.flags.Changed("edge-row-cost") {
			r.RowCost = f.rowCost
		}
	}
	return r
}

// decodingFlags lists the flags that control when to ask and how to draft.
const decodingFlags = "policy threshold budget branches window inflight deadline no-audit no-warm ahead " +
	"verify-every lookup"

func (f *routingFlags) setRecordedFlags(p *replay.Player) error {
	if !f.flags.Changed("modes") {
		f.modes = strings.Join(p.Modes(), ",")
	}
	rule := f.isAnyGiven("policy threshold budget router")
	for name := range strings.FieldsSeq(decodingFlags) {
		flag, recorded := f.flags.Lookup(name), p.Run.Flags[name]
		isRule := name == "policy" || name == "threshold" || name == "budget"
		unset := recorded == "" || recorded == flag.DefValue && name != "budget" || recorded == "0" && isRule
		if flag.Changed || unset || isRule && rule {
			continue
		}
		if err := flag.Value.Set(recorded); err != nil {
			return fmt.Errorf("--replay %s: %w: run.flags.%s: %w", f.recording.replay, replay.ErrFormat, name, err)
		}
		flag.Changed = isRule // the others are as if the user had not given them
	}
	if !rule && p.Run.Flags["router"] != "" && p.Run.Flags["policy"] == "" {
		f.route.Policy = "learned" // with the recorded router; its file may be gone
	}
	return nil
}

func (f *routingFlags) replayCells(
	ctx context.Context, a *cli.App, r routing.ReplayOptions, s remote.StageOptions, recorded record.Run,
) error {
	about := f.describeReplay(a, recorded)
	var all []outcome.Report
	for _, c := range f.cellCombinations() {
		reports, err := routing.Replay(ctx, f.replayCellOptions(c, r, s))
		if err != nil {
			return err
		}
		if err := f.printReplay(a, reports, about, recorded); err != nil {
			return err
		}
		all = append(all, reports...)
	}
	return f.finishReport(a, all, about)
}

// describeReplay describes a replay. Its figures are those of the machine and the date of the recording.
func (f *routingFlags) describeReplay(a *cli.App, recorded record.Run) record.Run {
	about := group.Measured(a, "bench routing")
	about.Date, about.Machine = recorded.Date, recorded.Machine
	about.Model, about.Large = recorded.Model, recorded.Large
	const asked = " workload questions parallel repeat with max-tokens raw"
	for name := range strings.FieldsSeq(linkFlags + " " + paceFlags + asked) {
		other := f.flags.Changed(name) || f.isAnyGiven(linkFlags) && slices.Contains(strings.Fields(linkFlags), name)
		if value, ok := recorded.Flags[name]; ok && !other {
			about.Flags[name] = value
		}
	}
	return about
}

func (f *routingFlags) printReplay(a *cli.App, reports []outcome.Report, about, recorded record.Run) error {
	if !f.json {
		return errors.Join(f.printReports(a, reports, about), printAssumed(a, reports))
	}
	for _, r := range reports {
		line := struct {
			outcome.Report
			Recorded record.Run `json:"recorded_run"`
		}{r, recorded}
		if err := group.PrintResult(a, line, about); err != nil {
			return err
		}
	}
	return nil
}

func printAssumed(a *cli.App, reports []outcome.Report) error {
	var b strings.Builder
	for _, r := range reports {
		if m := r.Assumed; *m != (replay.Assumed{}) {
			fmt.Fprintf(&b, "%s: the recording lacks %d heads and %d answers; %d shown tokens rest on these\n",
				r.Mode, m.Heads, m.Answers, m.Text)
		}
	}
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}
