package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// chatCommand is a command of the chat: a line that begins with a slash.
type chatCommand struct {
	name, args, help string
	run              func(c *conversation, ctx context.Context, args string) error
}

// chatCommands returns all commands, in the order of /help.
func chatCommands() []chatCommand {
	return []chatCommand{
		{"/help", "", "list these commands; /? does the same", (*conversation).helpCommand},
		{"/system", "[TEXT | off]", "show or set the system message; off: the model's own",
			(*conversation).systemCommand},
		{"/temp", "[T [SEED]]", "show or set the temperature; 0 always picks the most probable token",
			(*conversation).tempCommand},
		{"/retry", "", "ask the last question again", (*conversation).retryCommand},
		{"/undo", "", "forget the last question and its answer", (*conversation).undoCommand},
		{"/clear", "", "start a new conversation; the system message stays", (*conversation).clearCommand},
		{"/save", "FILE [--kv]", "write the conversation to a file; --kv: and its keys and values to FILE.kv",
			(*conversation).saveCommand},
		{"/load", "FILE", "continue a saved conversation", (*conversation).loadCommand},
		{"/stats", "", "speed, tokens and cloud use of the last answer, and totals", (*conversation).statsCommand},
		{"/cloud", "[HOST:PORT [PIN] | off]", "show the gateway of the large model, connect to one, or disconnect",
			(*conversation).cloudCommand},
		{"/local", "[on | off]", "keep the next questions on this device, or show whether that is so",
			(*conversation).localCommand},
		{"/model", "", "show the models that answer", (*conversation).modelCommand},
		{"/set", "NAME VALUE", "the same as /NAME VALUE, such as /set temp 0.7", (*conversation).setCommand},
		{"/quit", "", "end the chat; so do Ctrl-D, and Ctrl-C twice",
			func(*conversation, context.Context, string) error { return errQuit }},
	}
}

func (c *conversation) dispatchCommand(ctx context.Context, line string) error {
	name, args := strings.TrimSpace(line), ""
	if at := strings.IndexFunc(name, unicode.IsSpace); at >= 0 {
		name, args = name[:at], name[at:]
	}
	aliases := map[string]string{"/exit": "/quit", "/bye": "/quit", "/?": "/help", "/temperature": "/temp"}
	name = cmp.Or(aliases[name], name)
	var names []string
	for _, known := range chatCommands() {
		if names = append(names, known.name); known.name != name {
			continue
		}
		if args = strings.TrimSpace(args); args != "" && known.args == "" {
			return fmt.Errorf("%s takes no argument: type %s alone", name, name)
		}
		return known.run(c, ctx, args)
	}
	if near := cli.Near(name, names); len(near) > 0 {
		return fmt.Errorf("there is no command %.40s; did you mean %s?", name, strings.Join(near, " or "))
	}
	return fmt.Errorf("there is no command %.40s: /help lists the commands. To ask a question that begins with a "+
		"slash, type a space before it", name)
}

func (c *conversation) helpCommand(context.Context, string) error {
	columns, form := cli.Columns(c.a.Stderr, cli.HelpColumns), "  %-32s  %s\n"
	if columns < 72 {
		form = "  %s\n      %s\n"
	}
	var text strings.Builder
	for _, k := range chatCommands() {
		fmt.Fprintf(&text, form, strings.TrimSpace(k.name+" "+k.args), k.help)
	}
	fmt.Fprintf(&text, form, `"""`, "begins and ends a text of several lines; so does a backslash at the end of a line")
	_, err := fmt.Fprintln(c.a.Stderr, cli.Reflow(strings.TrimSuffix(text.String(), "\n"), columns))
	return err
}

func (c *conversation) modelCommand(ctx context.Context, _ string) error {
	fmt.Fprintf(c.a.Stderr, "%s, %s, context of %d tokens; to talk to another model, start the chat with -m\n",
		c.modelName(), c.f.model.Answers(), c.model.Context())
	return c.cloudCommand(ctx, "")
}

// setCommand runs /set NAME VALUE as /NAME VALUE. Those who come from ollama write "/set parameter temperature 0.7".
func (c *conversation) setCommand(ctx context.Context, args string) error {
	args = strings.TrimSpace(strings.TrimPrefix(args, "parameter "))
	if args == "" {
		return errors.New("/set needs a name and a value, such as /set temp 0.7")
	}
	return c.dispatchCommand(ctx, "/"+args)
}

func splitSystem(messages []pilotfish.Message) (system, turns []pilotfish.Message) {
	if len(messages) > 0 && messages[0].Role == "system" {
		return messages[:1:1], messages[1:]
	}
	return nil, messages
}

