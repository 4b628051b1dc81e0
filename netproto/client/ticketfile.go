package client

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// errTicket is why a file of a [ticketFolder] is no ticket for here and now. Its text holds nothing of the file.
var errTicket = errors.New("no ticket")

// Bounds of a file with a ticket.
const (
	ticketMagic = "pilotfish ticket 1\n"
	// bytes; a certificate of a few hundred, or a chain of a few thousand, is most of it
	ticketLongest = 64 << 10
	ticketLasts   = 7 * 24 * time.Hour // TLS allows no more; a gateway may allow less, which the ticket says itself
)

// ticketFile is what a file holds: magic, then
//
//	key [32], made i64 (Unix seconds), program, ticket, state (each length u32, bytes), SHA-256 of all before [32]
//
// in little endian. State is tls.SessionState's own form, which may change from one version of Go to the next, and
// holds the transport parameters that 0-RTT needs in the form of quic-go, which says its version itself. It is secret.
type ticketFile struct {
	key     [sha256.Size]byte // of what the ticket is for: gateway and pin
	made    int64
	program string // version of Go
	ticket  []byte
	state   []byte
}

func (f ticketFile) append(b []byte) []byte {
	start := len(b)
	b = append(append(b, ticketMagic...), f.key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.made))
	for _, part := range [][]byte{[]byte(f.program), f.ticket, f.state} {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	sum := sha256.Sum256(b[start:])
	return append(b, sum[:]...)
}

// parseTicketFile reads what append writes, and nothing else.
func parseTicketFile(b []byte) (f ticketFile, err error) {
	rest, magic := bytes.CutPrefix(b, []byte(ticketMagic))
	if !magic || len(b) > ticketLongest || len(rest) < len(f.key)+8+sha256.Size {
		return ticketFile{}, fmt.Errorf("%w: another kind of file", errTicket)
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(sum) {
		return ticketFile{}, fmt.Errorf("%w: damaged", errTicket)
	}
	rest = rest[:len(rest)-sha256.Size]
	rest = rest[copy(f.key[:], rest):]
	f.made, rest = int64(binary.LittleEndian.Uint64(rest)), rest[8:]
	var program []byte
	for _, part := range []*[]byte{&program, &f.ticket, &f.state} {
		if len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return ticketFile{}, fmt.Errorf("%w: %w", errTicket, io.ErrUnexpectedEOF)
		}
		n := binary.LittleEndian.Uint32(rest)
		*part, rest = rest[4:4+n], rest[4+n:]
	}
	if len(rest) > 0 {
		return ticketFile{}, fmt.Errorf("%w: bytes are left over", errTicket)
	}
	f.program = string(program)
	return f, nil
}

// newTicketFile writes down a session.
func newTicketFile(key [sha256.Size]byte, s *tls.ClientSessionState, now time.Time) (ticketFile, error) {
	ticket, state, err := s.ResumptionState()
	if err != nil || state == nil {
		return ticketFile{}, errors.Join(errTicket, err)
	}
	b, err := state.Bytes()
	if err != nil {
		return ticketFile{}, fmt.Errorf("%w: %w", errTicket, err)
	}
	return ticketFile{key: key, made: now.Unix(), program: runtime.Version(), ticket: ticket, state: b}, nil
}

// session returns the session that is written down, if it is one for key that this program can go on with.
func (f ticketFile) session(key [sha256.Size]byte, now time.Time) (*tls.ClientSessionState, error) {
	age := now.Sub(time.Unix(f.made, 0))
	switch {
	case f.key != key:
		return nil, fmt.Errorf("%w: for another gateway", errTicket)
	case f.program != runtime.Version():
		return nil, fmt.Errorf("%w: of another version", errTicket)
	case age < 0 || age > ticketLasts:
		return nil, fmt.Errorf("%w: out of date", errTicket)
	case len(f.ticket) == 0 || !ofClient(f.state):
		return nil, fmt.Errorf("%w: no session of a client", errTicket)
	}
	state, err := tls.ParseSessionState(f.state)
	if err != nil {
		return nil, fmt.Errorf("%w: damaged", errTicket)
	}
	return tls.NewResumptionState(f.ticket, state)
}

// ofClient reports whether a tls.SessionState begins as that of a client with TLS 1.3: u16 version, u8 side. The state
// of a server may be without a certificate, which crypto/tls (Go 1.26) takes for granted when it resumes.
func ofClient(state []byte) bool {
	return bytes.HasPrefix(state, []byte{tls.VersionTLS13 >> 8, tls.VersionTLS13 & 0xff, 2})
}
