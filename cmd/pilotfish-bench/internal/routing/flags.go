package routing

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// promiseHelp explains when pipelined decoding gives the tokens of serial decoding.
const promiseHelp = `Pipelined modes give exactly the tokens of serial as long as every answer arrives before its
deadline (--deadline). Otherwise the small model's token is used and the text may continue differently: the column
"late" counts such tokens, and "as" says in how many answers the text is another one. With --deadline off, the tokens
are the same even over poor links. Likewise, the tokens of verified, speculative-K and overlapped-K are those of the
large model alone, unless some are shown "unverified".`

// routingFlags has the flags of the command.
type routingFlags struct {
	route     group.RouteFlags
	flags     *pflag.FlagSet // to see which flags were given
	modes     string
	questions int
	rtt       group.List[time.Duration]
	loss      group.List[float64]
	traces    []string
	repeat    int
	warmUp    int
	raw       bool
	maxTokens int
	seed      uint64
	edgeTPS   float64
	rowCost   float64
	cloudMS   float64
	parallel  int
	draft     engine.DraftOptions // without the deadline
	noAudit   bool
	noWarm    bool
	upstream  group.UpstreamFlags
	recording recordFlags
	timeline  measure.TimelineFlag
	json      bool
}

func (f *routingFlags) registerFlags(c *cobra.Command) {
	p := c.Flags()
	f.flags = p
	f.route.Register(p)
	f.registerDrafting(p)
	f.timeline.Register(p)
	measure.Add(p, "modes", &f.modes, "local,cloud,paper,serial,pipelined-2,pipelined-4,verified")
	measure.Add(p, "questions", &f.questions, 100)
	f.rtt, f.loss = group.Durations("100ms"), group.Floats("0")
	measure.AddValue(p, "rtt", &f.rtt)
	measure.AddValue(p, "loss", &f.loss)
	measure.Add(p, "trace", &f.traces, nil)
	measure.Add(p, "edge-tps", &f.edgeTPS, 0)
	measure.Add(p, "edge-row-cost", &f.rowCost, 0)
	measure.Add(p, "cloud-ms", &f.cloudMS, 15)
	cli.Add(p, "seed", &f.seed, 0)
	cli.Add(p, "parallel", &f.parallel, 8)
	cli.Add(p, "json", &f.json, false)
}

// registerDrafting adds the flags of decoding with a cloud.
func (f *routingFlags) registerDrafting(p *pflag.FlagSet) {
	d := &f.draft
	d.Branches, d.Lookup = engine.AutoBranches, lookupOff // one pass per token, which --edge-tps limits
	measure.AddValue(p, "branches", newAutoNumber(&d.Branches, engine.AutoBranches))
	measure.Add(p, "window", &d.Window, 32)
	measure.Add(p, "inflight", &d.InFlight, 4)
	measure.AddValue(p, "ahead", newAutoNumber(&d.Ahead, 0))
	measure.AddValue(p, "verify-every", newAutoNumber(&d.VerifyEvery, 0))
	measure.AddValue(p, "lookup", newLookupNumber(&d.Lookup))
	measure.Add(p, "no-audit", &f.noAudit, false)
	measure.Add(p, "no-warm", &f.noWarm, false)
}

// routingOptions converts the flags to the options of package routing. own is the router that is a part of the small
// model, if any.
func (f *routingFlags) routingOptions(own []byte) (o routing.Options, s remote.StageOptions, err error) {
	if o.Modes, err = parseModes(f.modes); err != nil {
		return o, s, err
	}
	if err := f.checkValues(); err != nil {
		return o, s, err
	}
	o.Draft = f.draft
	if o.Draft.Deadline, o.Draft.Audit = f.route.Deadline, !f.noAudit; f.noWarm {
		o.Draft.Warm = -1
	}
	if o.Router, err = f.route.Router(own); err != nil {
		return o, s, err
	}
	if err := f.setDefaultBound(&o.Router, own == nil); err != nil {
		return o, s, err
	}
	o.EdgeTPS, o.RowCost, o.Parallel, o.Repeat, o.WarmUp = f.edgeTPS, f.rowCost, f.parallel, f.repeat, f.warmUp
	if f.edgeTPS == 0 && !f.flags.Changed("edge-row-cost") {
		o.RowCost = 0 // the default is a share of a pass at the default pace
	}
	o.Raw, o.MaxTokens = f.raw, f.maxTokens
	o.CloudPace = time.Duration(f.cloudMS * float64(time.Millisecond))
	s = remote.StageOptions{Seed: f.seed, AnswerTime: o.CloudPace}
	if slices.ContainsFunc(o.Modes, func(m outcome.Mode) bool { return m.Judged }) {
		if err := f.setJudge(&o, &s); err != nil {
			return o, s, err
		}
	}
	f.cellCombinations()[0].applyCell(&o, &s)
	return o, s, nil
}

// recordedJudge stands for the judge of a recording, whose verdicts it has.
const recordedJudge = "as recorded"

// setJudge sets the judge of the router file; in a replay, that of the recording.
func (f *routingFlags) setJudge(o *routing.Options, s *remote.StageOptions) error {
	switch {
	case f.recording.replay != "":
		o.Draft.Judge = recordedJudge
		return nil
	case f.route.RouterFile == "":
		return cli.Usagef("--modes %s: a judge is needed: give its router file with --router", f.modes)
	}
	file, err := engine.ReadRouter(f.route.RouterFile)
	if err == nil && file.Judge == nil {
		err = errors.New("it has no judge")
	}
	if err != nil {
		return fmt.Errorf("--router %s: %w", f.route.RouterFile, err)
	}
	s.Judge, o.Draft.Judge = file.Judge, file.Judge.Fingerprint()
	return nil
}

// setDefaultBound sets, like run, the threshold of the router's certificate, or for models of the user the usual
// budget, if neither a threshold nor a budget is given. It changes the flags, so that the report and the recording have
// what is used.
func (f *routingFlags) setDefaultBound(o *router.Options, users bool) error {
	unused := f.flags.Lookup("budget")
	switch {
	case unused.Changed:
		return nil
	case f.flags.Changed("threshold"), o.Policy == router.Never, o.Policy == router.Always:
	case o.Policy == router.Learned && f.route.File.Certificate != nil && f.route.File.Policy() == o.Policy:
		o.Threshold = &f.route.Threshold
		if err := f.flags.Set("threshold", fmt.Sprint(f.route.File.Certificate.Threshold)); err != nil {
			return err
		}
	case users:
		o.Budget = router.DefaultBudget
		return f.flags.Set("budget", fmt.Sprint(o.Budget))
	}
	return unused.Value.Set("0")
}

func parseModes(list string) ([]outcome.Mode, error) {
	all, err := outcome.ParseModes(list)
	if err != nil {
		return nil, cli.Usagef("--modes: %w", err)
	}
	return all, nil
}

// maxParallel limits the devices: with more, the one process of a measurement mainly measures itself.
const maxParallel = 64

func (f *routingFlags) checkValues() error {
	if f.parallel > maxParallel {
		return cli.Usagef("--parallel %d is out of range: give 1 to %d", f.parallel, maxParallel)
	}
	for _, traces := range f.traceSets() {
		if err := measure.CheckTraces(traces); err != nil {
			return err
		}
	}
	return nil
}
