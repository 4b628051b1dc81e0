package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// loaded returns a model until the test ends.
func loaded(t *testing.T, file []byte, context int) *pilotfish.Model {
	t.Helper()
	m, err := pilotfish.Load(file, "small", pilotfish.Options{Context: context})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// converse returns a conversation without options until the test ends.
func converse(t *testing.T, a *cli.App, m *pilotfish.Model) *conversation {
	t.Helper()
	f := &chatFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
	c := newConversation(a, f, m, pilotfish.Route{})
	t.Cleanup(c.closeChat)
	return c
}

// TestChatRoomForAnswer: the turns that are kept leave room for the question and for an answer: for a quarter of the
// context, or for the most tokens of an answer if that is less. No more turns are dropped than that needs.
func TestChatRoomForAnswer(t *testing.T) {
	clitest.OwnFolders(t)
	const context = 160
	m := loaded(t, demo.Small(), context)
	for most, answer := range map[int]int{0: context / 4, 3: 3, 100: context / 4} {
		f := &chatFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
		f.answer.MaxTokens = most
		c := newConversation(&cli.App{Stdout: io.Discard, Stderr: io.Discard, Env: os.Getenv}, f, m, pilotfish.Route{})
		messages := []pilotfish.Message{{Role: "system", Content: "be brief"}}
		for i := range 12 {
			messages = append(messages, pilotfish.Message{Role: "user", Content: fmt.Sprint("again ", i)},
				pilotfish.Message{Role: "assistant", Content: "yes"})
		}
		c.startChat(messages)
		question := pilotfish.Message{Role: "user", Content: clitest.Question(12)}
		require.NoError(t, c.makeRoom(question.Content))
		kept := c.chat.Messages()
		require.Less(t, len(kept), len(messages))
		with, err := c.countTokens(append(kept, question)...)
		require.NoError(t, err)
		assert.LessOrEqual(t, with+answer, context, most)
		dropped, err := c.countTokens(c.dropped[len(c.dropped)-2:]...)
		require.NoError(t, err)
		assert.Greater(t, with+answer+dropped, context, "the last turn that was dropped did not fit")
		c.closeChat()
	}
}

// TestChatLongest: the longest question takes all of the context but what the model's own message and the marks of two
// turns need.
func TestChatLongest(t *testing.T) {
	for context, room := range map[int]int{160: 160 - 20 - 2*turnTokens, 512: 512 - 64 - 2*turnTokens} {
		m := loaded(t, demo.Small(), context)
		c := converse(t, &cli.App{Stdout: io.Discard, Env: os.Getenv}, m)
		refused := map[int]bool{}
		for n := range context {
			question := strings.Repeat("?", n)
			asked, err := c.countTokens(pilotfish.Message{Role: "user", Content: question})
			require.NoError(t, err)
			refused[asked] = c.makeRoom(question) != nil
		}
		for _, asked := range []int{room, room + 1} {
			got, ok := refused[asked]
			assert.True(t, ok, "no question of %d tokens", asked)
			assert.Equal(t, asked > room, got, asked)
		}
	}
}

// TestChatUnwritten: a chat ends with the first error of stdout, although a user types the lines; other errors do not
// end it.
func TestChatUnwritten(t *testing.T) {
	m := loaded(t, demo.Small(), 160)
	for _, full := range []bool{false, true} {
		var out, errs bytes.Buffer
		a := &cli.App{Stdout: &out, Stderr: &errs, Env: os.Getenv}
		if full {
			a.Stdout = &cli.Output{W: clitest.WriterFunc(func([]byte) (int, error) { return 0, io.ErrShortWrite })}
		}
		c := converse(t, a, m)
		in := &script{lines: []string{"/foo", clitest.Question(0), clitest.Question(1)}}
		err := c.answerLoop(t.Context(), in)
		assert.Contains(t, errs.String(), "pilotfish: there is no command /foo")
		assert.Equal(t, full, err != nil)
		if full {
			assert.ErrorIs(t, err, io.ErrShortWrite)
			assert.Len(t, in.lines, 1, "the second question is not asked")
		} else {
			assert.Equal(t, 2, strings.Count(out.String(), "\n"))
		}
	}
}

// TestChatName: a model without a name has that of its file.
func TestChatName(t *testing.T) {
	for key, want := range map[string]string{"general.name": "pilotfish-demo-small", "general.none": "m.gguf"} {
		file := bytes.Replace(demo.Small(), []byte("general.name"), []byte(key), 1)
		m := loaded(t, file, 160)
		var errs bytes.Buffer
		f := &chatFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
		f.model.Path = "m.gguf"
		c := newConversation(&cli.App{Stdout: io.Discard, Stderr: &errs, Env: os.Getenv}, f, m, pilotfish.Route{})
		defer c.closeChat()
		c.printGreeting(true)
		assert.Equal(t, want+", context of 160 tokens. /help lists the commands, Ctrl-D ends.\n", errs.String())
	}
}

// TestChatShortened: a text of 60 characters is shown completely, a longer one as 59 and a mark.
func TestChatShortened(t *testing.T) {
	text := strings.Repeat("ä", 60)
	assert.Equal(t, text, shortenQuestion(text))
	assert.Equal(t, strings.Repeat("ä", 59)+"…", shortenQuestion(text+"b"))
	assert.Equal(t, "a b c", shortenQuestion(" a\nb\t\tc "))
}

// TestChatTotals: each number of an answer is in the total of its name.
func TestChatTotals(t *testing.T) {
	var errs bytes.Buffer
	c := &conversation{a: &cli.App{Stderr: &errs}}
	s := pilotfish.Stats{Tokens: 1000, CloudTokens: 20, Receipt: pilotfish.Receipt{Bytes: 7000}}
	c.countAnswer(s)
	c.countAnswer(s)
	assert.Equal(t, chatTotal{answers: 2, tokens: 2000, cloud: 40, sent: 14000}, c.total)
}

// TestChatRetryLocal: a question that was to stay on this device stays there when it is asked again, whatever /local
// says by then; and /local on keeps one that was not.
func TestChatRetryLocal(t *testing.T) {
	clitest.OwnFolders(t)
	m := loaded(t, demo.Small(), 0)
	for _, c := range []struct {
		name             string
		asked, now, want bool
	}{
		{"never local", false, false, false},
		{"asked locally", true, false, true},
		{"local now", false, true, true},
		{"both", true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &cli.App{Stdout: io.Discard, Stderr: io.Discard, Env: os.Getenv}
			talk := converse(t, a, m)
			require.NoError(t, talk.askQuestion(t.Context(), clitest.Question(0), c.asked))
			talk.local = c.now
			require.NoError(t, talk.retryCommand(t.Context(), ""))
			messages := talk.chat.Messages()
			require.Len(t, messages, 2)
			assert.Equal(t, c.want, messages[0].Local)
		})
	}
}

