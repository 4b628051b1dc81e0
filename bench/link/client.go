package link

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

// maxDatagram is the maximum size of a datagram.
const maxDatagram = 1 << 16

// client is a source address of datagrams, with its socket towards the target.
type client struct {
	addr netip.AddrPort
	conn atomic.Pointer[net.UDPConn]
}

// dialTarget opens a socket towards the target, with a port of its own. It is connected, so it only receives from the
// target.
func dialTarget(target netip.AddrPort) (*net.UDPConn, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target))
	if err == nil {
		enlargeBuffers(conn)
	}
	return conn, err
}

// enlargeBuffers requests buffers that hold a burst. If the system grants less, the link loses more packets than it
// should.
func enlargeBuffers(conn *net.UDPConn) {
	_ = conn.SetReadBuffer(4 << 20)
	_ = conn.SetWriteBuffer(4 << 20)
}

// sendWithRetry sends a datagram. An error may belong to an earlier datagram that the other side refused. Then this one
// has not been sent, so it is sent again.
func sendWithRetry(send func() (int, error)) error {
	if _, err := send(); err == nil || errors.Is(err, net.ErrClosed) {
		return err
	}
	_, err := send()
	return err
}

// receiveDatagrams calls got with each datagram of a socket until it is closed or its deadline has passed.
func receiveDatagrams(conn *net.UDPConn, got func(from netip.AddrPort, data []byte)) {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		switch {
		case err == nil:
			got(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), buf[:n])
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			return
		default: // such as "connection refused" for an earlier packet; if it persists, it must not keep a core busy
			time.Sleep(time.Millisecond)
		}
	}
}
