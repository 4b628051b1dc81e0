package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// routeFlags say which tokens the cloud is asked for, and how drafting goes on meanwhile.
type routeFlags struct {
	set       *pflag.FlagSet // where they are registered, and which of them were given
	policy    string
	threshold float64
	budget    float64
	routerGGM string
	branches  branchCount
	window    int
	inflight  int
	deadline  deadline
	edgeTPS   float64
	noAudit   bool
	ahead     int
	every     int
	noWarm    bool
	value     bool // the policy value is possible

	file *router.File // what --router names, or what comes with the model; set by router
}

// register adds the flags of whatever routes.
func (r *routeFlags) register(f *pflag.FlagSet) {
	r.set, r.deadline, r.branches = f, deadline(800*time.Millisecond), engine.AutoBranches
	add(f, "policy", &r.policy, "")
	add(f, "threshold", &r.threshold, 0)
	add(f, "budget", &r.budget, 0)
	add(f, "router", &r.routerGGM, "")
	addValue(f, "branches", &r.branches)
	add(f, "window", &r.window, 32)
	add(f, "inflight", &r.inflight, 4)
	addValue(f, "deadline", &r.deadline)
	add(f, "ahead", &r.ahead, 1)
}

// registerMeasured adds the flags for measuring what the others do.
func (r *routeFlags) registerMeasured(f *pflag.FlagSet) {
	r.register(f)
	add(f, "no-audit", &r.noAudit, false)
	add(f, "no-warm", &r.noWarm, false)
	add(f, "edge-tps", &r.edgeTPS, 0)
	add(f, "verify-every", &r.every, defaultVerifyEvery)
}

// deadline is a time to wait for an answer. Off, which is -1, means without end.
type deadline time.Duration

const deadlineOff deadline = -1

// String implements pflag.Value.
func (d *deadline) String() string {
	if *d == deadlineOff {
		return "off"
	}
	return time.Duration(*d).String()
}

// Set implements pflag.Value.
func (d *deadline) Set(s string) error {
	if s == "off" {
		*d = deadlineOff
		return nil
	}
	t, err := time.ParseDuration(s)
	switch {
	case err != nil || t < 0:
		return errors.New("give a time such as 800ms or 2s, or off to wait as long as it takes")
	case t == 0:
		*d = deadlineOff
	default:
		*d = deadline(t)
	}
	return nil
}

// Type implements pflag.Value.
func (d *deadline) Type() string { return "time" }

// given reports whether a flag is on the command line.
func (r *routeFlags) given(name string) bool { return r.set != nil && r.set.Changed(name) }

// draft returns the options of drafting.
func (r *routeFlags) draft() engine.DraftOptions {
	o := engine.DraftOptions{
		Branches: int(r.branches), Window: r.window, InFlight: r.inflight,
		Deadline: time.Duration(r.deadline), Audit: !r.noAudit,
		Ahead: r.ahead, VerifyEvery: r.every,
	}
	if r.noWarm {
		o.Warm = -1
	}
	return o
}

// router returns the options of the policy. own is the router that belongs to the model, where one comes with it.
func (r *routeFlags) router(own []byte) (router.Options, error) {
	policy, err := r.rule()
	if err != nil {
		return router.Options{}, err
	}
	o := router.Options{Policy: policy, Budget: r.budget}
	if err := r.checkPolicy(policy, own != nil); err != nil {
		return o, err
	}
	if r.given("threshold") {
		o.Threshold = &r.threshold
	}
	switch {
	case policy == router.Learned && r.routerGGM == "":
		r.file, err = parseRouter(own)
	case r.routerGGM != "":
		r.file, err = engine.ReadRouter(r.routerGGM)
	}
	if err == nil && r.file != nil {
		o.Net = r.file.Net
	}
	if err == nil && policy == router.Learned {
		o.Calibration = r.file.Confidences
	}
	return o, err
}

// rule is the policy that is named, or the default.
func (r *routeFlags) rule() (router.Policy, error) {
	switch {
	case r.policy != "" || r.given("policy"):
	case r.given("router"):
		return router.Learned, nil
	default:
		return router.Margin, nil
	}
	policy, err := router.ParsePolicy(r.policy)
	if err != nil {
		return "", usagef("--policy: %w", err)
	}
	if policy == router.Value && !r.value {
		return "",
			usagef("--policy value is for run: it follows the time that answers take, so that modes would not compare")
	}
	return policy, nil
}

// checkPolicy refuses flags that the policy has no use for.
func (r *routeFlags) checkPolicy(policy router.Policy, own bool) error {
	for _, name := range []string{"threshold", "budget"} {
		if (policy == router.Never || policy == router.Always || policy == router.Value) && r.given(name) {
			return usagef("--%s has no effect with --policy %s: leave one of them out", name, policy)
		}
	}
	switch {
	case r.given("threshold") && r.given("budget"):
		return usagef("--threshold and --budget exclude each other: a budget moves the threshold by itself")
	case r.given("budget") && r.budget == 0:
		return usagef("--budget 0 asks for no token: give a share above 0, or --policy never")
	case policy == router.Value && r.given("router") && r.routerGGM == "":
		return usagef("--router names no file: give one, or leave it out")
	case policy != router.Learned && policy != router.Value && r.given("router"):
		return usagef("--router has no effect with --policy %s: give --policy learned", policy)
	case policy == router.Learned && r.routerGGM == "" && (r.given("router") || !own):
		return usagef("--policy learned needs a router: give its file with --router")
	}
	return nil
}

func parseRouter(b []byte) (*router.File, error) {
	f, err := gguf.Parse(b)
	if err != nil {
		return nil, err
	}
	return router.Read(f)
}
