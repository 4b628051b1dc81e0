package client

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Options configure a client. Identity is required; other fields may stay zero.
type Options struct {
	Identity netproto.Identity // what the edge's token ids mean; a gateway with another model refuses
	Secret   netproto.Secret   // access token
	// identifies this device in all its connections; zero means drawn at random for this client
	Device netproto.Device
	// SHA-256 of the gateway's certificate; zero: the system's certificate authorities are trusted
	Pin        netproto.Digest
	ServerName string              // name that the certificate must have; "" means the host that is dialled
	Dictionary netproto.Dictionary // a trained dictionary; zero: none
	Lazy       bool                // Dial returns at once, then connects; asks wait for the connection

	// Attempted, if set, is called after each attempt to connect: with nil when the gateway said Welcome, else with a
	// [ConnectError]. It must not block.
	Attempted func(error)

	// Tickets store session tickets for 0-RTT; nil means in memory, for this client.
	Tickets tls.ClientSessionCache
	// TicketFolder stores them in files instead, so that they outlive the process. The folder is created if needed. Its
	// files are secret: the owner of a ticket can impersonate its gateway and read what was sent with 0-RTT.
	TicketFolder string

	ConnectTimeout time.Duration // for one attempt to connect; 0 means 5 s

	network network // nil means the system's
}

// Times of a connection.
const (
	patience    = 30 * time.Second // maximum wait of an ask for a connection
	keepAlive   = 10 * time.Second // between packets on an idle connection
	idleTimeout = 30 * time.Second // after which a silent connection is closed
)

func (o Options) withDefaults() (Options, error) {
	if o.Identity.Vocab < 1 || o.Identity.Vocab > netproto.MaxVocab {
		return o, fmt.Errorf("client: a vocabulary of %d", o.Identity.Vocab)
	}
	if o.ConnectTimeout < 0 {
		return o, errors.New("client: ConnectTimeout is negative")
	}
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 5*time.Second)
	if o.network == nil {
		o.network = osNetwork{}
	}
	if o.Attempted == nil {
		o.Attempted = func(error) {}
	}
	if o.Device == (netproto.Device{}) {
		_, _ = rand.Read(o.Device[:]) // always returns nil
	}
	if o.TicketFolder != "" {
		o.Tickets = ticketFolder(o.TicketFolder)
	}
	if o.Tickets == nil {
		const servers = 4
		o.Tickets = tls.NewLRUClientSessionCache(servers)
	}
	return o, nil
}
