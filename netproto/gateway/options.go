package gateway

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Options of a gateway. The zero value is one that anybody may ask, under a certificate made on the spot.
type Options struct {
	Certificate  tls.Certificate       // zero means a new self-signed one, see Gateway.Fingerprint
	Tokens       []Token               // who may ask; none means anybody, and then each address counts as one client
	Dictionaries []netproto.Dictionary // trained dictionaries that clients may use, best first
	AnyTemplate  bool                  // take clients whose chat template differs

	MaxContext        int // tokens of a context; 0 means what the upstream takes
	MaxSessions       int // kept for all clients; 0 means 256
	MaxSessionTokens  int // kept for one session; 0 means 4 times MaxContext
	MaxTokens         int // kept for all sessions; 0 means 16 Mi (12 bytes each)
	MaxConns          int // open connections; 0 means 1024
	MaxConnsPerClient int // 0 means 64
	MaxStreams        int // asks of one connection at a time; 0 means 128
	MaxWaiting        int // asks of one client that wait for the upstream; 0 means 256

	SessionIdle    time.Duration // after which a session is forgotten; 0 means 15 min
	IdleTimeout    time.Duration // after which a silent connection is closed; 0 means 30 s
	MessageTimeout time.Duration // for a message to arrive, or to be taken; 0 means 5 s
	AskTimeout     time.Duration // for an ask without a deadline, and the longest deadline; 0 means 60 s
	DrainTimeout   time.Duration // for open asks when Serve is to end; 0 means 10 s

	// Events, if set, is told what happens. It is called from many goroutines and must not wait.
	Events func(Event)
}

// Token is a token of authentication.
type Token struct {
	Name     string          // for events; not secret
	Secret   netproto.Secret // at least 16 bytes
	AskRate  float64         // asks and syncs per second; 0 means no limit
	AskBurst int             // that may come at once; 0 means twice AskRate, at least 8
}

func (o Options) withDefaults(info Info) (Options, error) {
	o.MaxContext = defaultTo(o.MaxContext, defaultTo(info.MaxContext, 32768))
	o.MaxSessions = defaultTo(o.MaxSessions, 256)
	o.MaxSessionTokens = defaultTo(o.MaxSessionTokens, 4*max(o.MaxContext, 0))
	o.MaxTokens = defaultTo(o.MaxTokens, 16<<20)
	o.MaxConns = defaultTo(o.MaxConns, 1024)
	o.MaxConnsPerClient = defaultTo(o.MaxConnsPerClient, 64)
	o.MaxStreams = defaultTo(o.MaxStreams, 128)
	o.MaxWaiting = defaultTo(o.MaxWaiting, 256)
	o.SessionIdle = defaultTo(o.SessionIdle, 15*time.Minute)
	o.IdleTimeout = defaultTo(o.IdleTimeout, 30*time.Second)
	o.MessageTimeout = defaultTo(o.MessageTimeout, 5*time.Second)
	o.AskTimeout = defaultTo(o.AskTimeout, time.Minute)
	o.DrainTimeout = defaultTo(o.DrainTimeout, 10*time.Second)
	return o, o.validate(info)
}

func defaultTo[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

func (o Options) validate(info Info) error {
	for name, v := range map[string]int{"MaxContext": o.MaxContext, "MaxSessions": o.MaxSessions, "MaxSessionTokens": o.MaxSessionTokens,
		"MaxTokens": o.MaxTokens, "MaxConns": o.MaxConns, "MaxConnsPerClient": o.MaxConnsPerClient, "MaxStreams": o.MaxStreams,
		"MaxWaiting": o.MaxWaiting, "SessionIdle": int(o.SessionIdle), "IdleTimeout": int(o.IdleTimeout),
		"MessageTimeout": int(o.MessageTimeout), "AskTimeout": int(o.AskTimeout), "DrainTimeout": int(o.DrainTimeout), "Info.Parallel": info.Parallel} {
		if v < 0 {
			return fmt.Errorf("gateway: %s is negative", name)
		}
	}
	if o.MaxContext > netproto.MaxPosition {
		return fmt.Errorf("gateway: a context of %d tokens: the protocol ends at %d", o.MaxContext, netproto.MaxPosition)
	}
	if info.Identity.Vocab < 1 || info.Identity.Vocab > netproto.MaxVocab {
		return fmt.Errorf("gateway: the upstream states a vocabulary of %d", info.Identity.Vocab)
	}
	for _, t := range o.Tokens {
		if len(t.Secret) < minSecret {
			return fmt.Errorf("gateway: the token of authentication %q is shorter than %d bytes", t.Name, minSecret)
		}
	}
	return nil
}

const minSecret = 16 // bytes

// limits returns what a Welcome tells.
func (o Options) limits() netproto.Limits {
	return netproto.Limits{Context: o.MaxContext, Sessions: o.MaxSessions, Asks: o.MaxStreams, Message: o.maxMessage()}
}

// maxMessage is the longest body of a frame that a client may send: a context in its longest coding, and a head.
func (o Options) maxMessage() int { return min(3*o.MaxContext+256, netproto.MaxMessage) }
