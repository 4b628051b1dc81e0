package answer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// play is a model with a session that writes its stretches in order. A token is one byte; what a stretch writes between
// [ and ] is a thought with its marks, and what follows | is text that is in no token. With $ at the end there is no
// room for more tokens, with % the context is full.
type play struct {
	Model
	Session
	stretches []string
	limit     int // of the context
	asked     []terms.Settings
	now       engine.Summary
	steps     int // of the model and of the reader so far
	fails     int // the step that fails; 0: none
	emitted   int // tokens of pieces
}

var errStep = errors.New("this step fails")

// step returns an error at the step that fails.
func (p *play) step() error {
	if p.steps++; p.steps == p.fails {
		return errStep
	}
	return nil
}

func (p *play) Context() int                        { return max(p.limit, 1) }
func (p *play) TokenBytes(id int32) ([]byte, error) { return []byte{byte(id)}, nil }
func (p *play) End() *engine.Token                  { return nil }

func (p *play) Tokenize(text string, _ bool) (ids []int32, err error) {
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids, p.step()
}

func (p *play) Generate(_ context.Context, _ []int32, s terms.Settings) iter.Seq2[engine.Token, error] {
	text := p.stretches[len(p.asked)]
	p.asked = append(p.asked, s)
	stop := engine.StopEnd
	for end, why := range map[string]string{"$": engine.StopLength, "%": engine.StopContext} {
		if rest, ok := strings.CutSuffix(text, end); ok {
			text, stop = rest, why
		}
	}
	shown, held, _ := strings.Cut(text, "|")
	p.now = engine.Summary{CloudTokens: 2, Routing: engine.Routing{Asks: 3, ReusedTokens: 5 + len(p.asked)},
		Receipt: engine.Receipt{Bytes: 1}}
	return func(yield func(engine.Token, error) bool) {
		kind := ""
		for i := range len(shown) {
			t := engine.Token{ID: int32(shown[i]), Kind: kind, Text: shown[i : i+1]}
			switch t.Text {
			case "[":
				t.Kind, t.Text, kind = string(tokenizer.Mark), "<think>", string(tokenizer.Thought)
			case "]":
				t.Kind, t.Text, kind = string(tokenizer.Mark), thoughtEnd, ""
			}
			p.now.Text += t.Text
			err := p.step()
			if !yield(t, err) || err != nil {
				return
			}
		}
		p.now.Text, p.now.Stop = p.now.Text+held, stop
	}
}

func (p *play) Score(context.Context, []int32, int) iter.Seq2[engine.Token, error] {
	return func(yield func(engine.Token, error) bool) {
		_ = yield(engine.Token{ID: 1}, p.step()) && yield(engine.Token{ID: 2}, p.step())
	}
}

func (p *play) Summary() engine.Summary { return p.now }

// run generates an answer and returns all that it emits: texts, thoughts in [], and calls.
func (p *play) run(a Answer) (said string, got *Answer, finish string, err error) {
	p.asked, p.steps, p.limit, p.emitted = nil, 0, 1000, 0
	a.Model, a.Session, a.Prompt = p, p, []int32{9}
	a.Emit = func(x Piece) error {
		p.emitted += len(x.Tokens)
		switch {
		case x.Call != nil && x.Call.Name != "":
			said += fmt.Sprintf("%d:%s%s", x.Call.Index, x.Call.Name, x.Call.Arguments)
		case x.Call != nil:
			said += x.Call.Arguments
		case x.Thought:
			said += "[" + x.Text + "]"
		case len(x.Prompt) > 0:
			said += fmt.Sprintf("prompt of %d ", len(x.Prompt))
		case x.Text == "" && len(x.Tokens) == 0:
			said += "nothing"
		default:
			said += x.Text
		}
		return p.step()
	}
	finish, err = a.Run(context.Background())
	return said, &a, finish, err
}

// stretches is an answer that is generated in several stretches, with what it becomes.
type stretches struct {
	a            Answer
	texts        []string // of the stretches
	said, finish string
	schemas      string // of the stretches: of calls, J: a JSON object
}

const callOfF = `{"name":"f","arguments":{"x":1}}`

var (
	twoTools   = Calls{One: []byte("one"), Each: map[string][]byte{"f": []byte("f"), "g": []byte("g")}}
	formatJSON = terms.Settings{JSON: true}
)

