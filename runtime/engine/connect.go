package engine

import "github.com/pilotfish-ai/pilotfish/netproto/client"

// What goes wrong on the way to a gateway, for programs that put the parts together through this package.
type (
	ConnectError = client.ConnectError
	PinError     = client.PinError
)