// TestChatFigures: each number of the last answer, and of all answers, is where /stats says it.
func TestChatFigures(t *testing.T) {
	said := func(total chatTotal, s pilotfish.Stats) string {
		var out bytes.Buffer
		total.printStats(&out, s, 512)
		return out.String()
	}
	s := pilotfish.Stats{Tokens: 11, CloudTokens: 4, Timeouts: 5, Routing: pilotfish.Routing{PromptTokens: 30,
		ReusedTokens: 20, Passes: 16, PromptTime: 1500 * time.Millisecond, DecodeTime: 4 * time.Second}}
	assert.Equal(t, "no answers yet\n", said(chatTotal{}, s))
	total := chatTotal{answers: 3, tokens: 400, sent: 7000}
	const last = "last answer: prompt of 30 tokens in 1500 ms, 20 of them reused from before; 11 generated at 2.5/s\n" +
		"context: 41 of 512 tokens\n"
	const none = "left this device for it: 0 tokens in 0 B\n"
	const all = "all 3 answers: 400 tokens, 0 from the large model (0.0%), 7.0 kB left this device\n"
	assert.Equal(t, last+none+all, said(total, s))
	s.Drafts, s.DraftsAccepted, s.DraftPasses = 12, 9, 7
	const drafts = "drafts of the small model: 12, 9 accepted, in 7 of 16 passes over the large one\n"
	assert.Equal(t, last+drafts+none+all, said(total, s))
	s.Drafts = 0
	s.Asks, s.Hits, s.Exposed, s.Lost, s.Hidden = 6, 3, 80*time.Millisecond, 30*time.Millisecond, 90*time.Millisecond
	s.Receipt = pilotfish.Receipt{Tokens: 50, Bytes: 600, To: "h:1"}
	assert.Equal(t, last+"cloud: 4 of 11 tokens, 6 asks with 3 hits, 5 tokens without an answer in time; waiting 80 "+
		"ms, hidden 90 ms\nleft this device for it: 50 tokens in 600 B to h:1\nall 3 answers: 400 tokens, 30 from the "+
		"large model (7.5%), 7.0 kB left this device\n",
		said(chatTotal{answers: 3, tokens: 400, cloud: 30, sent: 7000}, s))
	assert.Equal(t, none+all, said(chatTotal{answers: 3, tokens: 400, sent: 7000}, pilotfish.Stats{}),
		"the conversation has begun anew")
}

