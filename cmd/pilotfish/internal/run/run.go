// Package run implements pilotfish run, which answers one prompt.
package run

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// runFlags has the flags of `pilotfish run`.
type runFlags struct {
	set   *pflag.FlagSet // to see which flags were given
	model group.ModelFlags
	// the first argument is the model
	modelFirst bool
	mode       string
	route      group.RouteFlags
	state      string // file of the budget
	explain    bool
	stats      bool
	gateway    group.GatewayFlags
	show       bool // tokens before they are verified
	system     string
	think      string
	ids        string
	raw        bool
	json       bool
	answer     group.AnswerFlags
}

// NewCommand returns the command that answers one prompt.
func NewCommand(a *cli.App) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run -m FILE [flags] [PROMPT] [-]",
		Short: "Answer a prompt or continue a text",
		Long: `Answer a prompt. The text goes to stdout as it is generated. Without -m, the model may also be the first
argument: a file with a name in .gguf, or a downloaded model.

The prompt is a question in a chat; with --raw it is the beginning of a text to continue. What is piped in follows it,
after an empty line: cat notes.txt | pilotfish run -m FILE "Summarize this." Beside a prompt, stdin is left out if it is
neither a file nor a pipe, or if nothing comes from it for a second; - as the last argument reads it in any case.

With --cloud, the large model of a gateway verifies the small one's tokens before they are shown, and replaces the few
that it is sure are wrong; on a terminal they have a colour. A line on stderr counts them, and says how long the text
waited. --stats adds times and counts, --explain what the small model itself would have written and how sure it was, -q
leaves everything out but errors.

If an answer is late (--deadline) or fails, the small model's token is used instead: the text is always complete, and
the line says how many tokens this affected and why. A wrong certificate, access token or model ends the run at once
with exit code 1, and so does a gateway that cannot be reached at the start, unless --require-cloud=false is given. If
that becomes known only after text was shown, the text is completed first.

By default at most 7% of the tokens are replaced in the long run (--budget): those to which the large model prefers
another by more than 3 nats. What was spent is kept from one run to the next (--budget-state), so the same prompt can
have another answer in the next run. If the gateway cannot verify, or with --policy margin, the large model is asked for
the tokens that the small one is least sure of, within the same budget. With --threshold, it is asked whenever the small
one is less confident than that, however often this happens. With --router, a trained router decides; if it has a
certificate (see router calibrate), its threshold applies, and the budget is a proven bound. See
docs/understand/routing.md.

--verify M has a fixed margin and no budget. --verify 0 gives exactly the large model's own text; --verify 2 accepts a
token if the large model prefers its own by no more than 2 nats. Tokens that could not be checked before --deadline are
shown anyway and counted as unverified. See docs/understand/verification.md.

With --large, both models run in this process. The text is exactly that of the large model alone, with any temperature
and with all settings of an answer. The small model (-m) drafts tokens of it where that saves time.

--json prints when each token was shown ("ms", from the start of decoding, prompt included) and how long after it was
drafted ("commit_delay_ms"), and ends with {"summary":{…}}. In it, "load_ms" is the time from opening the model file
until a prompt could be accepted, without waiting for stdin; "timeouts" counts the tokens that the small model chose
because an answer was late or failed; "error" says why the run failed or answers are missing, and is otherwise null.
docs/study/measuring.md explains the figures, such as "passes" over the small model after the prompt, or the tokens
that were guessed from repetitions ("proposed", "accepted"). With --large, passes are those of the large
model, and "drafts" and "drafts_accepted" count tokens of the small one.`,
		Example: `  pilotfish run -m qwen2.5-0.5b-instruct-q8_0.gguf "What does a pilot fish do?"
  pilotfish run -m small.gguf --large large.gguf "What does a pilot fish do?"
  pilotfish run -m small.gguf --cloud gpu.example.org:4433 --pin 9f86…  "What does a pilot fish do?"`,
		PreRunE: func(_ *cobra.Command, args []string) error { return f.takeModelArgument(a, args) },
		RunE: func(c *cobra.Command, args []string) error {
			if f.modelFirst {
				args = args[1:]
			}
			return f.answerPrompt(c.Context(), a, args)
		},
	}
	f.registerFlags(c)
	return c
}

// takeModelArgument uses the first argument for --model, if that flag is not given and the argument names a model.
func (f *runFlags) takeModelArgument(a *cli.App, args []string) error {
	if len(args) == 0 || f.set.Changed("model") || !a.NamesModel(args[0]) {
		return nil
	}
	f.modelFirst = true
	return f.set.Set("model", args[0])
}

