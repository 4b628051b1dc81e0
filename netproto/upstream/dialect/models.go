package dialect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Model is an entry of /v1/models.
type Model struct {
	ID        string `json:"id"`
	Owner     string `json:"owned_by"`
	MaxLength int    `json:"max_model_len"` // maximum length of a context with its continuation; 0 if unknown
	Meta      struct {
		Vocab int `json:"n_vocab"`
		Ctx   int `json:"n_ctx"`
	} `json:"meta"` // of llama-server
}

// Models returns the list of /v1/models: at least one model.
func Models(ctx context.Context, c *Client) ([]Model, error) {
	var w struct {
		Data []Model `json:"data"`
	}
	if err := c.Get(ctx, "/v1/models", &w); err != nil {
		return nil, err
	}
	if len(w.Data) == 0 || w.Data[0].ID == "" {
		return nil, fmt.Errorf("/v1/models: %w: it has no model", ErrReply)
	}
	return w.Data, nil
}

// findModel returns the first model for the name "".
func findModel(ctx context.Context, c *Client, name string) (Model, error) {
	all, err := Models(ctx, c)
	if err != nil || name == "" {
		return append(all, Model{})[0], err
	}
	i := slices.IndexFunc(all, func(m Model) bool { return m.ID == name })
	if i < 0 {
		return Model{}, fmt.Errorf("%w %q, but %q", ErrModel, name, all[0].ID)
	}
	return all[i], nil
}

func postTokenize(ctx context.Context, c *Client, model, text string) ([]int32, error) {
	var w struct {
		Tokens []int32 `json:"tokens"`
	}
	body := struct {
		Model      string `json:"model,omitempty"`
		Prompt     string `json:"prompt"`
		AddSpecial bool   `json:"add_special_tokens"`
	}{model, text, false}
	return w.Tokens, wrapAbsent(c.Post(ctx, "/tokenize", body, &w))
}

// wrapTooLong recognises the error of a context that does not fit, by words in the engine's message.
func wrapTooLong(err error, words ...string) error {
	s, ok := errors.AsType[*StatusError](err)
	long := func(words string) bool { return strings.Contains(s.Said, words) }
	if ok && s.Status == http.StatusBadRequest && slices.ContainsFunc(words, long) {
		return fmt.Errorf("%w: %w", netproto.TooLarge, err)
	}
	return err
}

func wrapAbsent(err error) error {
	switch Status(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return err
}
