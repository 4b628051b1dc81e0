package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/serve"
)

// viaFlags has the flags for answers with a large model.
type viaFlags struct {
	set     *pflag.FlagSet
	route   group.RouteFlags
	gateway group.GatewayFlags
}

func (v *viaFlags) registerFlags(p *pflag.FlagSet) {
	v.set = p
	v.route.Register(p)
	v.gateway.Register(p)
	v.route.RegisterVerify(p)
	cli.Add(p, "local", new(bool), false) // it excludes --cloud
}

// parseDialOptions checks all flags of the route, before the model is opened.
func (v *viaFlags) parseDialOptions(a *cli.App) (o pilotfish.DialOptions, err error) {
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

// connectGateway connects to the gateway, if there is one. If it cannot be reached, that is no error: tokens are then
// chosen by the small model until it can. An error of configuration is returned.
func (v *viaFlags) connectGateway(
	ctx context.Context, m *pilotfish.Model, o pilotfish.DialOptions, log *slog.Logger,
) (*pilotfish.Route, func(), error) {
	if !v.set.Changed("cloud") {
		return nil, func() {}, nil
	}
	r, err := v.route.Routed()
	if err != nil {
		return nil, nil, err
	}
	if err := m.Fits(r.Router); err != nil {
		return nil, nil, fmt.Errorf("--router %s: %w", v.route.RouterFile, err)
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
	if lacks := v.route.Unverified(g, r.Router); lacks != "" {
		log.Warn(lacks, "cloud", v.gateway.Address)
	}
	r.Cloud = g
	return &r, func() { _ = g.Close() }, nil // an error no longer matters: no more questions are asked
}

// describeCloud describes the large model of a route to clients of the server; nil without a route.
func (v *viaFlags) describeCloud(r *pilotfish.Route) func() serve.Cloud {
	if r == nil {
		return nil
	}
	by, _ := v.route.Router(nil) // parseDialOptions has returned the error
	gateway := r.Cloud.(*pilotfish.Gateway)
	return func() serve.Cloud {
		able := by.Policy.Verifies() && gateway.CannotVerify(pilotfish.Sampling{}, r.Router) == nil
		c := serve.Cloud{To: v.gateway.Address, Model: gateway.Model(), Connected: gateway.Connected(),
			Policy: string(by.Policy), Threshold: by.Threshold, Budget: by.Budget, Verify: able || r.Verify}
		if by.Policy == router.Judged && !able {
			c.Threshold = nil // it is one of the judge
		}
		return c
	}
}

func extentText(c serve.Cloud) string {
	switch {
	case c.Verify && c.Budget > 0:
		return fmt.Sprintf("which verifies every token and replaces at most %s of them", group.Share(c.Budget))
	case c.Verify:
		return "which verifies every token"
	case c.Budget > 0:
		return fmt.Sprintf("asked for at most %s of the tokens", group.Share(c.Budget))
	case c.Threshold != nil:
		return fmt.Sprintf("asked where the confidence is below %v", *c.Threshold)
	}
	return "asked by the policy " + c.Policy
}
