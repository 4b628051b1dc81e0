package dialect

import (
	"context"
	"fmt"
	"net/http"
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

// Absent is ErrAbsent for an address that there is not, else err.
func Absent(err error) error {
	switch Status(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return err
}