func (f *runFlags) registerFlags(c *cobra.Command) {
	f.model.Register(c)
	p := c.Flags()
	f.model.RegisterLarge(p)
	f.set = p
	f.gateway.Register(p)
	cli.Add(p, "require-cloud", &f.gateway.Require, false)
	f.route.Register(p)
	cli.Add(p, "budget-state", &f.state, "")
	cli.Add(p, "explain", &f.explain, false)
	cli.Add(p, "stats", &f.stats, false)
	cli.Add(p, "quiet", new(bool), false)
	f.route.RegisterVerify(p)
	cli.Add(p, "show-unverified", &f.show, false)
	cli.Add(p, "mode", &f.mode, "pipelined")
	cli.Add(p, "local", new(bool), false) // it excludes --cloud
	cli.Add(p, "system", &f.system, "")
	cli.Add(p, "think", &f.think, "auto")
	cli.Add(p, "tokens", &f.ids, "")
	cli.Add(p, "raw", &f.raw, false)
	cli.Add(p, "max-tokens", &f.answer.MaxTokens, cli.DefaultMaxTokens)
	cli.Add(p, "ignore-eos", &f.answer.IgnoreEnd, false)
	f.answer.Register(p, "the same seed gives the same text")
	cli.Add(p, "logprobs", &f.answer.Top, 0)
	cli.Add(p, "json", &f.json, false)
}

func (f *runFlags) answerPrompt(ctx context.Context, a *cli.App, args []string) error {
	if f.set.Changed("tokens") && len(args) > 0 {
		return cli.Usagef("--tokens and a prompt exclude each other: leave one of them out")
	}
	if f.show && !f.json && !cli.IsTerminal(a.Stdout) { // what was shown cannot be taken back
		fmt.Fprintln(a.Stderr, "--show-unverified: no effect in a file or pipe without --json")
		f.show = false
	}
	if f.show && f.set.Changed("cloud") && !f.route.Verifies() {
		fmt.Fprintln(a.Stderr, "--show-unverified: no effect without verification (--policy verify, --verify)")
	}
	open, err := f.model.Public()
	if err != nil {
		return err
	}
	route, dial, p, err := f.parseRouting(a)
	if err != nil {
		return err
	}
	begin := time.Now()
	m, err := pilotfish.Open(f.model.Answers(), open)
	if err != nil {
		return err
	}
	defer m.Close()
	out, err := f.prepareOutput(ctx, a, m, p, &route, begin)
	if err != nil {
		return err
	}
	ids, err := f.promptTokens(a, m, args)
	if err != nil {
		return err
	}
	if !f.set.Changed("cloud") {
		return out.finishRun(ctx, out.generateText(ctx, ids))
	}
	return f.generateRouted(ctx, a, m, ids, route, dial, out)
}

// prepareOutput starts a session and completes the route with the router of the plan, if there is one. begin is the
// time when the loading of the model started.
func (f *runFlags) prepareOutput(
	ctx context.Context, a *cli.App, m *pilotfish.Model, p *routingPlan, route *pilotfish.Route, begin time.Time,
) (*runOutput, error) {
	err := group.Preload(ctx, a, m.File())
	if err != nil {
		return nil, err
	}
	if p != nil {
		if route.Router, err = p.prepareRouter(a, f, m); err != nil {
			return nil, err
		}
	}
	out := newRunOutput(a, f, time.Since(begin), m)
	out.plan, out.about = p, group.Measured(a, "run")
	return out, nil
}

// parseRouting returns the settings of decoding, the options of the gateway, and the plan for its use; the latter two
// only with --cloud.
func (f *runFlags) parseRouting(a *cli.App) (r pilotfish.Route, o pilotfish.DialOptions, p *routingPlan, err error) {
	if err := f.answer.Parse(f.set); err != nil {
		return r, o, nil, err
	}
	if !f.set.Changed("cloud") {
		return r, o, nil, nil
	}
	if o, err = f.gateway.Parse(a); err != nil {
		return r, o, nil, err
	}
	r = f.route.Route()
	r.Serial = f.mode == "serial"
	r.Audit, r.Preview, r.Explain = true, f.show && f.route.Verifies(), f.explain
	p, err = f.newPlan()
	return r, o, p, err
}

