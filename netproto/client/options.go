package client

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/qlog"
)

// Options configure a client. Identity is required; other fields may stay zero.
type Options struct {
	Identity netproto.Identity // what the edge's token ids mean; a gateway with another model refuses
	Secret   netproto.Secret   // access token
	// identifies this device in all its connections; zero means drawn at random for this client
	Device netproto.Device
	// SHA-256 of the gateway's certificate; zero: the system's certificate authorities are trusted
	Pin          netproto.Digest
	ServerName   string                // name that the certificate must have; "" means the host that is dialled
	Dictionaries []netproto.Dictionary // trained dictionaries, best first
	Lazy         bool                  // Dial returns at once, then connects; asks wait for the connection

	// Attempted, if set, is called after each attempt to connect: with nil when the gateway said Welcome, else with a
	// [ConnectError]. It must not block.
	Attempted func(error)

	// Tickets store session tickets for 0-RTT; nil means in memory, for this client.
	Tickets tls.ClientSessionCache
	// TicketFolder stores them in files instead, so that they outlive the process. The folder is created if needed. Its
	// files are secret: the owner of a ticket can impersonate its gateway and read what was sent with 0-RTT.
	TicketFolder string

	ConnectTimeout time.Duration // for one attempt to connect; 0 means 5 s
	Patience       time.Duration // maximum wait of an ask for a connection; 0 means 30 s
	KeepAlive      time.Duration // between keep-alive packets on an idle connection; 0 means 10 s, negative none
	IdleTimeout    time.Duration // after which a silent connection is closed; 0 means 30 s
	// between checks of the local address, to follow a change of network; 0 means 2 s, negative never
	RouteCheck time.Duration
	// tokens of acknowledged paths kept per session; 0 means 4 times the gateway's longest context
	MaxKnown int

	QLog *qlog.Folder // stores a file for each connection; nil: none

	network network // nil means the system's
}

func (o Options) withDefaults() (Options, error) {
	if o.Identity.Vocab < 1 || o.Identity.Vocab > netproto.MaxVocab {
		return o, fmt.Errorf("client: a vocabulary of %d", o.Identity.Vocab)
	}
	for name, v := range map[string]time.Duration{
		"ConnectTimeout": o.ConnectTimeout, "Patience": o.Patience, "IdleTimeout": o.IdleTimeout,
		"MaxKnown": time.Duration(o.MaxKnown),
	} {
		if v < 0 {
			return o, fmt.Errorf("client: %s is negative", name)
		}
	}
	for v, def := range map[*time.Duration]time.Duration{
		&o.ConnectTimeout: 5 * time.Second, &o.Patience: 30 * time.Second, &o.KeepAlive: 10 * time.Second,
		&o.IdleTimeout: 30 * time.Second, &o.RouteCheck: 2 * time.Second,
	} {
		if *v == 0 {
			*v = def
		}
	}
	if o.network == nil {
		o.network = system{}
	}
	if o.Attempted == nil {
		o.Attempted = func(error) {}
	}
	if o.Device == (netproto.Device{}) {
		if _, err := rand.Read(o.Device[:]); err != nil {
			return o, fmt.Errorf("client: draw a device: %w", err)
		}
	}
	switch {
	case o.TicketFolder != "" && o.Tickets != nil:
		return o, errors.New("client: Tickets and TicketFolder: only one of them")
	case o.TicketFolder != "":
		o.Tickets = ticketFolder(o.TicketFolder)
	case o.Tickets == nil:
		const servers = 4
		o.Tickets = tls.NewLRUClientSessionCache(servers)
	}
	return o, nil
}
