package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// chatFlags are the flags of `pilotfish chat`.
type chatFlags struct {
	set       *pflag.FlagSet // which were given
	model     modelFlags
	gateway   gatewayFlags
	route     routeFlags
	verify    margin
	mode      string
	system    string
	answer    answerFlags
	load      string
	local     bool
	noHistory bool
}

// newChatCommand talks with a model.
func newChatCommand(a *app) *cobra.Command {
	var f chatFlags
	c := &cobra.Command{
		Use:   "chat -m FILE [flags]",
		Short: "Chat with a model in the terminal",
		Long: `Chat with a model, turn by turn. Answers go to stdout, everything else to stderr.

On a terminal, lines can be edited, and the arrow keys and Ctrl-R recall earlier ones. Text of several lines can be
pasted, or typed between lines that begin and end with """, or with a backslash at the end of each line but the last.
Ctrl-C stops an answer; what has been generated stays in the conversation. Ctrl-Z suspends the chat. Ctrl-C twice at an
empty prompt, Ctrl-D or /quit ends it. /help lists the commands. A line that begins with a space is not kept in the
history.

If stdin is not a terminal, each line of it is a question or a command, with the same rules for several lines; the first
error ends the chat.

With --cloud, a large model behind a gateway chooses the tokens that the small model is unsure of, as explained by
"pilotfish run --help"; on a terminal they are shown in colour, unless NO_COLOR is set. /cloud connects and disconnects.
/local, or --local from the beginning, keeps a question on this device, and with it the rest of the conversation.

When the conversation no longer fits into the context, its oldest turns are dropped, with a message.`,
		Example: `  pilotfish chat -m Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0
  pilotfish chat -m small.gguf --cloud gpu.example.org:4433 --pin 9f86… --temp 0.7`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), a) },
	}
	f.register(c)
	return c
}

func (f *chatFlags) register(c *cobra.Command) {
	p := c.Flags()
	f.set = p
	f.model.registerServed(p)
	cobra.CheckErr(c.MarkFlagRequired("model"))
	f.gateway.register(p)
	f.route.register(p)
	f.route.every = defaultVerifyEvery
	addValue(p, "verify", &f.verify)
	add(p, "mode", &f.mode, "")
	add(p, "system", &f.system, "")
	add(p, "max-tokens", &f.answer.MaxTokens, defaultChatTokens)
	f.answer.register(p, "the same seed and questions give the same answers")
	add(p, "local", &f.local, false)
	add(p, "load", &f.load, "")
	add(p, "no-history", &f.noHistory, false)
}

// check refuses wrong values, and flags that would have no effect.
func (f *chatFlags) check() error {
	if err := checkLocal(f.set); err != nil {
		return err
	}
	if err := f.answer.check(f.set); err != nil {
		return err
	}
	switch {
	case f.set.Changed("mode") && f.mode != "serial" && f.mode != "pipelined":
		return usagef("--mode %s is not a mode: choose serial or pipelined", f.mode)
	case f.load != "" && f.set.Changed("system"):
		return usagef("--system has no effect with --load: the conversation has its own")
	case f.set.Changed("load") && f.load == "":
		return usagef("--load names no file: give one, or leave it out")
	}
	if err := checkMode(f.set, f.mode); err != nil {
		return err
	}
	return checkNeeds(f.set, "cloud") // /cloud can connect later
}

