package pilotfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Tool is a function of the program that a model may call in a [Chat]. The model's template must write tools.
type Tool struct {
	Name        string          // 1 to 128 letters, digits, and _ - .
	Description string          // for the model: what the function does
	Parameters  json.RawMessage // JSON schema of the arguments, which are an object; nil: there are none
}

// ToolUse is the option that says which tools an answer of a [Chat] calls. With the zero value the model decides, and
// an answer may have several calls.
type ToolUse struct {
	None     bool   // no tool: the prompt has none
	Required bool   // the answer is one call; formats such as [Settings].Schema have no effect
	Name     string // the answer is one call of this tool; "": of any
	Single   bool   // at most one call
}

func (u ToolUse) applyTo(r *request) { r.tools = u }

func (u ToolUse) mustCall() bool { return u.Required || u.Name != "" }

// ToolResult is what a tool returned for a call.
type ToolResult struct {
	ID      string // of the call
	Content string // for the model: a text, often JSON
}

// ErrCutCall ends an answer that has no room for the end of a call. [Chat.Calls] has the calls before it.
var ErrCutCall = errors.New("the answer ended within a call of a tool, at its maximum of tokens")

// Calls returns the calls of the last answer. Their arguments follow the schemas of the tools.
func (c *Chat) Calls() []ToolCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.messages) == 0 {
		return nil
	}
	return slices.Clone(c.messages[len(c.messages)-1].Calls)
}

// SendResults continues after an answer with calls: it gives the model a result for each call, as [Chat.Send] gives it
// a question, and yields the next answer.
func (c *Chat) SendResults(ctx context.Context, results []ToolResult, options ...Option) iter.Seq2[Token, error] {
	return c.sendTurns(ctx, func() ([]Message, error) { return resultTurns(c.Calls(), results) }, options)
}

// resultTurns returns results in the order of the calls, as templates do not write ids.
func resultTurns(calls []ToolCall, results []ToolResult) (turns []Message, err error) {
	for _, call := range calls {
		i := slices.IndexFunc(results, func(r ToolResult) bool { return r.ID == call.ID })
		if i < 0 {
			return nil, fmt.Errorf("there is no result for call %s of %s: give one for each call", call.ID, call.Name)
		}
		turns = append(turns, Message{Role: "tool", Content: results[i].Content})
	}
	if len(turns) == 0 || len(results) != len(turns) {
		return nil, fmt.Errorf("%d results are given, and the last answer has %d calls", len(results), len(turns))
	}
	return turns, nil
}

func toolDefinitions(tools []Tool) (all [][]byte) {
	for _, t := range tools {
		all = append(all, answer.Tool(t).Definition())
	}
	return all
}

// allowedTools checks tools, and returns those that the answer may call.
func allowedTools(tools []Tool, use ToolUse) (allowed []answer.Tool, err error) {
	for i, t := range tools {
		if !answer.IsToolName(t.Name) {
			return nil, fmt.Errorf("tool %d: the name %q is not possible: give letters, digits, and . _ -", i, t.Name)
		}
		if slices.ContainsFunc(tools[:i], func(o Tool) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("two tools are called %s: give each a name of its own", t.Name)
		}
		if use.Name == "" || use.Name == t.Name {
			allowed = append(allowed, answer.Tool(t))
		}
	}
	if len(allowed) == 0 {
		name := strings.TrimSuffix(" "+use.Name, " ")
		return nil, fmt.Errorf("the answer must call a tool%s, which the chat has not: see ChatOptions.Tools", name)
	}
	return allowed, nil
}

// callSchemas checks tools and returns the schemas of their calls, and the paths of keywords without effect.
func (m *Model) callSchemas(ctx context.Context, tools []Tool, use ToolUse) (
	calls answer.Calls, ignored []string, err error,
) {
	allowed, err := allowedTools(tools, use)
	if err != nil {
		return calls, nil, err
	}
	calls, err = answer.NewCalls(allowed, func(i int, schema []byte) (bool, error) {
		paths, err := m.e.Check(ctx, engine.Route{Settings: terms.Settings{Schema: schema, Closed: true, Call: true}})
		switch {
		case err != nil && ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil && i < 0:
			return false, fmt.Errorf("all tools together: %w", err)
		case err != nil:
			return false, fmt.Errorf("parameters of tool %s: %w", allowed[i].Name, err)
		case i >= 0:
			for _, path := range answer.ParameterPaths(paths) {
				ignored = append(ignored, allowed[i].Name+path)
			}
		}
		return true, nil
	})
	return calls, ignored, err
}

