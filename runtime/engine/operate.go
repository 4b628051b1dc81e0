package engine

import (
	"log/slog"

	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream"
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
