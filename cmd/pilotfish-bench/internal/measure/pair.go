// Package measure has what several commands that measure share: the declarations of their flags, groups of flags, a
// pair of models, and sets of questions.
package measure

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// PairFlags has the flags for the two models of commands that train, calibrate and judge routers. The small model runs
// here, the large model runs here too (--large) or behind a gateway (--cloud).
type PairFlags struct {
	Set     *pflag.FlagSet // to see which flags were given
	Model   group.ModelFlags
	Large   string
	Gateway group.GatewayFlags
	Judge   *router.Judge // beside a large model that runs here; nil: none
}

// Register adds the flags to a command.
func (p *PairFlags) Register(c *cobra.Command) {
	p.Model.RegisterOptional(c)
	p.Set = c.Flags()
	cli.Add(p.Set, "large", &p.Large, "")
	p.Gateway.Register(p.Set)
}

// Check returns an error if the command line does not name two models. If ours is set, the command uses the demo's
// pair, and the command line must name none.
func (p *PairFlags) Check(ours bool) error {
	small, large, cloud := p.Set.Changed("model"), p.Set.Changed("large"), p.Set.Changed("cloud")
	switch {
	case ours && !small && (large || cloud):
		return cli.Usagef("--large and --cloud are for a small model of your own: name it with -m, or leave them out")
	case ours && !small: // flags of models have no effect on the demo's own
		return nil
	case !small:
		return cli.Usagef("there is no small model: name its file with -m")
	case !large && !cloud:
		return cli.Usagef("there is no large model: name its file with --large, or a gateway with --cloud host:port")
	}
	_, err := p.Model.Options()
	return err
}

// Pair is a pair of open models.
type Pair struct {
	Edge  *engine.Engine
	Large *engine.Engine // nil with --cloud
	Far   farModel       // the large model, here or with --cloud
	Close func()
}

// farModel is a large model, here or with --cloud.
type farModel interface {
	engine.Far
	engine.Verifier
}

// Name returns the name of the large model, from its file or from its gateway.
func (g *Pair) Name() string {
	if r, ok := g.Far.(*engine.Remote); ok {
		return r.Model()
	}
	return g.Large.Name()
}

// Context returns the maximum length of a text for both models, in tokens.
func (g *Pair) Context() int {
	if r, ok := g.Far.(*engine.Remote); ok {
		return min(g.Edge.Context(), r.Context())
	}
	return min(g.Edge.Context(), g.Large.Context())
}

// Open opens both models, by default those of the demo. With --cloud, Open connects to the gateway.
// With raw, prompts are written without a chat template.
func (p *PairFlags) Open(ctx context.Context, a *cli.App, raw bool) (*Pair, error) {
	var err error
	got := &Pair{Close: func() {}}
	if p.Set.Changed("model") {
		got.Edge, err = p.Model.Open()
	} else {
		got.Edge, err = group.Embedded(demo.Small(), "demo/small.gguf")
	}
	if err != nil {
		return nil, err
	}
	got.addCloser(func() { got.Edge.Close() })
	if err := p.openLargeModel(ctx, a, got, raw); err != nil {
		got.Close()
		return nil, err
	}
	return got, nil
}

// addCloser adds a function that is called at the beginning of closing.
func (g *Pair) addCloser(f func()) {
	before := g.Close
	g.Close = func() { f(); before() }
}

func (p *PairFlags) openLargeModel(ctx context.Context, a *cli.App, got *Pair, raw bool) (err error) {
	switch {
	case p.Set.Changed("cloud"):
		return p.connectGateway(ctx, a, got, raw)
	case p.Set.Changed("model"):
		got.Large, err = engine.Open(p.Large, engine.Options{Threads: p.Model.Threads, Context: p.Model.Context})
	default:
		got.Large, err = group.Embedded(demo.Large(), "demo/large.gguf")
	}
	if err != nil {
		return err
	}
	got.addCloser(func() { got.Large.Close() })
	service, err := got.Large.Serve(engine.ServeOptions{Judge: p.Judge})
	if err != nil {
		return err
	}
	if p.Judge != nil {
		group.WarnForeign(a, "judge", p.Judge.About, got.Large)
	}
	got.addCloser(service.Close)
	got.Far = service
	return CheckPair(a, got.Edge, got.Large, "--large "+p.Large, raw)
}

// identifier is a model that can describe its vocabulary.
type identifier interface {
	Identity() (netproto.Identity, error)
}

// CheckPair applies [netproto.Identity.Compare], the rule for two models, to a large model in this process. name is its
// name on the command line. A gateway applies the same rule: it refuses differences, or reports them in its Welcome.
func CheckPair(a *cli.App, small, large identifier, name string, raw bool) error {
	ours, err := small.Identity()
	if err != nil {
		return err
	}
	theirs, err := large.Identity()
	if err != nil {
		return err
	}
	other, err := theirs.Compare(ours)
	if err != nil {
		return fmt.Errorf("%s: its tokens are not those of the small model (-m): give two models of one family", name)
	}
	group.WarnTemplate(a, other && !raw, name)
	return nil
}

func (p *PairFlags) connectGateway(ctx context.Context, a *cli.App, got *Pair, raw bool) error {
	o, err := p.Gateway.Parse(a)
	if err != nil {
		return err
	}
	if err := p.Gateway.Remember(a, &o); err != nil {
		return err
	}
	o.Lazy = false
	dial, err := p.Gateway.Engine(o)
	if err != nil {
		return err
	}
	remote, err := got.Edge.Dial(ctx, p.Gateway.Address, dial)
	if err != nil {
		return fmt.Errorf("%w", p.Gateway.Explain(err))
	}
	got.addCloser(func() { remote.Close() })
	group.WarnTemplate(a, remote.OtherTemplate() && !raw, "--cloud "+p.Gateway.Address)
	got.Far = remote
	return nil
}

// Shots returns the number of worked examples before each question of a task: none, and a note, if it has no examples.
func Shots(a *cli.App, name string, n int) int {
	if b := task.FindBenchmark(name); n > 0 && (b == nil || !b.Examples) {
		fmt.Fprintf(a.Stderr, "--shots has no effect: %s has no worked examples\n", name)
		return 0
	}
	return n
}
