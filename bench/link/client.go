package link

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

// maxDatagram is the most that one datagram holds.
const maxDatagram = 1 << 16

// client is an address that datagrams come from, and its socket towards the target.
type client struct {
	addr netip.AddrPort
	conn atomic.Pointer[net.UDPConn]
}

// dial opens a socket towards the target from a port of its own. Being connected, it hears the target alone.
func dial(target netip.AddrPort) (*net.UDPConn, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target))
	if err == nil {
		enlarge(conn)
	}
	return conn, err
}

// enlarge asks for buffers that hold a burst. The system may give less, and the link then loses more than it should.
func enlarge(conn *net.UDPConn) {
	_ = conn.SetReadBuffer(4 << 20)
	_ = conn.SetWriteBuffer(4 << 20)
}

// write sends a datagram. The error that a socket reports may be that of an earlier one, which the other side refused,
// and then this one has not been tried yet.
func write(send func() (int, error)) error {
	if _, err := send(); err == nil || errors.Is(err, net.ErrClosed) {
		return err
	}
	_, err := send()
	return err
}

// receive calls got with each datagram of a socket until it is closed or its deadline has passed.
func receive(conn *net.UDPConn, got func(from netip.AddrPort, data []byte)) {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		switch {
		case err == nil:
			got(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), buf[:n])
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			return
		default: // such as "connection refused" for what was sent before; if it lasts, it must not keep a core busy
			time.Sleep(time.Millisecond)
		}
	}
}
