package pilotfish

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Errors of saved keys and values.
var (
	// ErrNotSaved says that bytes are no saved keys and values, or damaged ones.
	ErrNotSaved = engine.ErrNotSaved
	// ErrOtherSaved says that keys and values are of another model, other settings, another kind of device or another
	// version of the program, and would not have the same bits here.
	ErrOtherSaved = engine.ErrOtherSaved
)

// SaveKV writes the text of the session with the keys and values that were computed for it. A session that reads them
// by [Session.LoadKV], also in another process, goes on with the same bits, and computes nothing of the text again.
// They contain the text: give a file mode 0600.
func (s *Session) SaveKV(ctx context.Context, w io.Writer) error {
	_, err := s.s.Save(ctx, w, nil)
	return err
}

// LoadKV makes a text that [Session.SaveKV] or [Chat.SaveKV] has written the session's, and returns its tokens. r ends
// with it. After an error the session has no text. The error is [ErrNotSaved], [ErrOtherSaved], [ErrContext] if the
// text has no room, or that of r.
func (s *Session) LoadKV(ctx context.Context, r io.Reader) ([]int32, error) { return s.s.Load(ctx, r) }

// CopyKV replaces the session's text by the first tokens of another session's text, at most this many, with their keys
// and values: texts that share a beginning, such as a long system prompt, then compute it once. Both sessions are of
// one model. After an error the session has no text.
func (s *Session) CopyKV(ctx context.Context, from *Session, most int) error {
	return s.s.CopyFrom(ctx, from.s, most)
}

// SaveKV writes the tokens of the conversation up to the last answer, with the keys and values that were computed for
// them. A chat that begins with the same messages and reads them by [Chat.LoadKV] goes on as this one would.
func (c *Chat) SaveKV(ctx context.Context, w io.Writer) error {
	c.mu.Lock()
	ids := c.ids
	c.mu.Unlock()
	if ids == nil {
		return errors.New("nothing has been generated in this chat yet: there are no keys and values to save")
	}
	_, err := c.s.s.Save(ctx, w, ids)
	return err
}

// LoadKV goes on with what [Chat.SaveKV] has written of a chat with the same messages, and fails if they are others, or
// as [Session.LoadKV] does. The chat goes on without them then.
func (c *Chat) LoadKV(ctx context.Context, r io.Reader) error {
	ids, err := c.s.LoadKV(ctx, r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	same, err := c.says(ids)
	switch {
	case err != nil:
		return err
	case !same:
		return fmt.Errorf("%w: they are of a chat with other messages", ErrOtherSaved)
	}
	c.ids = ids
	return nil
}

// says reports whether ids are the turns of the chat: a question after them makes the same text either way, though not
// always the same tokens.
func (c *Chat) says(ids []int32) (bool, error) {
	t, err := c.s.m.e.Tokenizer()
	if err != nil {
		return false, err
	}
	next, err := t.Next(ids, tokenizer.Message{Role: "user"})
	if err != nil {
		return false, err
	}
	own, err := c.rendered(tokenizer.Message{Role: "user"})
	return err == nil && t.Decode(next) == t.Decode(own), err
}

// CopyKV copies the keys and values of another chat of the same model: a common beginning of the prompts, such as a
// long system message, is then not computed again.
func (c *Chat) CopyKV(ctx context.Context, from *Chat) error {
	return c.s.CopyKV(ctx, from.s, c.s.m.Context())
}

// SavedText returns the tokens of saved keys and values, if they can be loaded here. It reads only their head; LoadKV
// finds damage after it.
func (m *Model) SavedText(r io.Reader) ([]int32, error) { return m.e.SavedText(r) }
