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
	MaxLength int    `json:"max_model_len"` // tokens, those that follow included; 0 if it does not say
}

// Models returns what /v1/models lists: at least one model.
func Models(ctx context.Context, c *Client) ([]Model, error) {
	var w struct {
		Data []Model `json:"data"`
	}
	if err := c.Get(ctx, "/v1/models", &w); err != nil {
		return nil, err
	}
	if len(w.Data) == 0 || w.Data[0].ID == "" {
		return nil, fmt.Errorf("/v1/models: %w: it names no model", ErrReply)
	}
	return w.Data, nil
}

// Choose returns the model of /v1/models that is called name; "" means the first.
func Choose(ctx context.Context, c *Client, name string) (Model, error) {
	all, err := Models(ctx, c)
	if err != nil || name == "" {
		return append(all, Model{})[0], err
	}
	i := slices.IndexFunc(all, func(m Model) bool { return m.ID == name })
	if i < 0 {
		return Model{}, fmt.Errorf("it serves no model %q, but %q", name, all[0].ID)
	}
	return all[i], nil
}

// Tokenize asks the address that SGLang and vLLM have for it. The name of the model is left out where it is "".
func Tokenize(ctx context.Context, c *Client, model, text string) ([]int32, error) {
	var w struct {
		Tokens []int32 `json:"tokens"`
	}
	body := struct {
		Model      string `json:"model,omitempty"`
		Prompt     string `json:"prompt"`
		AddSpecial bool   `json:"add_special_tokens"`
	}{model, text, false}
	return w.Tokens, Absent(c.Post(ctx, "/tokenize", body, &w))
}

// TooLong tells a bad request whose context does not fit from others, by words that the engine says of it.
func TooLong(err error, words ...string) error {
	s, ok := errors.AsType[*StatusError](err)
	long := func(words string) bool { return strings.Contains(s.Said, words) }
	if ok && s.Status == http.StatusBadRequest && slices.ContainsFunc(words, long) {
		return fmt.Errorf("%w: %w", netproto.TooLarge, err)
	}
	return err
}

// Absent is ErrAbsent for an address that there is not, else err.
func Absent(err error) error {
	switch Status(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return err
}