var plainAnswers = map[string]stretches{
	"a text":            {Answer{}, []string{"ab|c"}, "abc", "stop", " "},
	"a text that fits":  {Answer{}, []string{"ab"}, "ab", "stop", " "},
	"a cut text":        {Answer{}, []string{"ab$"}, "ab", "length", " "},
	"a full context":    {Answer{}, []string{"ab%"}, "ab", "length", " "},
	"nothing":           {Answer{None: true}, nil, "", "length", ""},
	"a prompt":          {Answer{Score: true}, []string{"a"}, "prompt of 2 a", "stop", " "},
	"a thought":         {Answer{}, []string{"[ t t ]a"}, "[t][ t]a", "stop", " "},
	"a cut thought":     {Answer{}, []string{"[ t|u $"}, "[t][u]", "length", " "},
	"a held text":       {Answer{}, []string{"[t]|a"}, "[t]a", "stop", " "},
	"a thought at once": {Answer{Thinks: true}, []string{"[t]a"}, "[t]a", "stop", " "},
	"a hidden thought":  {Answer{Hidden: true}, []string{"[t]a"}, "a", "stop", " "},
}

var answersWithTools = map[string]stretches{
	"no call":              {Answer{Calls: twoTools}, []string{"a <b\n<to|ol"}, "a <b\n<tool", "stop", " "},
	"blanks":               {Answer{Calls: twoTools}, []string{"  "}, "  ", "stop", " "},
	"a thought and a text": {Answer{Calls: twoTools}, []string{"[t]a"}, "[t]a", "stop", " "},
	"a cut thought before": {Answer{Calls: twoTools}, []string{"[t|u$"}, "[t][u]", "length", " "},
	"a call": {Answer{Calls: twoTools}, []string{"a\n<tool_call>", callOfF[:20] + "|" + callOfF[20:], "\n "},
		`a0:f{"x":1}`, "tool_calls", " one "},
	"a named call": {Answer{Calls: twoTools},
		[]string{`{"name":"f"`, callOfF, "b\n<to"}, "0:f{\"x\":1}b\n<to", "tool_calls", " f "},
	"two calls": {Answer{Calls: twoTools},
		[]string{`{"name":"f"`, callOfF, "\n{\"name\": \"g\"", `{"name":"g","arguments":{}}`, ""},
		`0:f{"x":1}1:g{}`, "tool_calls", " f g "},
	"a single call": {Answer{Calls: twoTools, Single: true},
		[]string{"<tool_call>", callOfF}, `0:f{"x":1}`, "tool_calls", " one"},
	"a forced call": {Answer{Calls: twoTools, Forced: true}, []string{callOfF}, `0:f{"x":1}`, "tool_calls", "one"},
	"a cut call":    {Answer{Calls: twoTools, Forced: true}, []string{callOfF[:20] + "$"}, `0:f`, "length", "one"},
	"a text after calls": {Answer{Calls: twoTools},
		[]string{"<tool_call>", callOfF, "b$"}, `0:f{"x":1}b`, "length", " one "},
	"blanks at the end after calls": {Answer{Calls: twoTools},
		[]string{"<tool_call>", callOfF, "b\n "}, "0:f{\"x\":1}b\n ", "tool_calls", " one "},
	"a cut mark after calls": {Answer{Calls: twoTools},
		[]string{"<tool_call>", callOfF, "\n<to"}, "0:f{\"x\":1}\n<to", "tool_calls", " one "},
	"no room for a call": {Answer{Calls: twoTools, Settings: terms.Settings{MaxTokens: 12}},
		[]string{"<tool_call>"}, "", "length", " "},
	"no room after a call": {Answer{Calls: twoTools, Settings: terms.Settings{MaxTokens: 50}},
		[]string{"<tool_call>", callOfF}, `0:f{"x":1}`, "length", " one"},
}

var answersWithFormats = map[string]stretches{
	"a format": {Answer{Calls: twoTools, Settings: formatJSON}, []string{" {", "{}"}, "{}", "stop", " J"},
	"a call or a format": {Answer{Calls: twoTools, Settings: formatJSON},
		[]string{"<tool_call>", callOfF, ""}, `0:f{"x":1}`, "tool_calls", " one "},
	"a named one": {Answer{Calls: twoTools, Settings: formatJSON},
		[]string{`{"name":"g"`, `{"name":"g","arguments":{}}`, ""}, `0:g{}`, "tool_calls", " g "},
	"a call and a format": {Answer{Calls: twoTools, Settings: formatJSON},
		[]string{"<tool_call>", callOfF, "x", "{}"}, `0:f{"x":1}{}`, "tool_calls", " one J"},
	"a callOfF, then no room": {Answer{Calls: twoTools, Settings: formatJSON},
		[]string{"<tool_call>", callOfF, "$", "{$"}, `0:f{"x":1}{`, "length", " one J"},
}