// generateRouted ends as soon as an error of configuration is known.
func (f *runFlags) generateRouted(
	ctx context.Context, a *cli.App, m *pilotfish.Model, ids []int32, r pilotfish.Route, o pilotfish.DialOptions,
	out *runOutput,
) (err error) {
	begun, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := f.newWatch(cancel, r.Deadline)
	w.done = begun.Done()
	o.Attempted, out.watch = w.connectAttempted, w
	if err := f.gateway.Remember(a, &o); err != nil {
		return err
	}
	if out.gateway, err = m.Dial(begun, f.gateway.Address, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.gateway.Close()) }()
	w.setWelcomeCheck(func() error { return f.checkGateway(out.gateway, r.Router) })
	before := runtime.GOMAXPROCS(m.Threads() + 2) // the network needs threads while all threads of the model compute
	defer runtime.GOMAXPROCS(before)
	r.Cloud = out.gateway
	out.route = r
	if err = out.generateText(begun, ids, r); err == nil {
		err = w.awaitFirstAttempt(ctx, a.Patience)
	} else if fatal := w.fatalError(); fatal != nil {
		err = fatal
	}
	if err == nil && f.gateway.Require {
		err = w.requireAnswers(out.session.Stats())
	}
	err = out.finishRun(ctx, err)
	chat := !f.raw && !f.set.Changed("tokens")
	group.WarnTemplate(a, chat && out.gateway.OtherTemplate(), "--cloud "+f.gateway.Address)
	return err
}

func (f *runFlags) newWatch(cancel context.CancelCauseFunc, deadline time.Duration) *cloudWatch {
	w := newCloudWatch(cancel, f.gateway.Explain)
	w.alone, w.patient = f.set.Changed("require-cloud") && !f.gateway.Require, deadline < 0
	return w
}

func (o *runOutput) generateText(ctx context.Context, ids []int32, more ...pilotfish.Option) error {
	options := append(more, pilotfish.Settings(o.f.answer.Settings), pilotfish.Watch(o.observeEvent))
	if o.explain != nil && o.watch == nil {
		options = append(options, pilotfish.WatchHeads(o.explain.recordHead))
	}
	return o.printTokens(o.session.GenerateTokens(ctx, ids, options...))
}

func (o *runOutput) printTokens(tokens iter.Seq2[pilotfish.Token, error]) error {
	for t, err := range tokens {
		if err != nil {
			return err
		}
		if o.watch != nil {
			if err := o.watch.admitToken(t); err != nil {
				return err
			}
		}
		if o.broken = o.printToken(t); o.broken != nil {
			break
		}
	}
	return o.broken
}

// checkGateway returns an error if the gateway's model lacks a required feature. It is called while connecting, and
// must not block.
func (f *runFlags) checkGateway(g *pilotfish.Gateway, by pilotfish.Router) error {
	flag := "--policy judge"
	if f.route.Verify.On {
		flag, by = fmt.Sprintf("--verify %v", &f.route.Verify), nil
	}
	if err := f.checkSampling(g); err != nil || !f.route.Verify.On && f.route.Policy != string(router.Judged) {
		return err
	}
	if err := g.CannotVerify(pilotfish.Sampling(f.answer.Sampling()), by); err != nil {
		return cli.Usagef("%s is not possible with this gateway: %w: leave it out, or ask another one", flag, err)
	}
	return nil
}

// checkSampling returns an error if the gateway's model does not support the sampling settings.
func (f *runFlags) checkSampling(g *pilotfish.Gateway) error {
	most, s := g.Choices(), f.answer.Sampling()
	if s.Greedy() || most == 0 || s.TopK >= 1 && s.TopK <= most {
		return nil
	}
	return cli.Usagef("--temp %v: the large model of this gateway reports its %d most probable tokens only: "+
		"add --top-k with 1 to %d", s.Temperature, most, most)
}

func (f *runFlags) promptTokens(a *cli.App, m *pilotfish.Model, args []string) ([]int32, error) {
	if f.set.Changed("tokens") {
		return group.ParseIDs(f.ids)
	}
	text, err := cli.JoinPrompt(a, args, time.Second)
	if err != nil {
		return nil, err
	}
	if f.raw {
		return m.TextTokens(text)
	}
	turns := []pilotfish.Message{{Role: "user", Content: text}}
	if f.set.Changed("system") { // also if it is empty: without a system message the template adds its default
		turns = slices.Insert(turns, 0, pilotfish.Message{Role: "system", Content: f.system})
	}
	values := group.ThinkingValues(a, m, f.think)
	if f.answer.Structured() { // a thought that the template begins would have the format
		values = append(values, pilotfish.Thinking(false))
	}
	ids, err := m.ChatTokens(turns, nil, values...)
	if errors.Is(err, pilotfish.ErrUnsupported) {
		err = fmt.Errorf("%s: %w; use --raw to continue a text instead", f.model.Answers(), err)
	}
	return ids, err
}