// toolSession is the session of an answer with tools. It generates stretches, and yields their tokens.
type toolSession struct {
	*engine.Session
	of    *Session
	r     request
	yield func(Token, error) bool
	begun time.Time

	result answer.Result
	held   []engine.Token // of the text, some of it not yet known to be no call
	known  string         // their text, as far as it is known
}

// Generate implements [answer.Session].
func (s *toolSession) Generate(ctx context.Context, ids []int32, o terms.Settings) iter.Seq2[engine.Token, error] {
	return func(yield func(engine.Token, error) bool) {
		r, before := s.r, time.Since(s.begun)
		r.settings = o
		s.of.generateTokens(ctx, ids, r, func(t Token, err error) bool {
			t.At += before
			return yield(engine.Token(t), err)
		})
	}
}

// takePiece yields the tokens of which all text is known.
func (s *toolSession) takePiece(p answer.Piece) error {
	s.result.Take(p)
	if p.Thought || p.Call != nil {
		return nil // its tokens were shown
	}
	s.held, s.known = append(s.held, p.Tokens...), s.known+p.Text
	for len(s.held) > 0 && len(s.known) >= len(s.held[0].Text) {
		t := s.held[0]
		s.held, s.known = s.held[1:], s.known[len(t.Text):]
		if err := s.yieldToken(t); err != nil {
			return err
		}
	}
	return nil
}

// errEnough ends an answer when the caller takes no more tokens.
var errEnough = errors.New("enough")

func (s *toolSession) yieldToken(t engine.Token) error {
	if !s.yield(Token(t), nil) {
		return errEnough
	}
	return nil
}

// flushText yields the last token of a text with the part that is not of a call.
func (s *toolSession) flushText() error {
	if len(s.held) == 0 {
		return nil
	}
	t := s.held[0]
	t.Text, s.held, s.known = s.known, nil, ""
	return s.yieldToken(t)
}

func (s *toolSession) showToken(t engine.Token) error {
	if err := s.flushText(); err != nil {
		return err
	}
	return s.yieldToken(t)
}

func (c *Chat) answerWithTools(
	ctx context.Context, asked []Message, ids []int32, r request, yield func(Token, error) bool,
) {
	calls, ignored, err := c.s.m.callSchemas(ctx, c.tools, r.tools)
	if room := c.s.m.Context(); err == nil && len(ids) >= room {
		err = fmt.Errorf("%w: a prompt of %d tokens leaves no room for an answer in a context of %d", ErrContext,
			len(ids), room)
	}
	if err != nil {
		yield(Token{}, err)
		return
	}
	s := &toolSession{Session: c.s.s, of: c.s, r: r, yield: yield, begun: time.Now()}
	a := &answer.Answer{Model: c.s.m, Session: s, Prompt: ids, Settings: r.settings, Calls: calls,
		Forced: r.tools.mustCall(), Single: r.tools.Single, Emit: s.takePiece, Shown: s.showToken}
	a.Thinks, _ = c.s.m.Thinks(ids) // an error: the model is closed, and nothing is generated any more
	ended := false
	defer func() {
		if ended || len(a.IDs) > 0 {
			a.Total.Ignored = append(ignored, a.Total.Ignored...)
			c.addToolAnswer(asked, a, s.result)
		}
	}()
	s.result.Finish = answer.FinishLength // unless it ends well
	finish, err := a.Run(ctx)
	if err == nil {
		s.result.Finish, err = finish, s.flushText()
	}
	if err == nil && a.Cut {
		err = ErrCutCall
	}
	if ended = err == nil; !ended && !errors.Is(err, errEnough) {
		yield(Token{}, err)
	}
}

// addToolAnswer adds the text and the whole calls of an answer to the conversation.
func (c *Chat) addToolAnswer(asked []Message, a *answer.Answer, r answer.Result) {
	text, _ := r.Text()
	said := Message{Content: text, Local: a.Settings.Local}
	n := 0
	for _, m := range c.Messages() {
		n += len(m.Calls)
	}
	for i, p := range r.Parts {
		if p.Tool != "" && r.Whole(i) {
			n++
			said.Calls = append(said.Calls, ToolCall{ID: fmt.Sprintf("call_%d", n), Name: p.Tool, Arguments: p.Text})
		}
	}
	thought := r.Thought()
	if len(said.Calls) > 0 {
		said.Thought = thought // templates show it while the calls are answered
	}
	total := a.Total
	total.Text, total.AnswerAt, total.Tokens = thought+text, len(thought), len(a.IDs)
	c.setStats((*Stats)(&total))
	c.addAnswer(asked, append(slices.Clone(a.Prompt), a.IDs...), said)
}
