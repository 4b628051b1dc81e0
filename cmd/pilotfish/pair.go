package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// pairFlags name the two models of commands that train, calibrate and judge routers: the small one runs here, the large
// one here too (--large) or behind a gateway (--cloud).
type pairFlags struct {
	set     *pflag.FlagSet // which were given
	model   modelFlags
	large   string
	gateway gatewayFlags
	threads bool // --threads is not for the models alone
}

func (p *pairFlags) register(c *cobra.Command) {
	p.model.registerOptional(c)
	p.set = c.Flags()
	add(p.set, "large", &p.large, "")
	p.gateway.register(p.set)
	add(p.set, "dictionary", &p.gateway.dictionaries, nil)
}

// check refuses a command line that does not name two models. With ours, which is the demo's pair, it names none.
func (p *pairFlags) check(ours bool) error {
	small, large, cloud := p.set.Changed("model"), p.set.Changed("large"), p.set.Changed("cloud")
	switch {
	case large && cloud:
		return usagef("--large runs the large model here, --cloud asks a gateway for it: leave one of them out")
	case ours && !small && (large || cloud):
		return usagef("--large and --cloud are for a small model of your own: name it with -m, or leave them out")
	case ours && !small:
		return p.unused()
	case !small:
		return usagef("there is no small model: name its file with -m")
	case !large && !cloud:
		return usagef("there is no large model: name its file with --large, or a gateway with --cloud host:port")
	}
	if _, err := p.model.options(); err != nil {
		return err
	}
	return p.gateway.checkUse()
}

// unused refuses flags of models and gateways where the demo's pair is used.
func (p *pairFlags) unused() error {
	var err error
	flags := new(cobra.Command)
	new(modelFlags).registerOptional(flags)
	flags.Flags().VisitAll(func(f *pflag.Flag) {
		if err == nil && p.set.Changed(f.Name) && !(f.Name == "threads" && p.threads) {
			err = usagef("--%s has no effect on the demo's own models: name one with -m, or leave it out", f.Name)
		}
	})
	if err != nil {
		return err
	}
	return p.gateway.checkUse()
}

// pair is two models, open.
type pair struct {
	edge  *engine.Engine
	large *engine.Engine // nil where a gateway has it
	far   farModel       // the large model to be asked, wherever it is
	close func()
}

// farModel is a large model that can be asked, and says whether it can verify.
type farModel interface {
	engine.Far
	engine.Verifier
}

// name is that of the large model, as its file or its gateway gives it.
func (g *pair) name() string {
	if r, ok := g.far.(*engine.Remote); ok {
		return r.Model()
	}
	return g.large.Name()
}

// context is the longest text that both models take, in tokens.
func (g *pair) context() int {
	if r, ok := g.far.(*engine.Remote); ok {
		return min(g.edge.Context(), r.Context())
	}
	return min(g.edge.Context(), g.large.Context())
}

// open opens both models. Without -m they are the demo's. A gateway has been reached when it returns. With raw, prompts
// are written without chat template.
func (p *pairFlags) open(ctx context.Context, a *app, raw bool) (*pair, error) {
	var err error
	got := &pair{close: func() {}}
	if p.set.Changed("model") {
		got.edge, err = p.model.open()
	} else {
		got.edge, err = embedded(demo.Small(), "demo/small.gguf")
	}
	if err != nil {
		return nil, err
	}
	got.closing(func() { got.edge.Close() })
	if err := p.openLarge(ctx, a, got, raw); err != nil {
		got.close()
		return nil, err
	}
	return got, nil
}

// closing adds what is closed before the rest.
func (g *pair) closing(f func()) {
	before := g.close
	g.close = func() { f(); before() }
}

func (p *pairFlags) openLarge(ctx context.Context, a *app, got *pair, raw bool) (err error) {
	switch {
	case p.set.Changed("cloud"):
		return p.connect(ctx, a, got, raw)
	case p.set.Changed("model"):
		got.large, err = engine.Open(p.large, engine.Options{Threads: p.model.threads, Context: p.model.context})
	default:
		got.large, err = embedded(demo.Large(), "demo/large.gguf")
	}
	if err != nil {
		return err
	}
	got.closing(func() { got.large.Close() })
	service, err := got.large.Serve(engine.ServeOptions{})
	if err != nil {
		return err
	}
	got.closing(service.Close)
	got.far = service
	return a.checkPair(got.edge, got.large, "--large "+p.large, raw)
}

// identified is a model that states what its tokens mean.
type identified interface {
	Identity() (netproto.Identity, error)
}

// checkPair applies [netproto.Identity.Compare], the rule for two models, to a large one in this process. name is the
// large one's on the command line. A gateway applies the same rule, and refuses or notes in its Welcome what differs.
func (a *app) checkPair(small, large identified, name string, raw bool) error {
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
	a.warnTemplate(other && !raw, name)
	return nil
}

// otherTemplateText is what is said of a large model that was trained on another form of chat.
const otherTemplateText = "its chat template writes chats differently from that of the small model (-m), which " +
	"writes the prompts here: the large model may answer worse than with its own. Two models of one family and " +
	"release avoid this"

// warnTemplate says so where it is so.
func (a *app) warnTemplate(so bool, name string) {
	if so {
		fmt.Fprintf(a.stderr, "warning: %s: %s\n", name, otherTemplateText)
	}
}

// connect reaches the gateway.
func (p *pairFlags) connect(ctx context.Context, a *app, got *pair, raw bool) error {
	o, err := p.gateway.parse(a)
	if err != nil {
		return err
	}
	o.Lazy = false
	remote, err := p.gateway.dial(ctx, a, got.edge, o)
	if err != nil {
		return fmt.Errorf("%w", p.gateway.explain(err))
	}
	got.closing(func() { remote.Close() })
	a.warnTemplate(remote.OtherTemplate() && !raw, "--cloud "+p.gateway.address)
	got.far = remote
	return nil
}

// embedded opens a model that comes with the program.
func embedded(b []byte, name string) (*engine.Engine, error) {
	file, err := gguf.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	return engine.New(file, name, engine.Options{})
}

// publicTasks are the benchmarks whose questions come in files of their own form.
func publicTasks() []string {
	return []string{task.CSQA, task.GSM8K, task.ARC, task.HumanEval, task.MBPP, task.MBPPTrain}
}
