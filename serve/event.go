package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/pilotfish-ai/pilotfish"
)

// Event describes a finished request. It contains no text of a user.
type Event struct {
	ID       string // of the request
	Endpoint string // "chat", "completions", "responses", "input_tokens", "messages" or "count_tokens"; "" if it was
	// refused earlier: then only Status and Code are set
	Status   int    // of HTTP; 499 if the client disconnected before there was one
	Code     string // of the error; "" if there was none
	Stream   bool
	Finish   string            // why the last answer ended; "" if there was none
	Answers  int               // begun
	Prompt   int               // tokens
	Cached   int               // of these, those in the KV cache
	Tokens   int               // generated
	Thought  int               // of these, thought before the answers
	Cloud    int               // of them, chosen by the large model
	Asks     int               // questions to it
	Left     pilotfish.Receipt // sent to the large model for the request
	Unlike   bool              // see [pilotfish.Stats]
	Queue    time.Duration     // waiting for a slot
	First    time.Duration     // from there to the first token; 0 without one
	Took     time.Duration     // in all
	Ignored  int               // fields of the request without effect
	Received int64             // bytes of the request
	Sent     int64             // bytes of the answer
	Err      error             // the cause of a failure
}

func (e Event) logRequest(to *slog.Logger) {
	level := slog.LevelInfo
	if e.Status >= 500 {
		level = slog.LevelError
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	args := []any{"id", e.ID, "endpoint", e.Endpoint, "status", e.Status, "stream", e.Stream, "answers", e.Answers,
		"prompt_tokens", e.Prompt, "cached_tokens", e.Cached, "tokens", e.Tokens, "finish", e.Finish,
		"queue_ms", ms(e.Queue), "first_token_ms", ms(e.First), "ms", ms(e.Took),
		"bytes_in", e.Received, "bytes_out", e.Sent}
	if e.Thought > 0 {
		args = append(args, "thought_tokens", e.Thought)
	}
	if e.Asks > 0 || e.Left != (pilotfish.Receipt{}) {
		args = append(args, "cloud_tokens", e.Cloud, "asks", e.Asks, "sent_tokens", e.Left.Tokens,
			"sent_bytes", e.Left.Bytes)
	}
	if e.Code != "" {
		args = append(args, "code", e.Code)
	}
	if e.Status >= 500 && e.Err != nil {
		args = append(args, "error", e.Err) // only the server's own errors: others may quote the client
	}
	to.Log(context.Background(), level, "request", args...)
}
