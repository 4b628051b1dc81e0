// Package chat implements pilotfish chat: a conversation on the terminal.
package chat

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
)

// chatFlags has the flags of `pilotfish chat`.
type chatFlags struct {
	set     *pflag.FlagSet // to see which flags were given
	model   group.ModelFlags
	gateway group.GatewayFlags
	route   group.RouteFlags
	system  string
	think   string
	answer  group.AnswerFlags
	load    string
	local   bool
}

// NewCommand returns the command chat.
func NewCommand(a *cli.App) *cobra.Command {
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

With --cloud, the large model of a gateway chooses the tokens that the small model is unsure of, as explained by
"pilotfish run --help"; on a terminal they are shown in colour, unless NO_COLOR is set. /cloud connects and disconnects.
/local, or --local from the beginning, keeps a question on this device, and with it the rest of the conversation.

With --large the answers are exactly those of a large model that runs here, and the small one (-m) drafts tokens of them
where that saves time.

When the conversation no longer fits into the context, its oldest turns are dropped, with a message.`,
		Example: `  pilotfish chat -m Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0
  pilotfish chat -m small.gguf --cloud gpu.example.org:4433 --pin 9f86… --temp 0.7`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.runChat(c.Context(), a) },
	}
	f.registerFlags(c)
	return c
}

func (f *chatFlags) registerFlags(c *cobra.Command) {
	p := c.Flags()
	f.set = p
	f.model.RegisterServed(c)
	f.model.RegisterLarge(p)
	cobra.CheckErr(c.MarkFlagRequired("model"))
	f.gateway.Register(p)
	f.route.Register(p)
	f.route.RegisterVerify(p)
	cli.Add(p, "system", &f.system, "")
	cli.Add(p, "think", &f.think, "auto")
	cli.Add(p, "max-tokens", &f.answer.MaxTokens, cli.DefaultMaxTokens)
	f.answer.Register(p, "the same seed and questions give the same answers")
	cli.Add(p, "local", &f.local, false)
	cli.Add(p, "load", &f.load, "")
}

func (f *chatFlags) runChat(ctx context.Context, a *cli.App) error {
	open, err := f.model.Public()
	if err != nil {
		return err
	}
	route, err := f.route.Routed()
	if err != nil {
		return err
	}
	if f.set.Changed("cloud") {
		if _, err := f.gateway.Parse(a); err != nil { // before the model is loaded, which is slow
			return err
		}
	}
	if err := f.answer.Parse(f.set); err != nil {
		return err
	}
	m, err := pilotfish.Open(f.model.Answers(), open)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := f.checkModelSettings(ctx, a, m, route); err != nil {
		return err
	}
	c := newConversation(a, f, m, route)
	defer c.closeChat()
	if f.load != "" {
		err = c.loadChat(ctx, f.load)
	}
	if err == nil && f.set.Changed("cloud") {
		err = c.connectGateway(ctx, "--cloud", f.gateway.Address, f.gateway.Pin)
	}
	if err != nil {
		return err
	}
	in, err := newChatInput(ctx, a, a.Env("PILOTFISH_NOHISTORY") == "")
	if err != nil {
		return err
	}
	defer in.closeInput()
	c.printGreeting(in.isInteractive())
	return c.answerLoop(ctx, in)
}

// checkModelSettings returns an error for settings that the model does not support, and for those that exclude each
// other, before the first question.
func (f *chatFlags) checkModelSettings(ctx context.Context, a *cli.App, m *pilotfish.Model, r pilotfish.Route) error {
	options := []pilotfish.Option{pilotfish.Settings(f.answer.Settings)}
	if f.route.Verify.On {
		options = append(options, r)
	}
	ignored, err := m.CheckContext(ctx, options...)
	group.TellIgnored(a.Stderr, ignored)
	return err
}

func (f *chatFlags) dialOptions(a *cli.App, pin string) (pilotfish.DialOptions, error) {
	o := pilotfish.DialOptions{Pin: pin, Timeout: 10 * time.Second}
	var err error
	if o.Token, _, err = a.Secret(f.gateway.Token, f.set.Changed("token-file")); err != nil {
		return o, err
	}
	return o, f.gateway.Remember(a, &o)
}

func (c *conversation) printGreeting(interactive bool) {
	if !interactive {
		c.printSampling()
		return
	}
	fmt.Fprintf(c.a.Stderr, "%s, context of %d tokens. /help lists the commands, Ctrl-D ends.\n", c.modelName(),
		c.model.Context())
	c.printSampling()
}

func (c *conversation) modelName() string {
	return cli.Harmless(cmp.Or(c.model.Name(), c.f.model.Answers()))
}

func (c *conversation) printSampling() {
	if s := c.settings; s.Temperature > 0 {
		fmt.Fprintf(c.a.Stderr, "temperature %v, drawn with --seed %d\n", s.Temperature, s.Seed)
	}
}
