package gateway

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"math"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Options configure a gateway. The zero value is an open gateway, which anyone may use, with a new certificate.
type Options struct {
	Certificate tls.Certificate     // zero means a new self-signed one, see Gateway.Fingerprint
	TicketKeys  []TicketKey         // see Gateway.SetTicketKeys; none: drawn at start and every day
	Tokens      []Token             // who may ask; none means anyone
	Dictionary  netproto.Dictionary // a trained dictionary that devices may use; zero: none

	MaxTokens      int           // kept for all sessions; 0 means 16 Mi (12 bytes each)
	MaxConns       int           // open connections; 0 means 8192
	DeviceRate     float64       // asks and syncs per second of a device, on an open gateway of an address; 0: any
	IdleTimeout    time.Duration // after which a silent connection is closed; 0 means 30 s
	MessageTimeout time.Duration // for a message to arrive or to be sent; 0 means 5 s
	AskTimeout     time.Duration // for an ask without a deadline, and the longest deadline; 0 means 60 s

	derived derivedLimits

	// Events, if set, is called for each event, by many goroutines. It must not block.
	Events func(Event)
}

// derivedLimits has the limits that are constants, or follow from the options and the upstream. A device may have a
// fraction of MaxConns, but in a small gateway as much as in one of the default size.
type derivedLimits struct {
	MaxContext           int // tokens of a context: the upstream's limit, or 32768
	MaxSessions          int // kept for all devices: 65536
	MaxSessionsPerDevice int // 64
	MaxSessionTokens     int // of one session: 4 times MaxContext
	MaxConnsPerAddress   int // of one IPv4 address or IPv6 /64: half of MaxConns
	MaxConnsPerDevice    int // 1/1024 of MaxConns
	MaxAsks              int // open asks of all devices; above it only devices with few get in: 4096
	MaxAsksPerDevice     int // 256
	MaxStreams           int // concurrent asks of one connection: 128

	SessionIdle  time.Duration // after which a session is forgotten: 30 times IdleTimeout
	DrainTimeout time.Duration // for open asks when Serve ends: 1/6 of AskTimeout
}

func (o *Options) deriveLimits(info Info) {
	share := func(of, part, least int) int { return max(of/part, min(of, least)) }
	d := &o.derived
	d.MaxContext = cmp.Or(d.MaxContext, info.MaxContext, 32768)
	d.MaxSessions, d.MaxSessionsPerDevice = cmp.Or(d.MaxSessions, 65536), cmp.Or(d.MaxSessionsPerDevice, 64)
	d.MaxSessionTokens = cmp.Or(d.MaxSessionTokens, 4*d.MaxContext)
	d.MaxConnsPerAddress = cmp.Or(d.MaxConnsPerAddress, share(o.MaxConns, 2, 1))
	d.MaxConnsPerDevice = cmp.Or(d.MaxConnsPerDevice, share(o.MaxConns, 1024, 8))
	d.MaxAsks, d.MaxAsksPerDevice = cmp.Or(d.MaxAsks, 4096), cmp.Or(d.MaxAsksPerDevice, 256)
	d.MaxStreams = cmp.Or(d.MaxStreams, 128)
	d.SessionIdle = cmp.Or(d.SessionIdle, 30*o.IdleTimeout)
	d.DrainTimeout = cmp.Or(d.DrainTimeout, o.AskTimeout/6)
}

// Token is an access token. Any number of devices may use one.
type Token struct {
	Name       string          // for events, unique; not secret
	Secret     netproto.Secret // at least 16 bytes
	AskRate    float64         // asks and syncs per second of all its devices together; 0 means no limit
	MaxDevices int             // connected at a time; 0 means no limit
	Weight     int             // of its share of the capacity, while others want all of it; 0 means 1

	// Sessions of one access token with a common beginning share cached computations. So a device that tries out texts
	// can learn, from the times of answers, what other devices of the token asked recently. With Share this holds for
	// all tokens with Share; with Private no two devices share anything.
	Share, Private bool
}

func (o Options) withDefaults(info Info) (Options, error) {
	o.MaxTokens = cmp.Or(o.MaxTokens, 16<<20)
	o.MaxConns = cmp.Or(o.MaxConns, 8192)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 30*time.Second)
	o.MessageTimeout = cmp.Or(o.MessageTimeout, 5*time.Second)
	o.AskTimeout = cmp.Or(o.AskTimeout, time.Minute)
	o.deriveLimits(info)
	return o, o.validateOptions(info)
}

func (o Options) validateOptions(info Info) error {
	for name, v := range map[string]int{
		"MaxTokens": o.MaxTokens, "MaxConns": o.MaxConns, "IdleTimeout": int(o.IdleTimeout),
		"MessageTimeout": int(o.MessageTimeout), "AskTimeout": int(o.AskTimeout),
		"Info.MaxContext": info.MaxContext, "Info.Parallel": info.Parallel,
	} {
		if v < 0 {
			return fmt.Errorf("gateway: %s is negative", name)
		}
	}
	if !isValidRate(o.DeviceRate) {
		return fmt.Errorf("gateway: DeviceRate is %v, it must be a number of at least 0", o.DeviceRate)
	}
	if o.derived.MaxContext > netproto.MaxPosition {
		return fmt.Errorf("gateway: the upstream states contexts of %d tokens, the protocol allows %d",
			o.derived.MaxContext, netproto.MaxPosition)
	}
	if info.Identity.Vocab < 1 || info.Identity.Vocab > netproto.MaxVocab {
		return fmt.Errorf("gateway: the upstream states a vocabulary of %d tokens", info.Identity.Vocab)
	}
	return CheckTokens(o.Tokens)
}

// CheckTokens returns the error that New and SetTokens would return for access tokens.
func CheckTokens(tokens []Token) error {
	names, secrets := map[string]bool{}, map[netproto.Secret]bool{}
	for _, t := range tokens {
		switch {
		case len(t.Secret) < minSecret:
			return fmt.Errorf("gateway: the access token %q has fewer than %d bytes", t.Name, minSecret)
		case names[t.Name]:
			return fmt.Errorf("gateway: two access tokens have the name %q", t.Name)
		case secrets[t.Secret]:
			return fmt.Errorf("gateway: the access token %q has the same secret as another one", t.Name)
		case t.Share && t.Private:
			return fmt.Errorf("gateway: the access token %q has both share and private", t.Name)
		case !isValidRate(t.AskRate) || t.MaxDevices < 0 || t.Weight < 0 || t.Weight > fair.MaxWeight:
			return fmt.Errorf("gateway: the access token %q has a limit that is not a number of at least 0, or a "+
				"weight above %d", t.Name, fair.MaxWeight)
		}
		names[t.Name], secrets[t.Secret] = true, true
	}
	return nil
}

func isValidRate(r float64) bool { return r >= 0 && r <= math.MaxFloat64 }

const minSecret = 16 // bytes

// maxMessageBytes is the longest body of a frame that a client may send: a context in its longest coding, and the
// header.
func (o Options) maxMessageBytes() int { return min(3*o.derived.MaxContext+256, netproto.MaxMessage) }