func (c *conversation) systemCommand(_ context.Context, args string) error {
	system, turns := splitSystem(c.chat.Messages())
	switch {
	case args == "" && system == nil:
		fmt.Fprintln(c.a.Stderr, "the system message is the model's own")
		return nil
	case args == "":
		fmt.Fprintf(c.a.Stderr, "the system message is: %s\n", cli.Harmless(system[0].Content))
		return nil
	case args == "off":
		system = nil
	default:
		system = []pilotfish.Message{{Role: "system", Content: args}}
	}
	c.startChat(append(system, turns...))
	fmt.Fprintln(c.a.Stderr, "the system message is set")
	return nil
}

func (c *conversation) tempCommand(_ context.Context, args string) error {
	s := &c.settings
	fields := strings.Fields(args)
	if len(fields) > 2 {
		return fmt.Errorf("/temp takes a temperature and a seed, such as /temp 0.7 42")
	}
	if len(fields) > 0 {
		t, err := strconv.ParseFloat(fields[0], 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(t) {
			return fmt.Errorf("/temp %.40s: a temperature is a number, such as 0.7", fields[0])
		}
		if t < 0 || t > terms.MaxTemperature {
			return fmt.Errorf("/temp %v is out of range: give 0 to %d", t, terms.MaxTemperature)
		}
		seed := group.DrawSeed()
		if len(fields) == 2 {
			if seed, err = strconv.ParseUint(fields[1], 10, 64); err != nil {
				return fmt.Errorf("/temp %.40s: a seed is a whole number of 0 or more", args)
			}
		}
		s.Temperature, s.Seed = t, seed
	}
	if s.Temperature == 0 {
		fmt.Fprintln(c.a.Stderr, "temperature 0: the most probable token is always picked")
	}
	c.printSampling()
	return nil
}

// lastQuestion returns the conversation without its last question and answer, and the question.
func (c *conversation) lastQuestion() (before []pilotfish.Message, question string, err error) {
	messages := c.chat.Messages()
	if _, turns := splitSystem(messages); len(turns) < 2 {
		return nil, "", fmt.Errorf("there is no question yet: ask one first")
	}
	n := len(messages) - 2
	return messages[:n], messages[n].Content, nil
}

func (c *conversation) undoCommand(context.Context, string) error {
	before, question, err := c.lastQuestion()
	if err != nil {
		return err
	}
	c.startChat(before)
	fmt.Fprintf(c.a.Stderr, "forgotten: %s\n", shortenQuestion(question))
	return nil
}

func (c *conversation) retryCommand(ctx context.Context, _ string) error {
	before, question, err := c.lastQuestion()
	if err != nil {
		return err
	}
	local := c.chat.Messages()[len(before)].Local
	c.startChat(before)
	if c.settings.Temperature > 0 {
		c.settings.Seed = group.DrawSeed()
		c.printSampling()
	} else {
		fmt.Fprintln(c.a.Stderr, "(at temperature 0 the answer is the same unless something else has changed)")
	}
	return c.askQuestion(ctx, question, local || c.local)
}

// shortenQuestion returns the beginning of a text, as one line without control characters.
func shortenQuestion(text string) string {
	r := []rune(cli.Harmless(strings.Join(strings.Fields(text), " ")))
	if len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return string(r)
}

func (c *conversation) clearCommand(context.Context, string) error {
	system, _ := splitSystem(c.chat.Messages())
	c.dropped = nil
	c.startChat(system)
	fmt.Fprintln(c.a.Stderr, "a new conversation")
	return nil
}

func expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	home, err := os.UserHomeDir()
	if !ok || err != nil || rest != "" && rest[0] != '/' && rest[0] != filepath.Separator {
		return path
	}
	return filepath.Join(home, rest)
}

func (c *conversation) saveCommand(ctx context.Context, args string) error {
	path, kv := strings.CutSuffix(" "+args, " --kv")
	if path = expandHome(strings.TrimSpace(path)); path == "" {
		return fmt.Errorf("/save needs the name of a file, such as /save talk.json")
	}
	if err := c.saveChat(path); err != nil {
		return fmt.Errorf("save the conversation: %w", err)
	}
	fmt.Fprintf(c.a.Stderr, "%d messages in %s\n", len(c.allMessages()), path)
	if !kv {
		return nil
	}
	if err := c.saveKV(ctx, path+kvSuffix); err != nil {
		return fmt.Errorf("save keys and values: %w", err)
	}
	fmt.Fprintf(c.a.Stderr, "keys and values in %s\n", path+kvSuffix)
	return nil
}

func (c *conversation) loadCommand(ctx context.Context, path string) error {
	if path == "" {
		return fmt.Errorf("/load needs the name of a file that /save has written, such as /load talk.json")
	}
	return c.loadChat(ctx, expandHome(path))
}