var answersAfterThoughts = map[string]stretches{
	"a thought, then a call": {Answer{Calls: twoTools, Forced: true, Thinks: true},
		[]string{"[t]x", callOfF}, `[t]0:f{"x":1}`, "tool_calls", " one"},
	"a thought, then a format": {Answer{Settings: formatJSON, Thinks: true},
		[]string{"[t]x", "{}"}, "[t]{}", "stop", " J"},
	"a thought, then the format of a call": {
		Answer{Settings: terms.Settings{Schema: []byte("S"), Call: true}, Thinks: true},
		[]string{"[t]x", "{}"}, "[t]{}", "stop", " S"},
	"a short thought": {Answer{Budget: 9, Thinks: true}, []string{"[tu]x", "x"}, "[t][u]x", "stop", "  "},
	"a long thought": {Answer{Budget: 3, Thinks: true},
		[]string{"[tuvw]x", "x"}, "[t][u]x", "stop", "  "},
	"a long thought, held text": {Answer{Budget: 3, Thinks: true},
		[]string{"[tuvw]x", "|x"}, "[t][u]x", "stop", "  "},
	"no thought":     {Answer{Budget: 3, Thinks: true}, []string{"x", "xy"}, "xy", "stop", "  "},
	"only a thought": {Answer{Budget: 9, Thinks: true}, []string{"[tu$"}, "[t][u]", "length", " "},
	"no room after a thought": {Answer{Budget: 2, Thinks: true, Settings: terms.Settings{MaxTokens: 9}},
		[]string{"[tu"}, "[t]", "length", " "},
}

// TestStretches: what the stretches of an answer become. If any step of the model or the reader fails, the answer ends
// with its error, and nothing is emitted after that.
func TestStretches(t *testing.T) {
	for _, cases := range []map[string]stretches{plainAnswers, answersWithTools, answersWithFormats,
		answersAfterThoughts} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				p := &play{stretches: c.texts}
				c.checkAnswer(t, p)
				for fails := range p.steps {
					p.fails = fails + 1
					_, _, _, err := p.run(c.a)
					assert.ErrorIs(t, err, errStep, "step %d", p.fails)
					assert.Equal(t, p.fails, p.steps, "nothing follows")
				}
			})
		}
	}
}

// checkAnswer checks the answer of a play without failures.
func (c *stretches) checkAnswer(t *testing.T, p *play) {
	said, a, finish, err := p.run(c.a)
	require.NoError(t, err)
	assert.Equal(t, c.said, said)
	assert.Equal(t, c.finish, finish)
	if limit := c.a.Settings.MaxTokens; limit > 0 {
		assert.LessOrEqual(t, len(a.IDs), limit)
	}
	assert.LessOrEqual(t, p.emitted, len(strings.Join(c.texts, "")), "each token once")
	schemas := ""
	for _, s := range p.asked {
		require.NoError(t, s.Validate())
		schemas += map[bool]string{true: "J", false: string(s.Schema)}[s.JSON]
		if s.Schema == nil && !s.JSON {
			schemas += " "
		}
	}
	assert.Equal(t, c.schemas, schemas)
	n := len(c.texts)
	reused := map[bool]int{true: 1}[n > 0 && !c.a.Score] // at most the prompt
	assert.Equal(t, []int{2 * n, 3 * n, min(n, 1), reused, n}, []int{a.Total.CloudTokens, a.Total.Asks,
		a.Total.PromptTokens, a.Total.ReusedTokens, a.Total.Receipt.Bytes})
	assert.Equal(t, n > 0 && finish == FinishLength, slices.Contains([]string{engine.StopLength, engine.StopContext},
		a.Total.Stop), a.Total.Stop)
}

// TestRestartedCall: a call that was found in a text is restarted where it begins, in the form of the marks, and not
// where the text has the same words before. An answer that fills the context within it says so.
func TestRestartedCall(t *testing.T) {
	const before, named = `a {"name":"f" b`, `{"name":"f"`
	p := &play{stretches: []string{before + "\n" + named, callOfF, ""}}
	_, a, _, err := p.run(Answer{Calls: twoTools})
	require.NoError(t, err)
	text := ""
	for _, id := range a.IDs {
		text += string(rune(id))
	}
	assert.Equal(t, before+"\n<tool_call>\n"+callOfF+"\n</tool_call>", text)

	p = &play{limit: len("\t<tool_call>\n")}
	a = &Answer{Model: p, Session: p, Prompt: []int32{9}, Calls: twoTools, Forced: true}
	finish, err := a.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []any{FinishLength, engine.StopContext, true}, []any{finish, a.Total.Stop, a.Cut})
}

