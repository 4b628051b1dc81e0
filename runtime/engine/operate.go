package engine

import (
	"fmt"
	"log/slog"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// What is told of a gateway while it serves, for programs that put it together through this package.
type (
	GatewayEvent        = gateway.Event
	GatewayTicketKey    = gateway.TicketKey
	UpstreamEngineStats = upstream.EngineStats
)

// NewGatewayTextLog is [NewGatewayLog] whose lines of answered questions show the texts of users, as text gives them.
func NewGatewayTextLog(to *slog.Logger, text func(ids []int32) string) *gateway.Log {
	return gateway.NewTextLog(to, text)
}

// CheckTokens says what New would refuse of access tokens.
func CheckTokens(tokens []GatewayToken) error { return gateway.CheckTokens(tokens) }

// TextOf returns what shows tokens as text, by the vocabulary of the model file at path, of which nothing else is read.
func TextOf(path string) (func(ids []int32) string, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t.Decode, nil
}
