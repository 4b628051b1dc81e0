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

// errTicket means that a file of a [ticketFolder] has no usable ticket. Its text contains nothing of the file.
var errTicket = errors.New("no ticket")

// Limits of a ticket file.
const (
	ticketMagic = "pilotfish ticket 1\n"
	// bytes; most of it is the certificate (a few hundred) or the chain (a few thousand)
	ticketLongest = 64 << 10
	ticketLasts   = 7 * 24 * time.Hour // TLS allows no more; a shorter limit of the gateway is in the ticket
)

// ticketFile is the content of a file: magic, then
//
//	key [32], made i64 (Unix seconds), program, ticket, state (each length u32, bytes), SHA-256 of all before [32]
//
// in little endian. State is the encoding of tls.SessionState, which may change with the version of Go. It includes the
// transport parameters for 0-RTT in the encoding of quic-go, which has its own version number. The file is secret.
type ticketFile struct {
	key     [sha256.Size]byte // hash of gateway and pin
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

// parseTicketFile reads the format of append. It accepts nothing else.
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

// newTicketFile encodes a session.
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

// session returns the stored session, if it belongs to key and this program can resume it.
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
// of a server may lack a certificate, and crypto/tls (Go 1.26) assumes one when it resumes.
func ofClient(state []byte) bool {
	return bytes.HasPrefix(state, []byte{tls.VersionTLS13 >> 8, tls.VersionTLS13 & 0xff, 2})
}
