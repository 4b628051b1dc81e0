package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// modesHelp says what the modes are.
const modesHelp = `  local        the small model alone
  cloud        the large model alone, its text streamed over HTTP
  paper        routing as in the paper: wait for each answer, over HTTP, sending the whole text each time
  serial       wait for each answer, over our protocol
  pipelined-N  keep drafting while answers are under way, from N guesses at each answer, or from as many as pay off
               (auto)
  verified     like pipelined with --branches guesses, but each answer also checks the tokens before it: where the large
               model would have chosen another one, that one is used. The text is the large model's own
  verified:M   like verified, but a token is accepted if the large model prefers its own by no more than M nats

For comparison there is ordinary speculative decoding over a network (Leviathan et al., arXiv 2211.17192, greedy), over
our protocol, without a router and without answers ahead:

  speculative-K  the small model drafts K tokens and waits; the large one says which are accepted and what follows
  overlapped-K   the same, but drafting continues meanwhile

HTTP is subject to the round trip of the link, but not to its losses or traces.`

// promiseHelp says when pipelined decoding gives the tokens of serial decoding.
const promiseHelp = `Pipelined modes give exactly the tokens of serial as long as every answer arrives before its
deadline (--deadline). Otherwise the small model's token is used and the text may continue differently: the column
"timed out" or "late" counts such tokens, and "same" then says "no", or "as" that the text is another one. With
--deadline off, the tokens are the same even over poor links. Likewise, the tokens of verified, speculative-K and
overlapped-K are those of the large model alone, unless some are shown "unverified".`

// routingFlags are shared by `demo` and `bench routing`.
type routingFlags struct {
	route     routeFlags
	flags     *pflag.FlagSet // to know which of them were given
	modes     string
	questions int
	rtt       listFlag[time.Duration]
	loss      listFlag[float64]
	edgeTPS   listFlag[float64]
	traces    []string
	paths     listFlag[string]
	repeat    int
	warmUp    int
	raw       bool
	maxTokens int
	sweeps    bool // several cells are possible
	cloudMS   float64
	rowCost   float64
	seed      uint64
	parallel  int
	lookup    lookupRows
	upstream  upstreamFlags
	recording recordFlags
	price     priceFlag
	timeline  questionTimeline
	qlog      qlogFlag
	json      bool
	page      pageFlag // of demo
}

// The ends of the ranges of flags.
const (
	longestRTT   = 10 * time.Second
	maxCloudMS   = 60_000
	minEdgeTPS   = 0.1
	maxEdgeTPS   = 1e6
	maxDevices   = 64 // with more of them one process measures little but itself
	maxQuestions = 1_000_000
)

func (f *routingFlags) register(c *cobra.Command, edgeTPS float64) {
	p := c.Flags()
	f.flags = p
	f.route.register(p)
	f.lookup = lookupOff // the modes are compared with a pass for each token, which --edge-tps bounds
	p.Var(&f.lookup, "lookup", lookupHelp+". Applies to all modes but cloud and paper")
	p.Lookup("branches").Usage = "with verified: " + p.Lookup("branches").Usage + "; other modes state their own"
	p.Lookup("router").Usage += ". If it has a certificate, that threshold is used unless --threshold or --budget " +
		"is given"
	p.Lookup("verify-every").Usage = "with verified: ask after this many `tokens` that the large model has not " +
		"checked, 1 to 1024"
	f.price.register(p)
	f.timeline.register(p)
	f.qlog.register(p)
	f.edgeTPS = floats(edgeTPS)
	pace := p.Lookup("edge-tps")
	pace.Value, pace.DefValue = &f.edgeTPS, f.edgeTPS.String()
	p.StringVar(&f.modes, "modes",
		"local,cloud,paper,serial,pipelined-2,pipelined-4,verified", "`modes` to compare, in order")
	p.IntVar(&f.questions, "questions", 100, "number of questions asked in each mode")
	f.rtt, f.loss = durations(100*time.Millisecond), floats(0)
	p.Var(&f.rtt, "rtt", "round-trip time to the cloud, up to 10s")
	p.Var(&f.loss, "loss", "`share` of packets lost on the link, in each direction")
	p.StringArrayVar(&f.traces, "trace", nil,
		"recorded round trips or capacity: `file` NAME.rtt.csv, NAME.up or NAME.down; may be given once for each kind")
	p.Float64Var(&f.cloudMS, "cloud-ms", 15, "minimum `milliseconds` that the large model takes per token")
	p.Float64Var(&f.rowCost, "edge-row-cost", 0, "with --edge-tps: additional time for each further token in "+
		"a pass, as a `share` of the time of the pass, 0 (none) to 1")
	p.Uint64Var(&f.seed, "seed", 0, "random seed for --loss")
	p.IntVar(&f.parallel, "parallel", 8, "answers generated at the same time, each as if on its own device; up to 64")
	p.BoolVar(&f.json, "json", false, "print one JSON object per mode")
}

// options turns the flags into what package routing takes. own is the router that comes with the small model, if any.
func (f *routingFlags) options(own []byte) (o routing.Options, s remote.StageOptions, err error) {
	if o.Modes, err = parseModes(f.modes); err != nil {
		return o, s, err
	}
	if err := f.check(o.Modes); err != nil {
		return o, s, err
	}
	if o.Draft, err = f.route.draft(); err != nil {
		return o, s, err
	}
	if o.Router, err = f.route.router(own); err != nil {
		return o, s, err
	}
	if err := f.certified(&o.Router); err != nil {
		return o, s, err
	}
	o.Draft.Lookup = int(f.lookup)
	o.RowCost, o.Parallel, o.Repeat, o.WarmUp = f.rowCost, f.parallel, f.repeat, f.warmUp
	o.Raw, o.MaxTokens = f.raw, f.maxTokens
	o.Prices = f.price.list
	o.CloudPace = time.Duration(f.cloudMS * float64(time.Millisecond))
	s = remote.StageOptions{Seed: f.seed, AnswerTime: o.CloudPace}
	f.cells()[0].set(&o, &s)
	return o, s, nil
}

