package chat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// savedChat is the JSON file that /save writes. It has the messages of the whole conversation, including those that no
// longer fit into the context: the system message, if it was set, then alternately user and assistant.
type savedChat struct {
	Format   string         `json:"format"`  // "pilotfish-chat"
	Version  int            `json:"version"` // 1
	Model    string         `json:"model,omitempty"`
	Messages []savedMessage `json:"messages"`
}

type savedMessage struct {
	Role    string               `json:"role"` // system, user or assistant
	Content string               `json:"content"`
	Thought string               `json:"-"`
	Calls   []pilotfish.ToolCall `json:"-"`
	Local   bool                 `json:"local,omitempty"` // a conversation with this message stays on the device
}

const (
	savedFormat  = "pilotfish-chat"
	savedVersion = 1
	maxSaved     = 64 << 20 // bytes
)

// errNoChat means that a file was not written by /save.
var errNoChat = errors.New("this is not a saved conversation")

func invalidChatError(format string, args ...any) error {
	return fmt.Errorf("%w: %w: use a file that /save has written", errNoChat, fmt.Errorf(format, args...))
}

// saveChat writes the conversation. It only replaces files with saved conversations.
func (c *conversation) saveChat(path string) error {
	if _, err := readSavedChat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s already exists, and /save replaces only saved conversations: choose another name (%w)",
			path, err)
	}
	out := savedChat{Format: savedFormat, Version: savedVersion, Model: c.model.Name(), Messages: []savedMessage{}}
	for _, m := range c.allMessages() {
		out.Messages = append(out.Messages, savedMessage(m))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	return cli.ReplaceFile(path, b.Bytes(), 0o600)
}

func (c *conversation) loadChat(ctx context.Context, path string) error {
	saved, err := readSavedChat(path)
	if err != nil {
		return fmt.Errorf("load the conversation: %w", err)
	}
	var messages []pilotfish.Message
	for _, m := range saved.Messages {
		messages = append(messages, pilotfish.Message(m))
	}
	c.dropped = nil
	c.startChat(messages)
	_, turns := splitSystem(messages)
	questions := "1 question with its answer"
	if n := len(turns) / 2; n != 1 {
		questions = fmt.Sprintf("%d questions with their answers", n)
	}
	fmt.Fprintf(c.a.Stderr, "loaded %s from %s\n", questions, path)
	if saved.Model != c.model.Name() && saved.Model != "" {
		fmt.Fprintf(c.a.Stderr, "(with answers of another model: %s)\n", errs.Quote(saved.Model))
	}
	c.loadKV(ctx, path+kvSuffix)
	return nil
}

// kvSuffix is the suffix of a file with keys and values, after the name of the conversation's file.
const kvSuffix = ".kv"

// saveKV writes the keys and values of the conversation. It only replaces files of that kind.
func (c *conversation) saveKV(ctx context.Context, path string) error {
	f, _, err := cli.OpenRegular(path)
	if err == nil {
		_, err = c.model.SavedText(bufio.NewReader(f))
		_ = f.Close() // the file was only read
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, pilotfish.ErrOtherSaved) {
		return fmt.Errorf("%s already exists, and only saved keys and values are replaced: choose another name (%w)",
			path, err)
	}
	return cli.ReplaceFileBy(path, 0o600, func(w io.Writer) error { return c.chat.SaveKV(ctx, w) })
}

// loadKV loads the keys and values of the conversation, if a file has them. Otherwise they are computed again.
func (c *conversation) loadKV(ctx context.Context, path string) {
	f, _, err := cli.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = c.chat.LoadKV(ctx, bufio.NewReader(f))
		_ = f.Close() // the file was only read
	}
	if err != nil {
		fmt.Fprintf(c.a.Stderr, "(%s is not used, the conversation is computed again: %v)\n", path, err)
		return
	}
	fmt.Fprintf(c.a.Stderr, "loaded keys and values from %s\n", path)
}

func readSavedChat(path string) (*savedChat, error) {
	b, err := cli.ReadRegular(path, maxSaved)
	if err != nil {
		return nil, err
	}
	saved, err := parseSavedChat(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return saved, nil
}

func parseSavedChat(b []byte) (*savedChat, error) {
	var saved savedChat
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields()
	err := json.Unmarshal(b, &saved) // also refuses what follows the value
	switch {
	case !utf8.Valid(b):
		return nil, invalidChatError("it is not UTF-8 text")
	case err != nil:
		return nil, invalidChatError("%s", describeJSONError(err))
	case saved.Format != savedFormat:
		return nil, invalidChatError("its \"format\" is %s, not %q", errs.Quote(saved.Format), savedFormat)
	case saved.Version != savedVersion:
		return nil,
			fmt.Errorf("it has version %d of the format, this program reads version %d: use the program that wrote it",
				saved.Version, savedVersion)
	}
	if err := strict.Decode(&saved); err != nil {
		return nil, invalidChatError("%s", describeJSONError(err))
	}
	return &saved, checkTurnOrder(saved.Messages)
}

// describeJSONError describes an error in JSON, without the names of types of Go.
func describeJSONError(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("it has a value of the wrong type (%s) at byte %d", wrong.Value, wrong.Offset)
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("it is not JSON: %v at byte %d", wrong, wrong.Offset)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// checkTurnOrder returns an error if messages are not a conversation: at most one system message, at the beginning,
// then alternately question and answer.
func checkTurnOrder(messages []savedMessage) error {
	roles := []string{"user", "assistant"}
	turns := messages
	if len(turns) > 0 && turns[0].Role == "system" {
		turns = turns[1:]
	}
	for i, m := range turns {
		if want := roles[i%2]; m.Role != want {
			n := i + len(messages) - len(turns)
			return fmt.Errorf("messages[%d] has the role %s, but %q comes here: after the system message, if there "+
				"is one, user and assistant take turns", n, errs.Quote(m.Role), want)
		}
	}
	if len(turns)%2 != 0 {
		return fmt.Errorf("messages[%d] is a question without an answer: remove it", len(messages)-1)
	}
	return nil
}
