package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/schema"
	"github.com/pilotfish-ai/pilotfish/runtime/jinja"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// follower is a model that writes a text, wherever an answer continues it, in tokens of random bytes, those of thoughts
// in tokens of their own. A token below 256 is a byte.
type follower struct {
	Model
	Session
	text   string
	parts  []followedPart
	most   int // bytes of a token
	r      *rand.Rand
	tokens []string
	sum    engine.Summary
}

// followedPart is a part of a text up to a byte.
type followedPart struct {
	end   int
	kind  tokenizer.Kind
	whole bool // one token
}

func newFollower(text string, most int, r *rand.Rand) *follower {
	f := &follower{text: text, most: most, r: r}
	if strings.HasPrefix(text, "<think>\n") { // else the prompt has begun the thought
		f.parts = []followedPart{{7, tokenizer.Mark, true}, {8, tokenizer.Mark, true}}
	}
	if end := strings.Index(text, "\n</think>\n\n"); end >= 0 {
		f.parts = append(f.parts, followedPart{end + 1, tokenizer.Thought, false},
			followedPart{end + 9, tokenizer.Mark, true}, followedPart{end + 11, tokenizer.Mark, true})
	}
	f.parts = append(f.parts, followedPart{len(text), tokenizer.Answer, false})
	return f
}

func (f *follower) Context() int            { return 1 << 20 }
func (f *follower) Summary() engine.Summary { return f.sum }
func (f *follower) End() *engine.Token      { return nil }

func (f *follower) Tokenize(text string, _ bool) ([]int32, error) {
	return new(play).Tokenize(text, false)
}

func (f *follower) TokenBytes(id int32) ([]byte, error) {
	if id < 256 {
		return []byte{byte(id)}, nil
	}
	return []byte(f.tokens[id-256]), nil
}

func (f *follower) textOf(ids []int32) (text string) {
	for _, id := range ids {
		b, _ := f.TokenBytes(id)
		text += string(b)
	}
	return text
}

// cutToken returns the token from one byte of the text on, and its kind. It ends before another byte.
func (f *follower) cutToken(from, before int) (string, tokenizer.Kind) {
	i := slices.IndexFunc(f.parts, func(p followedPart) bool { return from < p.end })
	end := min(f.parts[i].end, before)
	if !f.parts[i].whole {
		end = min(end, from+1+f.r.IntN(f.most))
	}
	return f.text[from:end], f.parts[i].kind
}

func (f *follower) Generate(_ context.Context, prompt []int32, s terms.Settings) iter.Seq2[engine.Token, error] {
	return func(yield func(engine.Token, error) bool) {
		done := f.textOf(prompt[1:])
		f.sum = engine.Summary{Stop: engine.StopEnd}
		rest, ok := strings.CutPrefix(f.text, done)
		end := len(f.text)
		if !ok {
			yield(engine.Token{}, fmt.Errorf("the answer has left %q with %q", f.text, done))
			return
		}
		if tags, _, whole := strings.Cut(rest, schema.CallEnd); s.Schema != nil && whole && s.Call { // ends the grammar
			end = len(done) + len(tags) + len(schema.CallEnd)
		} else if s.Schema != nil { // its grammar ends with the value
			var value json.RawMessage
			if err := json.NewDecoder(strings.NewReader(rest)).Decode(&value); err != nil {
				yield(engine.Token{}, err)
				return
			}
			end = len(done) + len(value)
		}
		held := ""
		for at := len(done); at < end; {
			token, kind := f.cutToken(at, end)
			at += len(token)
			f.tokens = append(f.tokens, token)
			var whole string
			whole, held = cutCharacters(held + token) // a token has the characters that it completes
			f.sum.Text += whole
			if !yield(engine.Token{ID: int32(255 + len(f.tokens)), Text: whole, Kind: string(kind)}, nil) {
				return
			}
		}
	}
}

// cutCharacters cuts the beginning of a character off the end of a text.
func cutCharacters(text string) (whole, begun string) {
	end := len(text)
	for !utf8.ValidString(text[:end]) {
		end--
	}
	return text[:end], text[end:]
}

// turn is an answer in a chat.
type turn struct {
	thought, content string
	calls            [][2]string // name and arguments
}

// parseTurn generates an answer that follows a text, in tokens of up to some bytes, and returns what becomes of it.
func parseTurn(t *testing.T, text string, most int, r *rand.Rand, names []string) turn {
	t.Helper()
	f := newFollower(text, most, r)
	a := Answer{Model: f, Session: f, Prompt: []int32{9}, Thinks: true,
		Calls: Calls{[]byte("any"), map[string][]byte{}}}
	for _, name := range names {
		a.Calls.Each[name] = callSchema(name, []byte(anyObject), "")
	}
	var result Result
	a.Emit = func(p Piece) error { result.Take(p); return nil }
	finish, err := a.Run(t.Context())
	require.NoError(t, err)
	content, _ := result.Text()
	got := turn{thought: result.Thought(), content: content}
	for _, p := range result.Parts {
		if p.Tool != "" {
			var arguments bytes.Buffer // without the blanks of the template
			require.NoError(t, json.Compact(&arguments, p.Text))
			got.calls = append(got.calls, [2]string{p.Tool, arguments.String()})
		}
	}
	assert.Equal(t, map[bool]string{true: FinishCalls, false: finishStop}[len(got.calls) > 0], finish)
	assert.Equal(t, text, f.textOf(a.IDs), "the tokens of the answer are the text in the prompts after it")
	return got
}

