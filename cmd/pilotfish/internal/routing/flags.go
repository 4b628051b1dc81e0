package routing

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// modesHelp explains the modes.
const modesHelp = `  local        the small model alone
  cloud        the large model alone, its text streamed over HTTP
  paper        routing as in the paper: wait for each answer, over HTTP, sending the whole text each time
  serial       wait for each answer, over our protocol
  pipelined-N  keep drafting while answers are pending, from N guesses at each answer, or from as many as pay off
               (auto)
  verified     like pipelined with --branches guesses, but each answer also checks the tokens before it: where the large
               model would have chosen another one, that one is used. The text is the large model's own
  verified:M   like verified, but a token is accepted if the large model prefers its own by no more than M nats

For comparison there is ordinary speculative decoding over a network (Leviathan et al., arXiv 2211.17192, greedy), over
our protocol, without a router and without answers ahead:

  speculative-K  the small model drafts K tokens and waits; the large one says which are accepted and what follows
  overlapped-K   the same, but drafting continues meanwhile

HTTP is subject to the round trip of the link, but not to its losses or traces.`

// promiseHelp explains when pipelined decoding gives the tokens of serial decoding.
const promiseHelp = `Pipelined modes give exactly the tokens of serial as long as every answer arrives before its
deadline (--deadline). Otherwise the small model's token is used and the text may continue differently: the column
"timed out" or "late" counts such tokens, and "same" then says "no", or "as" that the text is another one. With
--deadline off, the tokens are the same even over poor links. Likewise, the tokens of verified, speculative-K and
overlapped-K are those of the large model alone, unless some are shown "unverified".`

// routingFlags has the flags of `demo` and `bench routing`.
type routingFlags struct {
	route     group.RouteFlags
	flags     *pflag.FlagSet // to see which flags were given
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
	sweeps    bool // flags may be lists, for several cells
	cloudMS   float64
	rowCost   float64
	seed      uint64
	parallel  int
	lookup    group.LookupRows
	upstream  group.UpstreamFlags
	recording recordFlags
	timeline  group.TimelineFlag
	json      bool
	page      pageFlag // of demo
}

// Limits of the ranges of flags.
const (
	minEdgeTPS = 0.1
)

func (f *routingFlags) register(c *cobra.Command, edgeTPS float64) {
	p := c.Flags()
	f.flags = p
	f.route.RegisterMeasured(p)
	f.lookup = group.LookupOff // modes are compared with one pass per token, which --edge-tps limits
	cli.AddValue(p, "lookup", &f.lookup)
	f.timeline.Register(p)
	f.edgeTPS = floats(edgeTPS)
	pace := p.Lookup("edge-tps")
	pace.Value, pace.DefValue = &f.edgeTPS, f.edgeTPS.String()
	cli.Add(p, "modes", &f.modes, "local,cloud,paper,serial,pipelined-2,pipelined-4,verified")
	cli.Add(p, "questions", &f.questions, 100)
	f.rtt, f.loss = durations(100*time.Millisecond), floats(0)
	cli.AddValue(p, "rtt", &f.rtt)
	cli.AddValue(p, "loss", &f.loss)
	cli.Add(p, "trace", &f.traces, nil)
	cli.Add(p, "cloud-ms", &f.cloudMS, 15)
	cli.Add(p, "edge-row-cost", &f.rowCost, 0)
	cli.Add(p, "seed", &f.seed, 0)
	cli.Add(p, "parallel", &f.parallel, 8)
	cli.Add(p, "json", &f.json, false)
}

// options converts the flags to the options of package routing. own is the router that is a part of the small model, if
// any.
func (f *routingFlags) options(own []byte) (o routing.Options, s remote.StageOptions, err error) {
	if o.Modes, err = parseModes(f.modes); err != nil {
		return o, s, err
	}
	if err := f.check(); err != nil {
		return o, s, err
	}
	o.Draft = f.route.Draft()
	if o.Router, err = f.route.Router(own); err != nil {
		return o, s, err
	}
	if err := f.certified(&o.Router); err != nil {
		return o, s, err
	}
	o.Draft.Lookup = int(f.lookup)
	o.RowCost, o.Parallel, o.Repeat, o.WarmUp = f.rowCost, f.parallel, f.repeat, f.warmUp
	o.Raw, o.MaxTokens = f.raw, f.maxTokens
	o.CloudPace = time.Duration(f.cloudMS * float64(time.Millisecond))
	s = remote.StageOptions{Seed: f.seed, AnswerTime: o.CloudPace}
	f.cells()[0].set(&o, &s)
	return o, s, nil
}

// certified sets the threshold of the router's certificate, like run, if neither a threshold nor a budget is given. It
// changes the flag, so that the report and the recording have the threshold.
func (f *routingFlags) certified(o *router.Options) error {
	if o.Policy != router.Learned || f.anyGiven("threshold budget") || f.route.File.Certificate == nil {
		return nil
	}
	o.Threshold = &f.route.Threshold
	return f.flags.Set("threshold", fmt.Sprint(f.route.File.Certificate.Threshold))
}

// parseModes parses a list of modes.
func parseModes(list string) ([]outcome.Mode, error) {
	all, err := outcome.ParseModes(list)
	if err != nil {
		return nil, cli.Usagef("--modes: %w", err)
	}
	return all, nil
}

// check returns an error for values out of range, and for unreadable traces.
func (f *routingFlags) check() error {
	for _, err := range []error{
		f.checkLists(),
		group.CheckRange("questions", f.questions, 1, group.MaxQuestions, "1 or more"),
		group.CheckRange("parallel", f.parallel, 1, group.MaxDevices, "1 to 64 answers at the same time"),
		f.checkTraces(),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkTraces checks the traces before anything begins.
func (f *routingFlags) checkTraces() error {
	for _, path := range f.paths.values {
		var o link.Options
		if err := o.AddTrace(path); err != nil {
			return fmt.Errorf("--traces %s: %w", path, err)
		}
	}
	return group.CheckTraces(f.traces)
}