// run talks until the questions end.
func (f *chatFlags) run(ctx context.Context, a *app) error {
	if err := f.check(); err != nil {
		return err
	}
	open, err := f.open()
	if err != nil {
		return err
	}
	route, err := f.routing()
	if err != nil {
		return err
	}
	if f.set.Changed("cloud") {
		if _, err := f.gateway.parse(a); err != nil { // before the model is loaded
			return err
		}
	}
	if err := f.answer.parse(f.set); err != nil {
		return err
	}
	m, err := pilotfish.Open(f.model.path, open)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := f.possible(ctx, a, m, route); err != nil {
		return err
	}
	c := newConversation(a, f, m, route)
	defer c.close()
	if f.load != "" {
		err = c.load(ctx, f.load)
	}
	if err == nil && f.set.Changed("cloud") {
		err = c.connect(ctx, "--cloud", f.gateway.address, f.gateway.pin)
	}
	if err != nil {
		return err
	}
	in, err := newChatInput(ctx, a, !f.noHistory)
	if err != nil {
		return err
	}
	defer in.close()
	c.greet(in.interactive())
	return c.loop(ctx, in)
}

// possible refuses what the model cannot do, or what excludes each other, before the first question.
func (f *chatFlags) possible(ctx context.Context, a *app, m *pilotfish.Model, r pilotfish.Route) error {
	tokens, err := m.Vocabulary()
	if err != nil {
		return err
	}
	if err := checkVocabulary(f.answer.LogitBias, tokens); err != nil {
		return err
	}
	options := []pilotfish.Option{pilotfish.Settings(f.answer.Settings)}
	if f.verify.on {
		options = append(options, r)
	}
	ignored, err := m.CheckContext(ctx, options...)
	tellIgnored(a.stderr, ignored)
	return err
}

// open returns the options of the model.
func (f *chatFlags) open() (pilotfish.Options, error) {
	o, err := f.model.options()
	return pilotfish.Options{
		Backend: string(o.Backend), Threads: o.Threads, Context: o.Context, KV: string(o.KV),
		HugePages: string(o.HugePages),
	}, err
}

// routing returns how the cloud has a say, without the cloud.
func (f *chatFlags) routing() (pilotfish.Route, error) {
	draft := f.route.draft()
	o, err := f.route.router(nil)
	if err != nil {
		return pilotfish.Route{}, err
	}
	r := pilotfish.Route{
		Serial: f.mode == "serial", Branches: draft.Branches, Window: draft.Window, InFlight: draft.InFlight,
		Deadline: draft.Deadline, Ahead: draft.Ahead, Verify: f.verify.on, Margin: f.verify.nats,
	}
	r.Router, err = pilotfish.NewRouter(pilotfish.RouterOptions{
		Policy: string(o.Policy), Threshold: o.Threshold, Budget: o.Budget, File: f.routerFile(o.Policy),
	})
	return r, err
}

// routerFile is the file of the router, where the policy has one.
func (f *chatFlags) routerFile(policy router.Policy) string {
	if policy == router.Learned {
		return f.route.routerGGM
	}
	return ""
}

// dialOptions say how a gateway is trusted.
func (f *chatFlags) dialOptions(a *app, pin string) (pilotfish.DialOptions, error) {
	secret, _, err := a.secret(f.gateway.token, f.set.Changed("token-file"))
	if err != nil {
		return pilotfish.DialOptions{}, err
	}
	o := pilotfish.DialOptions{Pin: pin, Token: secret, Timeout: 10 * time.Second}
	if dir, err := cacheFolder(); err == nil && !f.gateway.forget {
		o.TicketFolder = filepath.Join(dir, "tickets")
	}
	return o, nil
}

// greet says what the chat begins with.
func (c *conversation) greet(interactive bool) {
	if !interactive {
		c.sayDrawn()
		return
	}
	name := c.model.Name()
	if name == "" {
		name = c.f.model.path
	}
	fmt.Fprintf(c.a.stderr, "%s, context of %d tokens. /help lists the commands, Ctrl-D ends.\n", name,
		c.model.Context())
	c.sayDrawn()
}

// sayDrawn says with which seed tokens are drawn.
func (c *conversation) sayDrawn() {
	if s := c.settings; s.Temperature > 0 {
		fmt.Fprintf(c.a.stderr, "temperature %v, drawn with --seed %d\n", s.Temperature, s.Seed)
	}
}