func (c *conversation) cloudCommand(ctx context.Context, args string) error {
	fields := strings.Fields(args)
	switch {
	case len(fields) == 0 && c.gateway == nil:
		fmt.Fprintln(c.a.Stderr, "no cloud: the small model answers alone; /cloud HOST:PORT connects")
	case len(fields) == 0:
		fmt.Fprintf(c.a.Stderr, "the cloud is %s, with the model %q\n", c.address, c.gateway.Model())
	case len(fields) == 1 && fields[0] == "off":
		c.disconnectGateway()
		fmt.Fprintln(c.a.Stderr, "the small model answers alone")
	case c.local:
		return errors.New("nothing may leave this device: /local off comes before /cloud")
	case c.f.model.Large != "":
		return errors.New("the large model runs here (--large): start the chat without it to ask a gateway")
	case len(fields) > 2:
		return errors.New("/cloud takes an address and the fingerprint of its certificate, such as " +
			"/cloud gpu.example.org:4433 9f86…")
	default:
		pin := c.f.gateway.Pin
		if len(fields) == 2 {
			pin = fields[1]
		}
		asking, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		release := cli.TakeInterrupts(ctx, func() { stop(fmt.Errorf("connect to %s: stopped by Ctrl-C", fields[0])) })
		defer release()
		if err := c.connectGateway(asking, "/cloud", fields[0], pin); err != nil {
			return err
		}
		fmt.Fprintf(c.a.Stderr, "connected to %s, with the model %q\n", c.address, c.gateway.Model())
	}
	return nil
}

func (c *conversation) localCommand(_ context.Context, args string) error {
	switch args {
	case "on", "off":
		c.local = args == "on"
	case "":
	default:
		return fmt.Errorf("/local %.40s: give on or off", args)
	}
	kept := slices.ContainsFunc(c.chat.Messages(), func(m pilotfish.Message) bool { return m.Local })
	switch {
	case c.local:
		fmt.Fprintln(c.a.Stderr, "nothing of the next questions leaves this device, nor of what follows them here")
	case kept:
		fmt.Fprintln(c.a.Stderr, "this conversation has local questions, so that nothing of it leaves this device: "+
			"/clear begins another one, /undo takes the last question out")
	default:
		fmt.Fprintln(c.a.Stderr, "the cloud may be asked, if there is one")
	}
	return nil
}

func (c *conversation) statsCommand(context.Context, string) error {
	c.total.printStats(c.a.Stderr, c.chat.Stats(), c.model.Context())
	return nil
}

// printStats prints the figures of the last answer, and the totals. context is the maximum length of a text, in tokens.
func (t *chatTotal) printStats(w io.Writer, s pilotfish.Stats, context int) {
	if t.answers == 0 {
		fmt.Fprintln(w, "no answers yet")
		return
	}
	if s.PromptTokens > 0 { // otherwise the conversation was restarted since
		fmt.Fprintf(w,
			"last answer: prompt of %d tokens in %.0f ms, %d of them reused from before; %d generated at %.1f/s\n",
			s.PromptTokens, cli.Ms(s.PromptTime), s.ReusedTokens, s.Tokens, cli.PerSecond(s.Tokens-1, s.DecodeTime))
		fmt.Fprintf(w, "context: %d of %d tokens\n", s.PromptTokens+s.Tokens, context)
	}
	if s.Drafts > 0 {
		fmt.Fprintf(w, "drafts of the small model: %d, %d accepted, in %d of %d passes over the large one\n", s.Drafts,
			s.DraftsAccepted, s.DraftPasses, s.Passes)
	}
	if s.Asks > 0 {
		fmt.Fprintf(w, "cloud: %d of %d tokens, %d asks with %d hits, %d tokens without an answer in time; waiting "+
			"%.0f ms, hidden %.0f ms\n", s.CloudTokens, s.Tokens, s.Asks, s.Hits, s.Timeouts, cli.Ms(s.Exposed),
			cli.Ms(s.Hidden))
	}
	r := s.Receipt
	fmt.Fprintf(w, "left this device for it: %d tokens in %s%s\n", r.Tokens, humanize.Bytes(uint64(r.Bytes)),
		formatDestination(r.To))
	fmt.Fprintf(w, "all %d answers: %d tokens, %d from the large model (%.1f%%), %s left this device\n",
		t.answers, t.tokens, t.cloud, 100*float64(t.cloud)/float64(max(t.tokens, 1)), humanize.Bytes(uint64(t.sent)))
}

func formatDestination(to string) string {
	if to == "" {
		return ""
	}
	return " to " + to
}