// TestChatRemarks: below an answer stands the line of run, without a large model that could not be asked; the colours
// are explained once, if there are any.
func TestChatRemarks(t *testing.T) {
	m := loaded(t, demo.Small(), 160)
	var errs bytes.Buffer
	c := &conversation{a: &cli.App{Stderr: &errs}, model: m}
	route := pilotfish.Route{}
	said := func(s pilotfish.Stats) string {
		defer errs.Reset()
		c.printRemarks(s, route)
		return errs.String()
	}
	assert.Empty(t, said(pilotfish.Stats{Stop: "end", Tokens: 9}))
	assert.Equal(t, "cut off: the context of 160 tokens is full (-c)\n",
		said(pilotfish.Stats{Stop: "context", Tokens: 9}))
	s := pilotfish.Stats{Tokens: 9, Stop: "end", Routing: pilotfish.Routing{Err: errors.New("unplugged")}}
	route.Cloud = new(pilotfish.Gateway)
	assert.Equal(t, "0 of 9 tokens from the large model: unplugged\n", said(s))
	s.Asks, s.CloudTokens, s.Exposed, s.Err = 4, 2, 70*time.Millisecond, nil
	const line = "2 of 9 tokens from the large model, 70 ms waited\n"
	assert.Equal(t, line+cli.Legend()+"\n", said(s))
	assert.Equal(t, line, said(s))
}

// TestChatForeignText: no text of a model's file or of a loaded conversation can control the terminal.
func TestChatForeignText(t *testing.T) {
	clitest.OwnFolders(t)
	const name = "pilotfish-demo-small"
	file := bytes.Replace(demo.Small(), []byte(name), []byte("pilotfish\x1b]0;small!\a"), 1)
	m := loaded(t, file, 160)
	talk := filepath.Join(t.TempDir(), "talk.json")
	require.NoError(t, os.WriteFile(talk, []byte(`{"format":"pilotfish-chat","version":1,"model":"other\u001b[2J",`+
		`"messages":[{"role":"system","content":"be\u001b[2J\n\tbrief"},{"role":"user","content":"who\u001b[2J?"},`+
		`{"role":"assistant","content":"I"},{"role":"user","content":"who?"},{"role":"assistant","content":"I"}]}`),
		0o600))
	var errs bytes.Buffer
	c := converse(t, &cli.App{Stdout: io.Discard, Stderr: &errs, Env: os.Getenv}, m)
	c.printGreeting(true)
	require.NoError(t, c.loadChat(t.Context(), talk))
	require.NoError(t, c.dispatchCommand(t.Context(), "/system"))
	require.NoError(t, c.dispatchCommand(t.Context(), "/undo"))
	require.NoError(t, c.dispatchCommand(t.Context(), "/undo"))
	assert.Equal(t, "pilotfish␛]0;small!␇, context of 160 tokens. /help lists the commands, Ctrl-D ends.\n"+
		"loaded 2 questions with their answers from "+talk+"\n"+`(with answers of another model: "other\x1b[2J")`+
		"\nthe system message is: be␛[2J\n\tbrief\nforgotten: who?\nforgotten: who␛[2J?\n", errs.String())
}