// TestTotal: every figure of an answer is of all its stretches, or of the last one. What follows the prompt is part of
// decoding.
func TestTotal(t *testing.T) {
	fill := func(v any, n int) {
		r := reflect.ValueOf(v).Elem()
		for i := range r.NumField() {
			switch f := r.Field(i); f.Kind() {
			case reflect.Int, reflect.Int64:
				f.SetInt(int64(n * (i + 1)))
			case reflect.Bool:
				f.SetBool(n == 1)
			case reflect.String:
				f.SetString(strings.Repeat("x", n))
			}
		}
	}
	stretch := func(n int) (s engine.Summary) {
		fill(&s, n)
		fill(&s.Routing, n)
		fill(&s.Receipt, n)
		s.Err = fmt.Errorf("%d", n)
		s.Spent = router.Answer{Tokens: n, Escalations: n, Confidences: []float32{float32(n)}}
		return s
	}
	first, second, sum := stretch(1), stretch(10), stretch(11)
	a := Answer{Prompt: make([]int32, 3)}
	a.addStretch(first)
	a.addStretch(second)
	want := sum
	want.Text, want.Tokens, want.AnswerAt = "", 0, 0
	want.Stop, want.Stopped, want.Receipt.To = second.Stop, second.Stopped, second.Receipt.To
	want.Verified, want.Shortened, want.Closed, want.Unlike = false, false, false, true
	want.Err, want.Spent.Confidences, want.Routing.Stop = first.Err, []float32{1, 10}, ""
	want.PromptTokens, want.ReusedTokens, want.Thought, want.Passes = 3, 3, 0, sum.Passes+1
	want.PromptTime, want.DecodeTime = first.PromptTime, sum.DecodeTime+second.PromptTime
	assert.Equal(t, want, a.Total)
	a.addStretch(first)
	assert.False(t, a.Total.Verified, "of all stretches")
	assert.True(t, a.Total.Closed, "of the last one")
}

// TestTextHasItsTokens: a text is told once it is known not to begin a call, with all its tokens, each once.
func TestTextHasItsTokens(t *testing.T) {
	for text, want := range map[string][]string{"a <b\n<tool|x": {"a", " <b", "\n<toolx"},
		"a\n\n<to<t": {"a", "\n\n<to", "<t"}, "a ": {"a", " "}} {
		p, got, of := &play{stretches: []string{text}, limit: 100}, []string(nil), ""
		a := Answer{Model: p, Session: p, Prompt: []int32{9}, Calls: Calls{One: []byte("one")}}
		a.Emit = func(x Piece) error {
			got = append(got, x.Text)
			assert.NotEmpty(t, x.Tokens)
			for _, one := range x.Tokens {
				of += one.Text
			}
			return nil
		}
		_, err := a.Run(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, got)
		shown, _, _ := strings.Cut(text, "|")
		assert.Equal(t, shown, of)
	}
}

// TestAfterThought: the first token after a thought that was generated on its own is generated again, with the settings
// of the answer.
func TestAfterThought(t *testing.T) {
	p := &play{stretches: []string{"[t]x", "{}"}}
	said, a, _, err := p.run(Answer{Settings: terms.Settings{JSON: true}, Thinks: true})
	require.NoError(t, err)
	var text []byte
	for _, id := range a.IDs {
		text = append(text, byte(id))
	}
	assert.Equal(t, "[t]{}", said)
	assert.Equal(t, said, string(text), "of all tokens")
}

// TestBrokenCalls: a call that is not as its schema says, or that cannot be found again, is an error.
func TestBrokenCalls(t *testing.T) {
	tools := Calls{One: []byte("one"), Each: map[string][]byte{"f": []byte("f")}}
	for _, call := range []string{"x", "{", `{"name":7}`} {
		_, _, _, err := (&play{stretches: []string{call}}).run(Answer{Calls: tools, Forced: true})
		assert.ErrorIs(t, err, errCall, call)
	}
	_, _, _, err := (&play{stretches: []string{"<tool_cal|l>"}}).run(Answer{Calls: tools})
	require.NoError(t, err)
	a := &Answer{Model: &play{}, IDs: []int32{'a', 'b'}}
	_, err = a.restartCall(t.Context(), 1, &callFinder{rest: "c"})
	assert.EqualError(t, err, "1 tokens detokenize to another text than before")
}

