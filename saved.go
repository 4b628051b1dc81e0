package pilotfish

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Errors of saved keys and values.
var (
	// ErrNotSaved means that bytes are not saved keys and values, or damaged ones.
	ErrNotSaved = engine.ErrNotSaved
	// ErrOtherSaved means that keys and values are of another model, other settings, another kind of device or another
	// version of the program, and would not have the same bits here.
	ErrOtherSaved = engine.ErrOtherSaved
)

// SaveKV writes the text of the session with the keys and values that were computed for it. A session that reads them
// with [Session.LoadKV], even in another process, continues with the same bits and does not compute the text again. The
// output contains the text: give a file mode 0600.
func (s *Session) SaveKV(ctx context.Context, w io.Writer) error {
	_, err := s.s.Save(ctx, w, nil)
	return err
}

// LoadKV replaces the session's text by one that [Session.SaveKV] or [Chat.SaveKV] has written, and returns its tokens.
// It reads r to the end. After an error the session has no text. The error is [ErrNotSaved], [ErrOtherSaved],
// [ErrContext] if the text is too long, or that of r.
func (s *Session) LoadKV(ctx context.Context, r io.Reader) ([]int32, error) { return s.s.Load(ctx, r) }

// CopyKV replaces the session's text by the first tokens of another session's text, at most most tokens, with their
// keys and values: texts that share a beginning, such as a long system prompt, then compute it once. Both sessions must
// be of one model. After an error the session has no text.
func (s *Session) CopyKV(ctx context.Context, from *Session, most int) error {
	return s.s.CopyFrom(ctx, from.s, most)
}

// SaveKV writes the tokens of the conversation up to the last answer, with the keys and values that were computed for
// them, but not its messages: keep [Chat.Messages], too. A chat that begins with the same [ChatOptions].Messages and
// reads what was written with [Chat.LoadKV] continues as this one would.
func (c *Chat) SaveKV(ctx context.Context, w io.Writer) error {
	c.mu.Lock()
	ids := c.ids
	c.mu.Unlock()
	if ids == nil {
		return errors.New("nothing has been generated in this chat yet: there are no keys and values to save")
	}
	next, err := c.promptTokens([]Message{{Role: "user"}}, c.tools, request{})
	if err != nil {
		return err
	}
	_, err = c.s.s.Save(ctx, w, ids[:terms.CommonPrefix(ids, next)]) // the template may write calls in another way
	return err
}

// LoadKV continues with the keys and values that [Chat.SaveKV] has written for a chat with the same messages, which
// [ChatOptions].Messages must have again. It fails if they differ, or for the reasons of [Session.LoadKV]. After an
// error the chat continues without them.
func (c *Chat) LoadKV(ctx context.Context, r io.Reader) error {
	ids, err := c.s.LoadKV(ctx, r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.s.m.e.Tokenizer()
	if err != nil {
		return err
	}
	same, err := t.Says(ids, c.chatMessages([]Message{{Role: "user"}}), toolDefinitions(c.tools),
		templateValues(c.values)...)
	switch {
	case err != nil:
		return err
	case !same:
		return fmt.Errorf("%w: they are of a chat with other messages", ErrOtherSaved)
	}
	c.ids = ids
	return nil
}

// CopyKV copies the keys and values of another chat of the same model: a common beginning of the prompts, such as a
// long system message, is then not computed again.
func (c *Chat) CopyKV(ctx context.Context, from *Chat) error {
	return c.s.CopyKV(ctx, from.s, c.s.m.Context())
}

// SavedText returns the tokens of saved keys and values, if they can be loaded here. It reads only their head; LoadKV
// finds damage after it.
func (m *Model) SavedText(r io.Reader) ([]int32, error) { return m.e.SavedText(r) }
