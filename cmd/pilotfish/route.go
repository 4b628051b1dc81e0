package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// routeFlags say which tokens the cloud is asked for, and how drafting goes on meanwhile.
type routeFlags struct {
	policy    string
	threshold float64
	budget    float64
	routerGGM string
	branches  int
	window    int
	inflight  int
	deadline  time.Duration
	edgeTPS   float64
	noAudit   bool
}

func (r *routeFlags) register(f *pflag.FlagSet) {
	var policies []string
	for _, p := range router.Policies() {
		policies = append(policies, string(p))
	}
	f.StringVar(&r.policy, "policy", "margin", "`rule` that decides which tokens the cloud is asked for: "+strings.Join(policies, ", "))
	f.Float64Var(&r.threshold, "threshold", 0, "ask where the confidence is below this; 0 means the policy's own")
	f.Float64Var(&r.budget, "budget", 0, "`share` of tokens to ask for, in place of a threshold")
	f.StringVar(&r.routerGGM, "router", "", "router `file` of the policy learned")
	f.IntVar(&r.branches, "branches", 2, "guesses at each answer that are drafted on")
	f.IntVar(&r.window, "window", 32, "most tokens drafted past the oldest open question")
	f.IntVar(&r.inflight, "inflight", 4, "most open questions")
	f.DurationVar(&r.deadline, "deadline", 800*time.Millisecond, "how long a question may take before the local token stands")
	f.BoolVar(&r.noAudit, "no-audit", false, "do not have the cloud compare the small model's tokens with what it would have said")
	f.Float64Var(&r.edgeTPS, "edge-tps", 0, "slow the small model down to so many tokens per second; 0: as fast as it goes")
}

// draft returns the options of drafting.
func (r *routeFlags) draft() (engine.DraftOptions, error) {
	o := engine.DraftOptions{Branches: r.branches, Window: r.window, InFlight: r.inflight, Deadline: r.deadline, Audit: !r.noAudit}
	if r.branches < 1 || r.window < 1 || r.inflight < 1 {
		return o, usagef("--branches, --window and --inflight are at least 1")
	}
	if r.deadline <= 0 || r.edgeTPS < 0 {
		return o, usagef("--deadline must be positive, and --edge-tps not negative")
	}
	return o, nil
}

// router returns the options of the policy. own is the router that belongs to the model, where one comes with it.
func (r *routeFlags) router(own []byte) (router.Options, error) {
	policy, err := router.ParsePolicy(r.policy)
	if err != nil {
		return router.Options{}, usagef("--policy: %w", err)
	}
	o := router.Options{Policy: policy, Budget: r.budget}
	if r.threshold != 0 {
		o.Threshold = &r.threshold
	}
	switch {
	case policy != router.Learned && r.routerGGM != "", policy == router.Learned && r.routerGGM == "" && own == nil:
		return o, usagef("--policy learned and --router belong together")
	case policy == router.Learned && r.routerGGM == "":
		o.Net, err = parseRouter(own)
	case policy == router.Learned:
		o.Net, err = readRouter(r.routerGGM)
	}
	if err != nil {
		return o, err
	}
	if err := o.Validate(); err != nil {
		return o, usagef("%w", err)
	}
	return o, nil
}

func parseRouter(b []byte) (*router.Net, error) {
	f, err := gguf.Parse(b)
	if err != nil {
		return nil, err
	}
	return router.ReadNet(f)
}

func readRouter(path string) (*router.Net, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := router.ReadNet(f)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	return n, nil
}

// cloudFlags say where the gateway is and how it is trusted.
type cloudFlags struct {
	address string
	pin     string
	token   string
	forget  bool
}

func (c *cloudFlags) register(f *pflag.FlagSet) {
	f.StringVar(&c.address, "cloud", "", "the gateway, `host:port`")
	f.StringVar(&c.pin, "pin", "", "`fingerprint` of the gateway's certificate, as it prints it; without one the system's roots have to vouch for it")
	f.StringVar(&c.token, "token-file", "", "`file` with the token of authentication (or PILOTFISH_TOKEN)")
	f.BoolVar(&c.forget, "no-resume", false, "keep nothing that lets the next run connect without a round trip")
}

// dial connects. A gateway that is away is no error: questions then go unanswered until it is there.
func (c *cloudFlags) dial(ctx context.Context, a *app, e *engine.Engine) (*engine.Remote, error) {
	o := engine.DialOptions{Lazy: true}
	if c.pin != "" {
		pin, err := netproto.ParseDigest(c.pin)
		if err != nil {
			return nil, usagef("--pin: %w", err)
		}
		o.Pin = pin
	}
	secret, err := a.secret(c.token)
	if err != nil {
		return nil, err
	}
	o.Secret = netproto.Secret(secret)
	if cache, err := os.UserCacheDir(); err == nil && !c.forget { // without a place for tickets it takes a round trip more
		o.TicketFolder = filepath.Join(cache, "pilotfish", "tickets")
	}
	return e.Dial(ctx, c.address, o)
}

// secret reads a token of authentication from a file, or from the environment if path is empty. None is none.
func (a *app) secret(path string) (string, error) {
	if path == "" {
		return strings.TrimSpace(a.env("PILOTFISH_TOKEN")), nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