// TestResultParts: the parts of a result, in order, and which of them are whole.
func TestResultParts(t *testing.T) {
	var r Result
	token := func(id int32) []engine.Token { return []engine.Token{{ID: id}} }
	for _, p := range []Piece{{Prompt: token(1)}, {Prompt: token(2)}, {Text: "t", Thought: true},
		{Text: "a", Tokens: token(3)},
		{Text: "b", Tokens: token(4)}, {Call: &CallPiece{0, "f", "{"}}, {Call: &CallPiece{0, "", "}"}},
		{Text: "c", Tokens: token(5)}, {Call: &CallPiece{1, "g", "{"}}} {
		r.Take(p)
	}
	text, tokens := r.Text()
	assert.Equal(t, "abc", text)
	assert.Equal(t, "t", r.Thought())
	assert.Equal(t, []engine.Token{{ID: 3}, {ID: 4}, {ID: 5}}, tokens, "of the text")
	assert.Equal(t, []engine.Token{{ID: 1}, {ID: 2}}, r.Prompt)
	require.Len(t, r.Parts, 6)
	for finish, want := range map[string][]bool{FinishLength: {true, true, true, true, true, false},
		FinishCalls: {true, true, true, true, true, true}} {
		r.Finish = finish
		for i := range r.Parts {
			assert.Equal(t, want[i], r.Whole(i), "%s: %d", finish, i)
		}
	}
	r.Finish, r.Parts = FinishLength, r.Parts[:4]
	assert.True(t, r.Whole(3), "the arguments are complete")
	r.Parts = r.Parts[:3]
	r.Parts[2].Text = []byte("1")
	assert.False(t, r.Whole(2), "a text")

	sent := engine.Receipt{To: "a"}.Plus(engine.Receipt{Tokens: 1, Bytes: 2})
	sent = sent.Plus(engine.Receipt{Tokens: 3, Bytes: 4, To: "b"}).Plus(engine.Receipt{})
	assert.Equal(t, engine.Receipt{Tokens: 4, Bytes: 6, To: "b"}, sent)
}

// TestLines: a line with less indentation ends an infill before its first character; so does a second line after a
// time since the first piece.
func TestLines(t *testing.T) {
	for _, pieces := range [][]string{{"a\n\n    b\n  ", "c\n"}, {"a\n", "\n", "    ", "b", "\n ", " c"},
		{"a\n\n    b\n  c\n    d"}, {"a\n\n\t\t\tb b\n \tc"}} {
		l := &Lines{Indent: 3}
		text, over := "", false
		for _, p := range pieces {
			require.False(t, over, "text after its end")
			var kept string
			kept, over = l.Take(p)
			text += kept
		}
		assert.True(t, over)
		assert.Regexp(t, "^a\n\n(    b|\t\t\tb b)\n..$", text)
	}
	bubble.Test(t, func(t *testing.T) {
		l := &Lines{Time: 2 * time.Second}
		for i, c := range []struct {
			text string
			over bool
		}{{"a", false}, {"b", false}, {"\n", false}, {"c", true}} {
			kept, over := l.Take(c.text)
			assert.Equal(t, c.text, kept, "after %d s", i)
			assert.Equal(t, c.over, over, "after %d s", i)
			time.Sleep(time.Second)
		}
		first := &Lines{Time: time.Second}
		first.Take("a")
		time.Sleep(time.Minute)
		_, over := first.Take("b")
		assert.False(t, over, "it is still the first line")
	})
	said, a, finish, err := (&play{stretches: []string{"a\n  b\nc"}}).run(Answer{Lines: &Lines{Indent: 1}})
	require.NoError(t, err)
	assert.Equal(t, "a\n  b\n", said)
	assert.Equal(t, FinishLength, finish)
	assert.Equal(t, engine.StopLength, a.Total.Stop)
}

// ended is a session that reports the end token of its answer.
type ended struct{ *play }

func (ended) End() *engine.Token { return &engine.Token{ID: 7} }

// TestScoredEnd: an answer after a scored prompt has its end token, which clients drop.
func TestScoredEnd(t *testing.T) {
	for score, want := range map[bool][]engine.Token{false: nil, true: {{ID: 7}}} {
		p := &play{stretches: []string{""}, limit: 9}
		var got []engine.Token
		a := Answer{Model: p, Session: ended{p}, Prompt: []int32{9}, Score: score,
			Emit: func(x Piece) error { got = append(got, x.Tokens...); return nil }}
		_, err := a.Run(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}
