package client

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// osNetwork is the network of the machine.
type osNetwork struct{}

func (osNetwork) lookupHost(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

func (osNetwork) listenUDP(to netip.AddrPort) (packetConn, error) {
	network := "udp6"
	if to.Addr().Is4() {
		network = "udp4"
	}
	udp, err := net.ListenUDP(network, nil)
	if err != nil {
		return nil, err // not udp, which would be a non-nil interface without a socket
	}
	return udp, nil
}

func (osNetwork) probeAddress(ctx context.Context, to netip.AddrPort, pause time.Duration) error {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write(nil); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(pause)) // always returns nil
	if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
		return err
	}
	return nil
}
