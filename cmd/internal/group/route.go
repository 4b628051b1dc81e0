package group

import (
	"cmp"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// RouteFlags has the flags that select the tokens for the cloud, and that of the time to wait for it.
type RouteFlags struct {
	set        *pflag.FlagSet // the set that they are registered in, to see which were given
	Policy     string
	Threshold  float64
	Budget     float64
	RouterFile string
	Deadline   time.Duration // see [pilotfish.Route]
	Verify     Margin
	answers    bool // for users: without a policy, the large model verifies

	File        *router.File        // the router of --router, or the one of the model; set by Router
	Certificate *router.Certificate // that the threshold is from; nil: it is not from one. Set by Router, for answers
}

// Register adds the flags of commands with routing.
func (r *RouteFlags) Register(f *pflag.FlagSet) {
	r.set = f
	cli.Add(f, "policy", &r.Policy, "")
	cli.Add(f, "threshold", &r.Threshold, 0)
	cli.Add(f, "budget", &r.Budget, router.DefaultBudget)
	cli.Add(f, "router", &r.RouterFile, "")
	cli.AddValue(f, "deadline", (*deadlineFlag)(&r.Deadline))
}

// RegisterVerify adds the flag of verification, for commands that answer users.
func (r *RouteFlags) RegisterVerify(f *pflag.FlagSet) {
	r.answers = true
	cli.AddValue(f, "verify", &r.Verify)
}

// deadlineFlag is the time to wait for an answer: 0, auto, as the gateway's answers take; off, which is -1, without
// limit.
type deadlineFlag time.Duration

const deadlineOff deadlineFlag = -1

// String implements pflag.Value.
func (d *deadlineFlag) String() string {
	switch *d {
	case deadlineOff:
		return "off"
	case 0:
		return "auto"
	}
	return time.Duration(*d).String()
}

// Set implements pflag.Value.
func (d *deadlineFlag) Set(s string) error {
	t, err := time.ParseDuration(s)
	switch {
	case s == "auto":
		*d = 0
	case s == "off", err == nil && t == 0:
		*d = deadlineOff
	case err != nil || t < 0:
		return errors.New("give a time such as 800ms or 2s, auto, or off to wait as long as it takes")
	default:
		*d = deadlineFlag(t)
	}
	return nil
}

// Type implements pflag.Value.
func (d *deadlineFlag) Type() string { return "time" }

// Given reports whether a flag is on the command line.
func (r *RouteFlags) Given(name string) bool { return r.set != nil && r.set.Changed(name) }

// Route returns how answers are drafted, without a cloud and a router.
func (r *RouteFlags) Route() pilotfish.Route {
	return pilotfish.Route{Deadline: r.Deadline, Branches: engine.AutoBranches, Verify: r.Verify.On,
		Margin: r.Verify.Nats}
}

// Verifies reports whether the large model verifies answers, if it can.
func (r *RouteFlags) Verifies() bool {
	o := r.wantedOptions()
	if o.Policy == "" && !r.Given("router") {
		o, _, _ = (*router.File)(nil).Complete(o)
	}
	return r.Verify.On || o.Policy.Verifies()
}

// Unverified is the warning that a gateway cannot verify as the policy of by says, and what takes its place; "" if it
// can, or if the policy does not verify.
func (r *RouteFlags) Unverified(g *pilotfish.Gateway, by pilotfish.Router) string {
	if o, err := r.Router(nil); err != nil || !o.Policy.Verifies() {
		return ""
	}
	err := g.CannotVerify(pilotfish.Sampling{}, by)
	if err == nil {
		return ""
	}
	return err.Error() + ". Until then it is asked for tokens of which the small model is unsure"
}

// Routed is [RouteFlags.Route] with the router.
func (r *RouteFlags) Routed() (route pilotfish.Route, err error) {
	route = r.Route()
	route.Router, err = r.NewRouter()
	return route, err
}

// NewRouter returns a router with a bound on the share of tokens from the cloud over all answers.
func (r *RouteFlags) NewRouter() (pilotfish.Router, error) {
	o, err := r.Router(nil)
	if err != nil {
		return nil, err
	}
	return r.RouterOf(o, r.Certificate)
}

// RouterOf returns a router with options that [RouteFlags.Router] has completed; by is the certificate that the
// threshold is from, if any.
func (r *RouteFlags) RouterOf(o router.Options, by *router.Certificate) (pilotfish.Router, error) {
	public := pilotfish.RouterOptions{Policy: string(o.Policy), Balance: o.Balance}
	if by == nil {
		public.Threshold, public.Budget = o.Threshold, o.Budget
	}
	if r.File != nil {
		public.File = r.RouterFile
	}
	return pilotfish.NewRouter(public)
}

// Router returns the options of the policy: for answers to users complete, otherwise with a threshold or a budget only
// if one is given. own is the router that is a part of the model, if there is one.
func (r *RouteFlags) Router(own []byte) (o router.Options, err error) {
	o = r.wantedOptions()
	if o.Policy == "" && r.Given("router") || o.Policy == router.Learned || o.Policy == router.Judged {
		if err := r.readRouterFile(own, o.Policy); err != nil {
			return o, err
		}
	}
	if r.answers {
		o, r.Certificate, err = r.File.Complete(o)
	} else if r.File != nil {
		o, err = measuredOptions(o, r.File)
	}
	if err != nil {
		return o, cli.Usagef("--router %s: %w", r.RouterFile, err)
	}
	if o.Policy.Verifies() && !r.answers {
		return o, cli.Usagef("--policy %s is for answers to users: give --modes verified:3 to measure verification",
			o.Policy)
	}
	return o, nil
}

// measuredOptions adds the networks of a file, which measurements use with the policy learned if it has one.
func measuredOptions(o router.Options, f *router.File) (router.Options, error) {
	if o.Policy == "" {
		o.Policy = router.Learned
		if f.Net == nil {
			o.Policy = router.Margin
		}
	}
	of, err := f.Options(o.Policy)
	of.Threshold, of.Budget = o.Threshold, o.Budget
	return of, err
}

func (r *RouteFlags) readRouterFile(own []byte, p router.Policy) (err error) {
	switch {
	case r.RouterFile != "":
		r.File, err = engine.ReadRouter(r.RouterFile)
	case own != nil:
		r.File, err = ParseRouter(own)
	default:
		err = cli.Usagef("--policy %s needs a router: give its file with --router", cmp.Or(p, router.Learned))
	}
	return err
}

// wantedOptions returns what the flags say of the policy, without the router file.
func (r *RouteFlags) wantedOptions() (o router.Options) {
	switch {
	case r.Policy != "":
		o.Policy = router.Policy(r.Policy)
	case r.Given("router"): // that of the file
	case !r.answers:
		o.Policy = router.Margin
	case r.Given("threshold"):
	case r.Verify.On:
		o.Policy = router.Never // what it lets stand is verified
	case r.Given("verify"): // it is off
		o.Policy = router.Margin
	}
	switch {
	case o.Policy == router.Never || o.Policy == router.Always: // a threshold or budget has no effect
	case r.Given("threshold") && o.Policy != router.Verify:
		o.Threshold = &r.Threshold
	case r.Given("budget"):
		o.Budget = r.Budget
	}
	return o
}

// ParseRouter parses a router file.
func ParseRouter(b []byte) (*router.File, error) {
	f, err := gguf.Parse(b)
	if err != nil {
		return nil, err
	}
	return router.Read(f)
}
