package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
)

// viaFlags has the flags for answers with a large model.
type viaFlags struct {
	set     *pflag.FlagSet
	route   group.RouteFlags
	gateway group.GatewayFlags
	verify  group.Margin
	mode    string
}

func (v *viaFlags) register(p *pflag.FlagSet) {
	v.set = p
	v.route.Register(p)
	v.gateway.Register(p)
	cli.AddValue(p, "verify", &v.verify)
	cli.Add(p, "local", new(bool), false) // it excludes --cloud
	cli.Add(p, "mode", &v.mode, "pipelined")
}

// check returns an error for wrong values, before the model is opened.
func (v *viaFlags) check(a *cli.App) (o pilotfish.DialOptions, err error) {
	if !v.set.Changed("cloud") {
		return o, nil
	}
	if _, err = v.route.Router(nil); err != nil {
		return o, err
	}
	if o, err = v.gateway.Parse(a); err != nil {
		return o, err
	}
	o.Lazy = false
	return o, v.gateway.Remember(a, &o)
}

// open connects to the gateway, if there is one. If it cannot be reached, that is no error: tokens are then chosen by
// the small model until it can. An error of configuration is returned.
func (v *viaFlags) open(
	ctx context.Context, m *pilotfish.Model, o pilotfish.DialOptions, log *slog.Logger,
) (*pilotfish.Route, func(), error) {
	if !v.set.Changed("cloud") {
		return nil, func() {}, nil
	}
	r, err := v.route.Routed(v.mode, v.verify)
	if err != nil {
		return nil, nil, err
	}
	if err := m.Fits(r.Router); err != nil {
		return nil, nil, fmt.Errorf("--router %s: %w", v.route.RouterGGM, err)
	}
	g, err := m.Dial(ctx, v.gateway.Address, o)
	if c, ok := errors.AsType[*pilotfish.ConnectError](err); ok && !c.Configuration() {
		log.Warn("the gateway cannot be reached: answering without it", "cloud", v.gateway.Address, "error", err)
		o.Lazy = true
		g, err = m.Dial(ctx, v.gateway.Address, o)
	}
	if err != nil {
		return nil, nil, v.gateway.Explain(err)
	}
	if g.OtherTemplate() {
		log.Warn(group.OtherTemplateText, "cloud", v.gateway.Address)
	}
	r.Cloud = g
	return &r, func() { _ = g.Close() }, nil // an error no longer matters: no more questions are asked
}