// stopped is a context that has ended, but not for those who wait for it.
type stopped struct{ context.Context }

func (stopped) Err() error { return context.Canceled }

// TestChatCloses: a connection is closed if the chat was stopped just after it was made, and when another one replaces
// it.
func TestChatCloses(t *testing.T) {
	clitest.OwnFolders(t)
	small := clitest.TinyModel(t, "q8_0")
	address, pin, _ := clitest.StartCloud(t, "-m", small, "--log", "off")
	m, err := pilotfish.Open(small, pilotfish.Options{})
	require.NoError(t, err)
	defer m.Close()
	command := new(cobra.Command)
	f := new(chatFlags)
	f.registerFlags(command)
	c := newConversation(&cli.App{Stdout: io.Discard, Stderr: io.Discard, Env: os.Getenv}, f, m, pilotfish.Route{})
	defer c.closeChat()
	held.Same(t, func() {
		err := c.connectGateway(stopped{context.Background()}, "/cloud", address, pin)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Nil(t, c.gateway)
	})
	require.NoError(t, c.connectGateway(t.Context(), "/cloud", address, pin))
	assert.Equal(t, address, c.address)

	before, talk := c.gateway, c.chat
	require.Error(t, c.connectGateway(t.Context(), "/cloud", address, clitest.OnePin(1)))
	assert.Same(t, before, c.gateway, "the connection stays if another one fails")
	require.NoError(t, c.connectGateway(t.Context(), "/cloud", address, pin))
	assert.NotSame(t, before, c.gateway)
	_, err = before.Ask(t.Context(), pilotfish.Question{Context: []int32{1}})
	assert.ErrorIs(t, err, pilotfish.ErrClosed, "the one before is closed")
	require.NoError(t, c.clearCommand(t.Context(), ""))
	_, err = pilotfish.Text(talk.Send(t.Context(), "who?"))
	assert.ErrorIs(t, err, pilotfish.ErrClosed, "and so is the conversation before")
}

// TestChatUnverified: a gateway that cannot verify as the policy says is named, with the reason and what it is asked
// instead.
func TestChatUnverified(t *testing.T) {
	clitest.OwnFolders(t)
	small, large := clitest.DemoFile("small.gguf"), clitest.DemoFile("large.gguf")
	judge := []string{"--policy", "judge", "--threshold", "0.5", "--router", clitest.JudgeFile(t)}
	llama := clitest.EngineOf(t, large, &fakeengine.Engine{Dialect: "llama"})
	for _, c := range []struct {
		name         string
		cloud, flags []string
		why          string // "" for none
	}{
		{"a gateway without the judge", []string{"-m", large}, judge, "start it with --router and the same file"},
		{"a gateway without flags", []string{"-m", large}, nil, ""},
		{"an engine and a judge", []string{"--upstream", llama, "--tokenizer", large}, judge,
			"vllm with --enable-scale-out"},
		{"an engine without flags", []string{"--upstream", llama, "--tokenizer", large}, nil,
			"vllm with --enable-scale-out"},
		{"an engine that is only asked", []string{"--upstream", llama, "--tokenizer", large},
			[]string{"--policy", "margin"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, pin, _ := clitest.StartCloud(t, c.cloud...)
			var out, errs strings.Builder
			args := append([]string{"chat", "-m", small, "--cloud", address, "--pin", pin, "-n", "8"}, c.flags...)
			code := clitest.Run(t.Context(), args, strings.NewReader("x\n"), &out, &errs)
			assert.Equal(t, cli.ExitDone, code, errs.String())
			if c.why == "" {
				assert.NotContains(t, errs.String(), "warning: ")
				return
			}
			assert.Contains(t, errs.String(), "warning: --cloud "+address+": ")
			assert.Contains(t, errs.String(),
				c.why+". Until then it is asked for tokens of which the small model is unsure\n")
		})
	}
}
