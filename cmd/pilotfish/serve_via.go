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

func (v *viaFlags) register(p *pflag.FlagSet) {
	v.set = p
	v.route.register(p)
	v.route.every = defaultVerifyEvery
	v.gateway.register(p)
	addValue(p, "verify", &v.verify.verify)
	add(p, "local", &v.local, false)
	add(p, "mode", &v.mode, "pipelined")
}

// check refuses wrong values and flags without effect, before the model is opened.
func (v *viaFlags) check(a *app) (o pilotfish.DialOptions, err error) {
	if err := checkLocal(v.set); err != nil {
		return o, err
	}
	if v.mode != "serial" && v.mode != "pipelined" {
		return o, usagef("--mode %s is not a mode: choose serial or pipelined", v.mode)
	}
	if err := errors.Join(checkNeeds(v.set), checkMode(v.set, v.mode)); err != nil || !v.set.Changed("cloud") {
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
