package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
)

// conversation is a chat on the terminal, or on stdin.
type conversation struct {
	a        *cli.App
	f        *chatFlags
	model    *pilotfish.Model
	chat     *pilotfish.Chat
	settings pilotfish.Settings
	values   []pilotfish.TemplateValue
	reading  promptProgress // of the last question
	legend   bool           // the colours of tokens have been explained, or there are none

	route   pilotfish.Route     // without its cloud
	gateway *pilotfish.Gateway  // nil: the small model alone
	address string              // of the gateway
	local   bool                // the next questions stay on this device
	dropped []pilotfish.Message // oldest turns, which no longer fit into the context
	total   chatTotal
}

// chatTotal has the totals of all answers.
type chatTotal struct{ answers, tokens, cloud, sent int }

func newConversation(a *cli.App, f *chatFlags, m *pilotfish.Model, route pilotfish.Route) *conversation {
	said := *a
	said.Stderr = a.Wrapped(a.Stderr, true)
	family, _ := m.File().String("general.architecture") // an open model has both
	layers, _ := m.File().Int(family + ".block_count")
	leftOut, _ := m.File().Int(family + ".nextn_predict_layers")
	c := &conversation{a: &said, f: f, model: m, settings: pilotfish.Settings(f.answer.Settings), route: route,
		reading: promptProgress{w: a.Stderr, layers: int(layers - leftOut)}, local: f.local,
		legend: !cli.IsTerminal(a.Stdout) || a.Env("NO_COLOR") != ""}
	c.values = group.ThinkingValues(a, m, f.think)
	var messages []pilotfish.Message
	if f.set.Changed("system") {
		messages = []pilotfish.Message{{Role: "system", Content: f.system}}
	}
	c.startChat(messages)
	return c
}

func (c *conversation) startChat(messages []pilotfish.Message) {
	if c.chat != nil {
		c.chat.Close()
	}
	c.chat = c.model.NewChat(pilotfish.ChatOptions{Messages: messages, Template: c.values})
}

func (c *conversation) closeChat() {
	c.chat.Close()
	c.disconnectGateway()
}

// Reasons for the end of a chat or an answer.
var (
	errQuit    = errors.New("the chat is over")
	errAborted = errors.New("Ctrl-C at the prompt")
	errStopped = errors.New("Ctrl-C stopped the answer")
)

// answerLoop answers questions until the input ends. On a terminal an error does not end the loop.
func (c *conversation) answerLoop(ctx context.Context, in chatInput) error {
	leave := false // after a first Ctrl-C the next one ends the chat
	for {
		text, command, err := readQuestion(in)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errAborted):
			if leave {
				return nil
			}
			if leave = in.wasEmpty(); leave {
				fmt.Fprintln(c.a.Stderr, "(Ctrl-C again, or Ctrl-D, ends the chat)")
			}
			continue
		}
		leave = false
		if err == nil {
			err = c.handleInput(ctx, text, command)
		}
		switch {
		case errors.Is(err, errQuit):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (!in.isInteractive() || c.outputFailed()):
			return err
		case err != nil:
			fmt.Fprintf(c.a.Stderr, "pilotfish: %s\n", cli.Harmless(err.Error()))
		}
	}
}

func (c *conversation) outputFailed() bool {
	err, silent := c.a.OutputError()
	return err != nil || silent
}

func (c *conversation) handleInput(ctx context.Context, text string, command bool) error {
	switch {
	case strings.TrimSpace(text) == "":
		return nil
	case command:
		return c.dispatchCommand(ctx, text)
	}
	return c.askQuestion(ctx, text, c.local)
}

// askQuestion prints the answer to a question. If the question is local, nothing of it leaves this device. Ctrl-C stops
// the answer.
func (c *conversation) askQuestion(ctx context.Context, question string, local bool) error {
	asking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	release := cli.TakeInterrupts(ctx, func() { stop(errStopped) })
	defer release()
	if err := c.makeRoom(question); err != nil {
		return err
	}
	settings := c.settings
	settings.Local = local
	c.reading.done, c.reading.shown, c.reading.over = 0, 0, false
	options, route := []pilotfish.Option{settings}, c.route
	if cli.IsTerminal(c.reading.w) {
		watch := func(o pilotfish.Op) { c.reading.countOperation(o, c.chat.Stats) }
		options = append(options, pilotfish.Trace(time.Now(), 0, watch))
	}
	if c.gateway != nil {
		route.Cloud = c.gateway
		options = append(options, route)
	}
	out := c.a.Wrapped(c.a.Stdout, false)
	printed, failed, broken := c.printTokens(out, c.chat.Send(asking, question, options...))
	c.reading.clearProgress()
	s := c.chat.Stats()
	c.countAnswer(s)
	if broken != nil {
		return broken
	}
	if _, err := fmt.Fprintln(out, s.Text[min(printed, len(s.Text)):]); err != nil {
		return err
	}
	if errors.Is(context.Cause(asking), errStopped) {
		fmt.Fprintln(c.a.Stderr, "(stopped)")
		return nil
	}
	if failed != nil {
		return failed
	}
	if s.Tokens == 0 {
		fmt.Fprintln(c.a.Stderr, "(the answer is empty)")
	}
	if local || slices.ContainsFunc(c.chat.Messages(), func(m pilotfish.Message) bool { return m.Local }) {
		route.Cloud = nil // the large model could not be asked
	}
	c.printRemarks(s, route)
	return nil
}

