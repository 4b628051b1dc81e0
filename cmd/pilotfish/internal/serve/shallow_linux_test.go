package serve

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestShallow: the system buffers little for a client that does not read.
func TestShallow(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	served, err := shallowListener{l}.Accept()
	require.NoError(t, err)
	defer served.Close()
	raw, err := served.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		bytes, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		assert.NoError(t, err)
		assert.Equal(t, 2*64<<10, bytes, "the system doubles the value")
	}))
}