// certified takes the threshold of the router's certificate, as run does, where neither a threshold nor a budget is
// given. The flag then says so in the report, and in a recording.
func (f *routingFlags) certified(o *router.Options) error {
	if o.Policy != router.Learned || f.anyGiven("threshold budget") || f.route.file.Certificate == nil {
		return nil
	}
	o.Threshold = &f.route.threshold
	return f.flags.Set("threshold", fmt.Sprint(f.route.file.Certificate.Threshold))
}

// parseModes reads a list of modes.
func parseModes(list string) ([]outcome.Mode, error) {
	all, err := outcome.ParseModes(list)
	if err != nil {
		return nil, usagef("--modes: %w", err)
	}
	return all, nil
}

// check refuses values out of range, traces that cannot be read, and flags without an effect.
func (f *routingFlags) check(modes []outcome.Mode) error {
	for _, err := range []error{
		f.checkLists(),
		checkRange("questions", f.questions, 1, maxQuestions, "1 or more"),
		checkRange("parallel", f.parallel, 1, maxDevices, "1 to 64 answers at the same time"),
		checkRange("cloud-ms", f.cloudMS, 0, maxCloudMS, "0 to 60000 milliseconds"),
		checkRange("edge-row-cost", f.rowCost, 0, 1, "a share from 0 to 1"),
		f.timeline.check(f.flags, f.questions),
		f.checkTraces(),
		f.checkUse(modes),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRange refuses what is not in [low, high], which NaN never is. want says what is.
func checkRange[T cmp.Ordered](flag string, v, low, high T, want string) error {
	if v >= low && v <= high {
		return nil
	}
	return usagef("--%s %v is out of range: give %s", flag, v, want)
}

// checkTraces reads the traces, so that what is wrong with one is said before anything begins.
func (f *routingFlags) checkTraces() error {
	if len(f.traces) > 0 && len(f.paths.values) > 0 {
		return usagef("--trace and --traces exclude each other: the one is for the only link, the other for a link " +
			"each")
	}
	for _, path := range f.paths.values {
		var o link.Options
		if err := o.AddTrace(path); err != nil {
			return fmt.Errorf("--traces %s: %w", path, err)
		}
	}
	return checkTraces(f.traces)
}

// checkTraces reads the traces of one link.
func checkTraces(paths []string) error {
	rtt, up, down := 0, 0, 0
	for _, path := range paths {
		var o link.Options
		if err := o.AddTrace(path); err != nil {
			return fmt.Errorf("--trace %s: %w", path, err)
		}
		if o.RTT != nil {
			rtt++
		}
		if o.Up.Capacity != nil {
			up++
		}
		if o.Down.Capacity != nil {
			down++
		}
		if max(rtt, up, down) > 1 {
			return usagef("--trace %s is a second trace of its kind: give only one of round trips, one up and one down",
				path)
		}
	}
	return nil
}

// checkUse refuses flags that none of the modes looks at.
func (f *routingFlags) checkUse(modes []outcome.Mode) error {
	if f.flags.Changed("branches") && !slices.ContainsFunc(modes, outcome.Mode.Guesses) {
		return usagef("--branches has no effect with --modes %s: add verified, or name a mode with its number of "+
			"branches, such as pipelined-%s", f.modes, &f.route.branches)
	}
	for _, use := range []struct {
		flags string
		by    func(outcome.Mode) bool
		modes string
	}{
		{"edge-tps edge-row-cost timeline timeline-question", outcome.Mode.SmallModel, "all but cloud"},
		{"rtt cloud-ms", outcome.Mode.LargeModel, "all but local"},
		{"price", outcome.Mode.LargeModel, "all but local"},
		{"policy threshold budget router", outcome.Mode.Routes, "paper, serial, pipelined-N and verified"},
		{"deadline", outcome.Mode.Asks, "all but local and cloud"},
		{"loss trace traces seed no-warm qlog", outcome.Mode.OverLink, "all but local, cloud and paper"},
		{"no-audit", outcome.Mode.AsSerial, "serial and pipelined-N"},
		{"ahead", outcome.Mode.Aheads, "serial, pipelined-N and verified"},
		{"verify-every", outcome.Mode.Dials, "verified"},
		{"window inflight", outcome.Mode.Pipelined, "pipelined-N, verified and overlapped-K"},
		{"lookup", outcome.Mode.LooksUp, "all but cloud and paper"},
	} {
		if slices.ContainsFunc(modes, use.by) {
			continue
		}
		for name := range strings.FieldsSeq(use.flags) {
			if f.flags.Changed(name) {
				return usagef("--%s has no effect with --modes %s: add a mode that it is for (%s), or leave it out",
					name, f.modes, use.modes)
			}
		}
	}
	if f.flags.Changed("edge-row-cost") &&
		!slices.ContainsFunc(f.edgeTPS.values, func(x float64) bool { return x != 0 }) {
		return usagef("--edge-row-cost has no effect at full speed: give --edge-tps, or leave it out")
	}
	if f.flags.Changed("seed") && !f.flags.Changed("loss") {
		return usagef("--seed has no effect without --loss: it decides which packets are lost")
	}
	return nil
}