// printTokens prints tokens as they arrive, and returns the number of bytes. It stops after the last token, or after an
// error of decoding (failed) or of writing (broken).
func (c *conversation) printTokens(
	out io.Writer, tokens iter.Seq2[pilotfish.Token, error],
) (printed int, failed, broken error) {
	write := cli.NewTokenPrinter(c.a, out)
	for t, err := range tokens {
		c.reading.clearProgress()
		if err != nil {
			return printed, err, nil
		}
		printed += len(t.Text)
		if err := write(t); err != nil {
			return printed, nil, err
		}
	}
	return printed, nil, nil
}

func (c *conversation) countAnswer(s pilotfish.Stats) {
	t := &c.total
	t.answers++
	t.tokens += s.Tokens
	t.cloud += s.CloudTokens
	t.sent += s.Receipt.Bytes
}

// printRemarks prints the line below an answer, and once what the colours in it mean.
func (c *conversation) printRemarks(s pilotfish.Stats, route pilotfish.Route) {
	if line := group.AnswerLine(s, route, s.Err, c.model.Context()); line != "" {
		fmt.Fprintln(c.a.Stderr, line)
	}
	if !c.legend && s.CloudTokens+s.Timeouts > 0 {
		c.legend = true
		fmt.Fprintln(c.a.Stderr, cli.Legend())
	}
}

// turnTokens is the maximum number of tokens of a turn besides those of its text.
const turnTokens = 8

// countTokens returns the maximum number of tokens that messages need in the context.
func (c *conversation) countTokens(messages ...pilotfish.Message) (n int, err error) {
	for _, m := range messages {
		ids, err := c.model.Tokenize(m.Content, false)
		if err != nil {
			return 0, err
		}
		n += len(ids) + turnTokens
	}
	return n, nil
}

// makeRoom drops the oldest turns until the rest of the conversation, a question and an answer fit into the context. A
// quarter of the context is reserved for the answer, or less if the answer is limited to less.
func (c *conversation) makeRoom(question string) error {
	context := c.model.Context()
	answer := context / 4
	if n := c.settings.MaxTokens; n > 0 {
		answer = min(answer, n)
	}
	asked, err := c.countTokens(pilotfish.Message{Role: "user", Content: question})
	if err != nil {
		return err
	}
	messages := c.chat.Messages()
	system, _ := splitSystem(messages)
	head := len(system)
	fixed, err := c.countTokens(system...)
	if err != nil {
		return err
	}
	if head == 0 {
		fixed = min(64, context/8) // the default message of the model
	}
	if room := context - fixed - 2*turnTokens; asked > room {
		return fmt.Errorf("the question has about %d tokens, and the context of %d has room for %d: shorten it, or "+
			"begin with more room by --ctx", asked, context, max(room, 0))
	}
	first, err := c.firstKeptMessage(messages, head, context-fixed-asked-answer)
	if err != nil {
		return err
	}
	if first > head {
		c.dropped = append(c.dropped, messages[head:first]...)
		c.startChat(slices.Delete(messages, head, first))
		turns := "turn is"
		if n := (first - head + 1) / 2; n > 1 {
			turns = fmt.Sprintf("%d turns are", n)
		}
		fmt.Fprintf(c.a.Stderr,
			"(the context of %d tokens is full: the oldest %s left out from here on; /clear starts a new one)\n",
			context, turns)
	}
	return nil
}

// firstKeptMessage returns the number of the first message that is kept. From there on, the messages fit into room
// tokens. Only whole turns from head on are dropped.
func (c *conversation) firstKeptMessage(messages []pilotfish.Message, head, room int) (int, error) {
	n, err := c.countTokens(messages[head:]...)
	if err != nil {
		return 0, err
	}
	for first := head; first < len(messages); first += 2 {
		if n <= room {
			return first, nil
		}
		turn, err := c.countTokens(messages[first:min(first+2, len(messages))]...)
		if err != nil {
			return 0, err
		}
		n -= turn
	}
	return max(head, len(messages)), nil
}

// allMessages returns all turns, with those that no longer fit into the context.
func (c *conversation) allMessages() []pilotfish.Message {
	system, turns := splitSystem(c.chat.Messages())
	return slices.Concat(system, c.dropped, turns)
}

// connectGateway makes the gateway at address the cloud of the next answers. by is the source of the address, for
// errors: --cloud or /cloud.
func (c *conversation) connectGateway(ctx context.Context, by, address, pin string) error {
	flags := group.GatewayFlags{Set: c.f.set, Address: address, By: by}
	if err := group.CheckAddress(address); err != nil {
		return fmt.Errorf("%s %q: %w", by, address, err)
	}
	if pin != "" {
		if _, err := group.ParsePin(pin); err != nil {
			return fmt.Errorf("%s %s: the fingerprint: %w", by, address, err)
		}
	}
	o, err := c.f.dialOptions(c.a, pin)
	if err != nil {
		return err
	}
	g, err := c.model.Dial(ctx, address, o)
	switch {
	case ctx.Err() != nil:
		if err == nil { // the chat was stopped just after it was connected
			g.Close()
		}
		return context.Cause(ctx)
	case err != nil:
		return flags.Explain(errors.Unwrap(err))
	}
	c.disconnectGateway()
	c.gateway, c.address = g, address
	group.WarnTemplate(c.a, g.OtherTemplate(), by+" "+address)
	if lacks := c.f.route.Unverified(g, c.route.Router); lacks != "" {
		fmt.Fprintf(c.a.Stderr, "warning: %s %s: %s\n", by, address, lacks)
	}
	return nil
}

func (c *conversation) disconnectGateway() {
	if c.gateway != nil {
		c.gateway.Close()
		c.gateway, c.address = nil, ""
	}
}