// randomText returns some words without blanks at its ends, and without anything that begins a call.
func randomText(r *rand.Rand) (text string) {
	for range 1 + r.IntN(5) {
		text += []string{"so", "öl ", "天気\n", "\n\n", "<", "</tool>", "a{b", "`x`", "🐟", "\"", "{}",
			"</tool_call>"}[r.IntN(12)]
	}
	return strings.Trim(text, blanks)
}

func randomValue(r *rand.Rand, depth int) any {
	switch k := r.IntN(8); {
	case k == 0 && depth > 0:
		return randomArguments(r, depth-1)
	case k == 1 && depth > 0:
		return []any{randomValue(r, depth-1), randomValue(r, depth-1)}
	case k == 2:
		return r.IntN(2000) - 1000
	case k == 3:
		return nil
	case k == 4:
		return r.IntN(2) == 0
	}
	return []string{"", "}", "\"}}", "\\", "</tool_call>", "<tool_call>\n{", "ö\n\t", "🐟 {\"name\": \"f\""}[r.IntN(8)]
}

func randomArguments(r *rand.Rand, depth int) map[string]any {
	all := map[string]any{}
	for range r.IntN(4) {
		all[[]string{"a", "b c", "name", "arguments", "é", "}"}[r.IntN(6)]] = randomValue(r, depth)
	}
	return all
}

// chatTemplate is a template of models.
type chatTemplate struct {
	source string
	thinks bool
	values jinja.Object
}

func chatTemplates(t *testing.T) []chatTemplate {
	var config struct {
		Template string `json:"chat_template"`
	}
	var cases struct{ Thinks, Tags string }
	for path, to := range map[string]any{"../jinja/testdata/cases.json": &cases,
		sharedtest.Shared(t, "data", "qwen2-tokenizer", "tokenizer_config.json"): &config} {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, to))
	}
	return []chatTemplate{{config.Template, false, nil}, {cases.Thinks, true, nil}, {cases.Tags, false, nil},
		{cases.Tags, true, jinja.Object{{Name: "enable_thinking", Value: true}}}}
}

// TestRenderedCalls: an answer as a template writes it into the prompts after it, in any tokens, is parsed back to the
// same thought, text and calls, and its tokens can be used again in these prompts.
func TestRenderedCalls(t *testing.T) {
	names := []string{"f", "get_weather", "a.b-c"}
	tools := []any{json.RawMessage(`{"type": "function", "function": {"name": "f"}}`)}
	for _, c := range chatTemplates(t) {
		template, err := jinja.Parse(c.source)
		require.NoError(t, err)
		render := func(messages []any, begin bool) string {
			text, err := template.Render(append(jinja.Object{{Name: "messages", Value: messages},
				{Name: "tools", Value: tools}, {Name: "add_generation_prompt", Value: begin}}, c.values...))
			require.NoError(t, err)
			return text.String
		}
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 0))
			messages := []any{jinja.Object{{Name: "role", Value: "user"}, {Name: "content", Value: "?"}}}
			for range 3 {
				want, said := randomTurn(r, names, c.thinks)
				prompt, all := render(messages, true), render(append(messages, said), false)
				text, ok := strings.CutPrefix(strings.TrimSuffix(all, "<|im_end|>\n"), prompt)
				require.True(t, ok, "%q\n%q", prompt, all)
				for _, most := range []int{1, 2, 5, 30, len(text) + 1} {
					require.Equal(t, want, parseTurn(t, text, most, r, names), "seed %d: %q", seed, text)
				}
				messages = append(messages, said)
				for range want.calls {
					messages = append(messages, jinja.Object{{Name: "role", Value: "tool"}, {Name: "content",
						Value: randomText(r)}})
				}
				assert.True(t, strings.HasPrefix(render(messages, true), all), "results follow the answer")
			}
		}
	}
}

// randomTurn returns an answer with some calls, and as a message.
func randomTurn(r *rand.Rand, names []string, thinks bool) (said turn, message jinja.Object) {
	message = jinja.Object{{Name: "role", Value: "assistant"}}
	if thinks {
		said.thought = randomText(r) + "t"
		message = append(message, jinja.Field{Name: "reasoning_content", Value: said.thought})
	}
	if r.IntN(2) == 0 {
		said.content = randomText(r)
	}
	var calls []any
	for range r.IntN(4) {
		arguments := encodeJSON(randomArguments(r, 2))
		name := names[r.IntN(len(names))]
		calls = append(calls, jinja.Object{{Name: "function", Value: jinja.Object{{Name: "name", Value: name},
			{Name: "arguments", Value: json.RawMessage(arguments)}}}})
		said.calls = append(said.calls, [2]string{name, string(arguments)})
	}
	return said, append(message, jinja.Field{Name: "content", Value: said.content},
		jinja.Field{Name: "tool_calls", Value: calls})
}
