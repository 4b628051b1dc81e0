package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// viaFlags say how a large model has a say in the answers of a server.
type viaFlags struct {
	set     *pflag.FlagSet
	route   routeFlags
	gateway gatewayFlags
	verify  verifyFlags
	mode    string
	local   bool
}

// viaFlagNames are the flags of routing that a server takes, of those of a run.
func viaFlagNames() []string {
	return []string{"policy", "threshold", "budget", "router", "branches", "window", "inflight", "deadline", "ahead",
		"cloud", "pin", "token-file", "no-resume", "verify"}
}

func (v *viaFlags) register(p *pflag.FlagSet) {
	var all pflag.FlagSet
	v.route.register(&all)
	v.gateway.registerAddress(&all)
	v.verify.register(&all)
	for _, name := range viaFlagNames() {
		p.AddFlag(all.Lookup(name))
	}
	v.set, v.route.set, v.gateway.set = p, p, p
	registerLocal(p, &v.local)
	p.StringVar(&v.mode, "mode", "pipelined",
		"decoding `mode` with --cloud; serial: wait for the answer to each question; "+
			"pipelined: keep drafting meanwhile")
}

// registerLocal adds the flag that keeps texts on this device.
func registerLocal(p *pflag.FlagSet, local *bool) {
	p.BoolVar(local, "local", false, "keep all texts on this device: there is no cloud, whatever the environment or "+
		"the configuration file says")
}

// checkLocal refuses a gateway where nothing may leave.
func checkLocal(set *pflag.FlagSet) error {
	if set.Lookup("local").Value.String() == "true" && set.Changed("cloud") {
		return usagef("--cloud has no effect with --local: leave one of them out")
	}
	return nil
}

// check refuses wrong values and flags without effect, before the model is opened.
func (v *viaFlags) check(a *app) (o pilotfish.DialOptions, err error) {
	if err := checkLocal(v.set); err != nil {
		return o, err
	}
	if v.mode != "serial" && v.mode != "pipelined" {
		return o, usagef("--mode %s is not a mode: choose serial or pipelined", v.mode)
	}
	if !v.set.Changed("cloud") {
		for _, name := range append(viaFlagNames(), "mode") {
			if v.set.Changed(name) {
				return o, usagef("--%s has no effect without a gateway: give one with --cloud host:port", name)
			}
		}
		return o, nil
	}
	if v.mode == "serial" {
		for _, name := range []string{"branches", "window", "inflight"} {
			if v.set.Changed(name) {
				return o, usagef("--%s has no effect with --mode serial, which does not draft: leave it out, or give "+
					"--mode pipelined", name)
			}
		}
	}
	if _, err = v.route.draft(); err != nil {
		return o, err
	}
	if _, err = v.route.router(nil); err != nil {
		return o, err
	}
	parsed, err := v.gateway.parse(a)
	o.Token = string(parsed.Secret)
	if v.set.Changed("pin") {
		o.Pin = v.gateway.pin
	}
	if cache, err := os.UserCacheDir(); err == nil && !v.gateway.forget { // without a place it takes a round trip more
		o.TicketFolder = filepath.Join(cache, "pilotfish", "tickets")
	}
	return o, err
}

// open connects to the gateway, if there is one. One that is away is no error: tokens are then the small model's own
// until it is there. What is wrong with the configuration is one.
func (v *viaFlags) open(ctx context.Context, a *app, m *pilotfish.Model, o pilotfish.DialOptions, log *slog.Logger) (
	*pilotfish.Route, func(), error) {
	if !v.set.Changed("cloud") {
		return nil, func() {}, nil
	}
	chosen, err := v.router()
	if err != nil {
		return nil, nil, err
	}
	g, err := m.Dial(ctx, v.gateway.address, o)
	if c, ok := errors.AsType[*engine.ConnectError](err); ok && !c.Configuration() {
		log.Warn("the gateway is away: answering alone until it is there", "cloud", v.gateway.address, "error", err)
		o.Lazy = true
		g, err = m.Dial(ctx, v.gateway.address, o)
	}
	if err != nil {
		return nil, nil, v.gateway.explain(err)
	}
	if g.OtherTemplate() {
		log.Warn(otherTemplateText, "cloud", v.gateway.address)
	}
	r := v.routing(chosen)
	r.Cloud = g
	return &r, func() { _ = g.Close() }, nil // whatever it says, nothing more is asked
}

// routing returns what the flags say of routed answers.
func (v *viaFlags) routing(chosen pilotfish.Router) pilotfish.Route {
	return pilotfish.Route{
		Router: chosen, Serial: v.mode == "serial", Branches: int(v.route.branches), Window: v.route.window,
		InFlight: v.route.inflight, Deadline: time.Duration(v.route.deadline), Ahead: v.route.ahead,
		Verify: v.verify.verify.on, Margin: v.verify.verify.nats,
	}
}

// router returns what decides which tokens the cloud is asked for.
func (v *viaFlags) router() (pilotfish.Router, error) {
	o := pilotfish.RouterOptions{Policy: v.route.policy, File: v.route.routerGGM, Budget: v.route.budget}
	if v.set.Changed("threshold") {
		o.Threshold = &v.route.threshold
	}
	return pilotfish.NewRouter(o)
}
