package pilotfish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

const (
	callUp   = `{"name": "go", "arguments": {"way": "up"}}`
	callStay = `{"name": "stay", "arguments": {}}`
)

func twoTools() []Tool {
	const schema = `{"properties":{"way":{"enum":["up","down"],"format":"way"}},"required":["way"]}`
	return []Tool{{Name: "go", Parameters: json.RawMessage(schema)}, {Name: "stay"}}
}

// toolModel returns a model with a template for tools.
func toolModel(t *testing.T) *Model { return modelOf(t, 0, false) }

// modelOf returns a model with a template for tools, more layers, and a vocabulary with thoughts.
func modelOf(t *testing.T, more int, thinks bool) *Model {
	t.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	spec := synth.Tiny(recipe, 1)
	spec.Layers, spec.Thinks = spec.Layers+more, thinks
	var file bytes.Buffer
	require.NoError(t, spec.Write(&file, nil))
	m, err := Load(file.Bytes(), "tiny", Options{Context: 512})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// tagModel is a toolModel that writes calls in tags, as Qwen3.5 does.
func tagModel(t *testing.T) *Model {
	t.Helper()
	const calls = `{% for call in message.tool_calls %}{{ '<tool_call>\n<function=' + call.function.name + '>\n' }}` +
		`{% for k, v in call.function.arguments | items %}{{ '<parameter=' + k + '>\n' }}{{ v }}` +
		`{{ '\n</parameter>\n' }}{% endfor %}{{ '</function>\n</tool_call>' }}`
	return modelWith(t, false, func(template string) string {
		before, _, ok := strings.Cut(template, "{% for call in message.tool_calls %}")
		require.True(t, ok)
		_, after, ok := strings.Cut(template, `}\n</tool_call>' }}`)
		require.True(t, ok)
		return before + calls + after
	})
}

// modelWith returns a model like [modelOf] with another template.
func modelWith(t *testing.T, thinks bool, edit func(template string) string) *Model {
	t.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	spec := synth.Tiny(recipe, 1)
	spec.Thinks = thinks
	var file, edited bytes.Buffer
	require.NoError(t, spec.Write(&file, nil))
	f, err := gguf.Parse(file.Bytes())
	require.NoError(t, err)
	template, err := f.String("tokenizer.chat_template")
	require.NoError(t, err)
	w := gguf.NewWriter(&edited)
	for k, v := range f.Metadata() {
		if k != "tokenizer.chat_template" {
			w.PutValue(k, v)
		}
	}
	gguf.Put(w, "tokenizer.chat_template", edit(template))
	for _, x := range f.Tensors() {
		w.Declare(x.Name, x.Type, x.Shape...)
	}
	for _, x := range f.Tensors() {
		_, err := w.Write(x.Data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	m, err := Load(edited.Bytes(), "edited", Options{Context: 512})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// writer is a sampler that writes a text from the first position on.
type writer struct {
	ids   []int32 // the last one ends the answer
	begin *int
}

func (w writer) Pick(h Head) int32 {
	if *w.begin == 0 {
		*w.begin = h.Pos
	}
	return w.ids[min(h.Pos-*w.begin, len(w.ids)-1)]
}

// written is the option that an answer is a text of these parts, each tokenized alone.
func written(t *testing.T, m *Model, parts ...string) Option {
	t.Helper()
	var ids []int32
	for _, p := range append(parts, "<|im_end|>") {
		more, err := m.Tokenize(p, p == "<|im_end|>")
		require.NoError(t, err)
		ids = append(ids, more...)
	}
	return SampleBy(writer{ids, new(int)})
}

const begins, ends = "<tool_call>\n", "\n</tool_call>"

// TestTwoCalls: an answer with a text and two calls keeps them apart; after their results, in any order, the chat goes
// on from what is known, also in a chat that was loaded.
func TestTwoCalls(t *testing.T) {
	m := toolModel(t)
	chat := m.NewChat(ChatOptions{Tools: twoTools()})
	prompt, err := chat.CountTokens("Where?")
	require.NoError(t, err)
	kinds, begun := map[string]string{}, time.Now()
	for tok, err := range chat.Send(t.Context(), "Where?",
		written(t, m, "Well: ", begins, callUp, ends, begins, callStay, ends)) {
		require.NoError(t, err)
		kinds[tok.Kind] += tok.Text
	}
	assert.Equal(t, map[string]string{KindAnswer: "Well:", KindCall: callUp + callStay}, kinds)
	calls := []ToolCall{{"call_1", "go", []byte(`{"way": "up"}`)}, {"call_2", "stay", []byte("{}")}}
	assert.Equal(t, calls, chat.Calls())
	s := chat.Stats()
	assert.Equal(t, []any{"Well:", StopEnd}, []any{s.Answer(), s.Stop})
	assert.Equal(t, []string{"go#/properties/way/format"}, s.Ignored)
	assert.Greater(t, s.Tokens, len(calls))
	assert.Equal(t, prompt, s.PromptTokens)
	assert.Positive(t, min(s.PromptTime, s.DecodeTime))
	assert.LessOrEqual(t, s.PromptTime+s.DecodeTime, time.Since(begun), "parts of the time that has passed")
	assert.Positive(t, s.PassesPerToken())

	var saved bytes.Buffer
	require.NoError(t, chat.SaveKV(t.Context(), &saved))
	again := m.NewChat(ChatOptions{Tools: twoTools(), Messages: chat.Messages()})
	require.NoError(t, again.LoadKV(t.Context(), bytes.NewReader(saved.Bytes())))
	other := m.NewChat(ChatOptions{Tools: twoTools()[:1], Messages: chat.Messages()})
	require.ErrorIs(t, other.LoadKV(t.Context(), &saved), ErrOtherSaved)

	for _, wrong := range [][]ToolResult{nil, {{ID: "call_1"}}, {{ID: "call_1"}, {ID: "call_3"}},
		{{ID: "call_1"}, {ID: "call_2"}, {ID: "call_2"}}} {
		_, err := Text(chat.SendResults(t.Context(), wrong))
		require.ErrorContains(t, err, "result")
	}
	results := []ToolResult{{"call_2", "stayed"}, {"call_1", "gone"}}
	for _, c := range []*Chat{chat, again} {
		text, err := Text(c.SendResults(t.Context(), results, written(t, m, "Gone.")))
		require.NoError(t, err)
		assert.Equal(t, "Gone.", text)
		assert.Empty(t, c.Calls())
		assert.Greater(t, c.Stats().ReusedTokens, 40, "the turns before")
		assert.Equal(t, []Message{{Role: "user", Content: "Where?"},
			{Role: "assistant", Content: "Well:", Calls: calls},
			{Role: "tool", Content: "gone"}, {Role: "tool", Content: "stayed"},
			{Role: "assistant", Content: "Gone."}}, c.Messages())
	}
}

// TestForcedCalls: an answer that must call a tool does, whatever the model would write, and its arguments follow the
// schema. A call without room is an error, and no call.
func TestForcedCalls(t *testing.T) {
	m := toolModel(t)
	for name, use := range map[string]ToolUse{"go": {Name: "go"}, "stay": {Name: "stay"}, "": {Required: true}} {
		chat := m.NewChat(ChatOptions{Tools: twoTools(), Options: []Option{MaxTokens(200)}})
		text, err := Text(chat.Send(t.Context(), "Where?", use))
		require.NoError(t, err)
		assert.Empty(t, text)
		calls := chat.Calls()
		require.Len(t, calls, 1)
		if name != "" {
			assert.Equal(t, name, calls[0].Name)
		}
		if calls[0].Name == "go" {
			var arguments struct{ Way string }
			require.NoError(t, json.Unmarshal(calls[0].Arguments, &arguments))
			assert.Contains(t, []string{"up", "down"}, arguments.Way)
		}
		left, text := m.NewChat(ChatOptions{Tools: twoTools()}), ""
		for tok, err := range left.Send(t.Context(), "Where?", use) {
			require.NoError(t, err)
			if text += tok.Text; strings.Contains(text, `"arguments"`) {
				break
			}
		}
		assert.Len(t, left.Messages(), 2)
		assert.Empty(t, left.Calls(), "the caller has left the answer")
		most := chat.Stats().Tokens
		for n := 1; n < most; n += 5 {
			cut := m.NewChat(ChatOptions{Tools: twoTools()})
			_, err = Text(cut.Send(t.Context(), "Where?", use, MaxTokens(n)))
			require.ErrorIs(t, err, ErrCutCall, "%d of %d tokens", n, most)
			assert.Len(t, cut.Messages(), map[bool]int{true: 0, false: 2}[cut.Stats().Tokens == 0])
			assert.Empty(t, cut.Calls())
		}
	}
}

// TestTaggedCalls: a model with a template that writes calls in tags calls tools in tags, whatever the beginning of a
// call is, and its tokens are those of the prompt after it. The calls have their arguments in JSON.
func TestTaggedCalls(t *testing.T) {
	m := tagModel(t)
	const up, stay = "<function=go>\n<parameter=way>\nup\n</parameter>\n</function>\n", "<function=stay>\n</function>\n"
	const over = "</tool_call>"
	chat := m.NewChat(ChatOptions{Tools: twoTools()})
	kinds := map[string]string{}
	for tok, err := range chat.Send(t.Context(), "Where?",
		written(t, m, "Well: ", begins, up, over, "\n", begins, stay, over)) {
		require.NoError(t, err)
		kinds[tok.Kind] += tok.Text
	}
	assert.Equal(t, map[string]string{KindAnswer: "Well:", KindCall: up + stay}, kinds)
	calls := []ToolCall{{"call_1", "go", []byte(`{"way": "up"}`)}, {"call_2", "stay", []byte("{}")}}
	assert.Equal(t, calls, chat.Calls())
	_, err := Text(chat.Send(t.Context(), "And?", written(t, m, "Well\n<function=go>", begins, up, over)))
	require.NoError(t, err)
	assert.Equal(t, []ToolCall{{"call_3", "go", []byte(`{"way": "up"}`)}}, chat.Calls(), "without the mark")

	forced := m.NewChat(ChatOptions{Tools: twoTools(), Options: []Option{MaxTokens(200)}})
	_, err = Text(forced.Send(t.Context(), "Where?", ToolUse{Name: "go"}))
	require.NoError(t, err)
	require.Len(t, forced.Calls(), 1)
	assert.Contains(t, []string{`{"way": "up"}`, `{"way": "down"}`}, string(forced.Calls()[0].Arguments))
	_, err = Text(forced.SendResults(t.Context(), []ToolResult{{"call_1", "gone"}}, written(t, m, "Gone.")))
	require.NoError(t, err)
	assert.Greater(t, forced.Stats().ReusedTokens, 60, "the call as the template writes it")
	_, err = Text(m.NewChat(ChatOptions{}).Send(t.Context(), "x", Settings{Schema: []byte(`{}`), Call: true}))
	assert.ErrorContains(t, err, "no value fits")
}

// TestFreeAnswers: with tools an answer may be a text, which comes with all its tokens; without them, a call is text.
func TestFreeAnswers(t *testing.T) {
	m := toolModel(t)
	const text = "a < b <tool c\n"
	for _, use := range []ToolUse{{}, {None: true}, {Single: true}} {
		chat := m.NewChat(ChatOptions{Tools: twoTools()})
		got, err := Text(chat.Send(t.Context(), "Where?", use, written(t, m, text)))
		require.NoError(t, err)
		assert.Equal(t, text, got)
		assert.Equal(t, text, chat.Messages()[1].Content)
		assert.Empty(t, chat.Calls())
		for range chat.Send(t.Context(), "And?", use, written(t, m, "x", begins, callUp, ends, "y")) {
			break
		}
		_, err = Text(chat.Send(t.Context(), "And?", use, written(t, m, begins, callUp, ends, begins, callUp, ends)))
		require.NoError(t, err)
		assert.Len(t, chat.Calls(), map[ToolUse]int{{}: 2, {Single: true}: 1}[use])
	}
}

// TestLocalTools: what is asked and answered locally with tools stays local.
func TestLocalTools(t *testing.T) {
	m := toolModel(t)
	chat := m.NewChat(ChatOptions{Tools: twoTools()})
	_, err := Text(chat.Send(t.Context(), "Where?", written(t, m, "Up."), Settings{Local: true}))
	require.NoError(t, err)
	assert.Equal(t, []Message{{Role: "user", Content: "Where?", Local: true},
		{Role: "assistant", Content: "Up.", Local: true}}, chat.Messages())
}

// TestRefusedTools: wrong tools, and a template without tools.
func TestRefusedTools(t *testing.T) {
	m := toolModel(t)
	wrong := func(schema string) []Tool { return []Tool{{Name: "f", Parameters: json.RawMessage(schema)}} }
	for want, tools := range map[string][]Tool{
		"the name \"\" is not possible": {{}}, "two tools are called f": {{Name: "f"}, {Name: "f"}},
		"parameters of tool f": wrong(`{"type":"string"}`), "must call a tool, which": nil,
	} {
		_, err := Text(m.NewChat(ChatOptions{Tools: tools}).Send(t.Context(), "x", ToolUse{Required: true}))
		require.ErrorContains(t, err, want)
	}
	_, err := Text(m.NewChat(ChatOptions{Tools: wrong(`{"type":"object","contains":1}`)}).Send(t.Context(), "x"))
	_, known := errors.AsType[*SchemaError](err)
	assert.True(t, known, "%v", err)
	_, err = Text(m.NewChat(ChatOptions{Tools: twoTools()}).Send(t.Context(), "x", ToolUse{Name: "fly"}))
	require.ErrorContains(t, err, "must call a tool fly")
	_, err = Text(m.NewChat(ChatOptions{Tools: twoTools()}).Send(t.Context(), strings.Repeat("x", 1024)))
	require.ErrorIs(t, err, ErrContext)
	_, err = Text(loaded(t, demo.Small()).NewChat(ChatOptions{Tools: twoTools()}).Send(t.Context(), "x"))
	require.ErrorIs(t, err, ErrChat)
	assert.ErrorContains(t, err, "no place for tools")
}

// TestHeldText: a token whose text may belong to a call comes when that is known, whole or without the call's part.
func TestHeldText(t *testing.T) {
	var got []string
	s := &toolSession{yield: func(t Token, _ error) bool { got = append(got, t.Text); return true }}
	take := func(text, token string) {
		require.NoError(t, s.takePiece(answer.Piece{Text: text, Tokens: []engine.Token{{Text: token}}}))
	}
	take("a", "a")
	take("x", "x \n")
	assert.Equal(t, []string{"a"}, got)
	take(" \ny", "y")
	take("z", "z ")
	require.NoError(t, s.flushText())
	assert.Equal(t, []string{"a", "x \n", "y", "z"}, got)
}

// TestEmptyAnswers: an answer without tokens belongs to the conversation, and has no calls; one that fails does not.
func TestEmptyAnswers(t *testing.T) {
	m := toolModel(t)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, use := range []ToolUse{{}, {None: true}} {
		chat := m.NewChat(ChatOptions{Tools: twoTools()})
		_, err := Text(chat.Send(t.Context(), "Where?", written(t, m, begins, callUp, ends)))
		require.NoError(t, err)
		results := []ToolResult{{"call_1", "gone"}}
		for _, err := range chat.SendResults(stopped, results, use) {
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.Len(t, chat.Messages(), 2)
		text, err := Text(chat.SendResults(t.Context(), results, use, written(t, m)))
		require.NoError(t, err)
		assert.Empty(t, text)
		assert.Empty(t, chat.Calls())
		assert.Zero(t, chat.Stats().Tokens)
		assert.Equal(t, []Message{{Role: "tool", Content: "gone"}, {Role: "assistant"}}, chat.Messages()[2:])
	}
}

// TestThoughtBeforeCalls: what a model thought before calls stays in the conversation, and is no part of the answer.
func TestThoughtBeforeCalls(t *testing.T) {
	m := modelOf(t, 0, true)
	chat := m.NewChat(ChatOptions{Tools: twoTools()})
	kinds := map[string]string{}
	for tok, err := range chat.Send(t.Context(), "Where?",
		written(t, m, "<think>", "\n", "Up?\n", "</think>", "\n\n", begins, callUp, ends)) {
		require.NoError(t, err)
		kinds[tok.Kind] += tok.Text
	}
	assert.Equal(t, map[string]string{KindMark: "<think>\n</think>\n\n", KindThought: "Up?\n", KindCall: callUp}, kinds)
	calls := []ToolCall{{"call_1", "go", []byte(`{"way": "up"}`)}}
	assert.Equal(t, Message{Role: "assistant", Thought: "Up?", Calls: calls}, chat.Messages()[1])
	s := chat.Stats()
	assert.Equal(t, []any{"Up?", "", 9}, []any{s.Text, s.Answer(), s.Thought})
	_, err := Text(chat.SendResults(t.Context(), []ToolResult{{"call_1", "gone"}},
		written(t, m, "<think>", "Good.", "</think>", "Gone.")))
	require.NoError(t, err)
	assert.Equal(t, Message{Role: "assistant", Content: "Gone."}, chat.Messages()[3])
}

// TestFormatWithoutThought: where the template begins a thought, an answer with a format is not one, and one that must
// call a tool thinks first.
func TestFormatWithoutThought(t *testing.T) {
	m := modelWith(t, true, func(template string) string {
		return template + `{% if enable_thinking is not defined or enable_thinking %}{{ '<think>\n' }}{% endif %}`
	})
	format := Settings{Schema: []byte(`{"const":12}`)}
	chat := m.NewChat(ChatOptions{Template: []TemplateValue{Thinking(true)}, Options: []Option{format}})
	most, err := chat.CountTokens("How many?")
	require.NoError(t, err)
	text, err := Text(chat.Send(t.Context(), "How many?"))
	require.NoError(t, err)
	assert.Equal(t, "12", text)
	assert.Equal(t, []any{"12", most}, []any{chat.Stats().Answer(), chat.Stats().PromptTokens})

	tools := m.NewChat(ChatOptions{Tools: twoTools(), Options: []Option{format}})
	_, err = Text(tools.Send(t.Context(), "Where?", ToolUse{Required: true},
		written(t, m, "Up?", "\n", "</think>", "\n\n", begins, callUp)))
	require.NoError(t, err)
	assert.Len(t, tools.Calls(), 1)
	assert.Equal(t, "Up?", tools.Messages()[1].Thought)
}

// TestToolsVia: the large model of a gateway in this process verifies an answer with tools: the text is its own.
func TestToolsVia(t *testing.T) {
	small, large := toolModel(t), modelOf(t, 1, false)
	l, err := Listen("127.0.0.1:0", large, ListenOptions{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	cloud, err := small.Dial(t.Context(), l.Addr().String(), DialOptions{Pin: l.Pin()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, cloud.Close()) }()
	route := Route{Cloud: cloud, Verify: true, Deadline: -1}
	want, err := Text(large.NewChat(ChatOptions{Tools: twoTools()}).Send(t.Context(), "What?", MaxTokens(40)))
	require.NoError(t, err)
	chat := small.NewChat(ChatOptions{Tools: twoTools(), Options: []Option{route}})
	got, err := Text(chat.Send(t.Context(), "What?", MaxTokens(40)))
	require.NoError(t, err)
	assert.Equal(t, want, got)
	s := chat.Stats()
	assert.Positive(t, min(s.CloudTokens, s.Asks, s.Turned))
	_, err = Text(chat.Send(t.Context(), "Stay.", ToolUse{Name: "stay"}))
	require.NoError(t, err)
	assert.Len(t, chat.Calls(), 1)
	s = chat.Stats()
	assert.True(t, s.Verified)
	assert.Equal(t, l.Addr().String(), s.Receipt.To)
}
