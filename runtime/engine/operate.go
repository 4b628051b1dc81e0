package engine

import (
	"log/slog"

	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream"
)

// Events and statistics of a gateway, for programs that put it together through this package.
type (
	GatewayEvent        = gateway.Event
	GatewayTicketKey    = gateway.TicketKey
	UpstreamEngineStats = upstream.EngineStats
)

// NewGatewayTextLog is [NewGatewayLog] with the texts of users in its lines about answered questions, which text
// decodes.
func NewGatewayTextLog(to *slog.Logger, text func(ids []int32) string) *gateway.Log {
	return gateway.NewTextLog(to, text)
}

// CheckTokens returns why a gateway refuses access tokens.
func CheckTokens(tokens []GatewayToken) error { return gateway.CheckTokens(tokens) }
