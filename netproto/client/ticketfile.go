package client

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// errTicket means that a file of a [ticketFolder] has no usable ticket. Its text contains nothing of the file.
var errTicket = errors.New("no ticket")

// Limits of a ticket file.
const (
	// bytes; most of it is the certificate (a few hundred) or the chain (a few thousand)
	ticketLongest = 64 << 10
	ticketLasts   = 7 * 24 * time.Hour // TLS allows no more; a shorter limit of the gateway is in the ticket
)

// ticketFile is the content of a file, in JSON. State is the encoding of tls.SessionState, which may change with the
// version of Go. It includes the transport parameters for 0-RTT in the encoding of quic-go, which has its own version
// number. The file is secret.
type ticketFile struct {
	Key    []byte // hash of gateway and pin
	Made   int64  // Unix seconds
	Go     string // version
	Ticket []byte
	State  []byte
}

func newTicketFile(key [sha256.Size]byte, s *tls.ClientSessionState, now time.Time) ([]byte, error) {
	ticket, state, err := s.ResumptionState()
	if err != nil || state == nil {
		return nil, errors.Join(errTicket, err)
	}
	b, err := state.Bytes()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTicket, err)
	}
	return json.Marshal(ticketFile{key[:], now.Unix(), runtime.Version(), ticket, b})
}

func parseTicketFile(b []byte, key [sha256.Size]byte, now time.Time) (*tls.ClientSessionState, error) {
	var f ticketFile
	if len(b) > ticketLongest || json.Unmarshal(b, &f) != nil {
		return nil, errTicket
	}
	age := now.Sub(time.Unix(f.Made, 0))
	if !bytes.Equal(f.Key, key[:]) || f.Go != runtime.Version() || age < 0 || age > ticketLasts ||
		len(f.Ticket) == 0 || !isClientState(f.State) {
		return nil, errTicket
	}
	state, err := tls.ParseSessionState(f.State)
	if err != nil {
		return nil, errTicket
	}
	return tls.NewResumptionState(f.Ticket, state)
}

// isClientState reports whether a tls.SessionState begins as that of a client with TLS 1.3: u16 version, u8 side. The
// state of a server may lack a certificate, and crypto/tls (Go 1.26) assumes one when it resumes.
func isClientState(state []byte) bool {
	return bytes.HasPrefix(state, []byte{tls.VersionTLS13 >> 8, tls.VersionTLS13 & 0xff, 2})
}
