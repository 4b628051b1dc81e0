package gateway

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// TestDeviceNumbers: a device has the same number whenever it reconnects, and no other device has it, not even the same
// device with another access token. A device without an id gets a new number each time.
func TestDeviceNumbers(t *testing.T) {
	c := newClients(Options{Tokens: []Token{{Name: "a", Secret: secretA}, {Name: "b", Secret: secretB}}})
	number := func(secret netproto.Secret, device byte) uint64 {
		h := netproto.Hello{Secret: secret}
		if device > 0 {
			h.Device = netproto.Device{device}
		}
		d, err := c.registerConnection(h, netip.Prefix{}, nil)
		require.NoError(t, err)
		c.unregisterConnection(d, nil)
		return d.number
	}
	seen := map[uint64]bool{}
	for range 2 {
		for device := range byte(100) {
			seen[number(secretA, 1+device)] = true
			seen[number(secretB, 1+device)] = true
		}
	}
	assert.Len(t, seen, 200)
	for range 10 {
		seen[number(secretA, 0)] = true
	}
	assert.Len(t, seen, 210)
	assert.Empty(t, c.devices, "devices without an id are not remembered")
	_, err := c.registerConnection(netproto.Hello{Secret: secretA + "1"}, netip.Prefix{}, nil)
	require.Equal(t, netproto.Refusal{Code: netproto.WrongSecret}, err)
	_, err = c.registerConnection(netproto.Hello{}, netip.Prefix{}, nil)
	require.Equal(t, netproto.Refusal{Code: netproto.WrongSecret}, err)
}

// TestTidyKeepsConnected: a connected device or address is remembered, whatever its rates.
func TestTidyKeepsConnected(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newClients(Options{DeviceRate: 1})
		here, there := netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32")
		hello := netproto.Hello{Device: netproto.Device{1}}
		one, err := c.registerConnection(hello, here, nil)
		require.NoError(t, err)
		_, err = c.registerConnection(netproto.Hello{Device: netproto.Device{2}}, there, nil)
		require.NoError(t, err)
		c.removeDisconnected()
		assert.Len(t, c.devices, 2)
		assert.Len(t, c.byAddress, 2)
		two, err := c.registerConnection(hello, here, nil)
		require.NoError(t, err)
		assert.Same(t, one, two)
		c.unregisterConnection(one, nil)
		assert.Equal(t, 1, c.byAddress[here].devices, "it has another connection")
		takePermit(one.bucket)
		takePermit(one.client.bucket)
		c.unregisterConnection(two, nil)
		assert.Zero(t, c.byAddress[here].devices)
		c.removeDisconnected()
		assert.Len(t, c.devices, 2)
		assert.Len(t, c.byAddress, 2)
		time.Sleep(time.Second)
		c.removeDisconnected()
		assert.Len(t, c.devices, 1)
		assert.Len(t, c.byAddress, 1)
		assert.NotNil(t, c.byAddress[there])
	})
}

// TestDeviceTakes: a message takes a permit of its device and one of the owner: it waits for the later one.
func TestDeviceTakes(t *testing.T) {
	for _, c := range []struct {
		name          string
		device, owner float64
		burst         int
		want          time.Duration
	}{
		{"no limits", 0, 0, 1, 0},
		{"of the device", 1, 0, 1, time.Second},
		{"of the owner", 0, 2, 1, 500 * time.Millisecond},
		{"of the device without a burst", 1, 0.1, 1, time.Second},
		{"of the owner within a burst", 1, 0.1, 2, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d := &device{bucket: newBucket(c.device, c.burst), client: &client{bucket: newBucket(c.owner, 1)}}
				assert.Zero(t, d.takeMessagePermit())
				assert.Equal(t, c.want, d.takeMessagePermit())
			})
		})
	}
}

// TestBucketSizes: the default burst of a bucket is twice its rate, at least 8.
func TestBucketSizes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			rate  float64
			burst int
			want  int
		}{{1, 0, 8}, {4, 0, 8}, {10, 0, 20}, {10, 1, 1}, {10, 30, 30}, {10, -1, 20}} {
			b, n := newBucket(c.rate, c.burst), 0
			assert.True(t, isFull(b), c)
			for takePermit(b) == 0 {
				n++
				assert.False(t, isFull(b), c)
			}
			assert.Equal(t, c.want, n, "%v", c)
			time.Sleep(time.Duration(float64(c.want) / c.rate * float64(time.Second)))
			assert.True(t, isFull(b))
		}
		for _, none := range []float64{0, -1} {
			b := newBucket(none, 5)
			for range 100 {
				assert.Zero(t, takePermit(b))
			}
			assert.True(t, isFull(b))
			setBucket(b, 1, 3)
			assert.True(t, isFull(b), "a limit begins with all its permits")
		}
	})
}

// TestMovedDevice: on an open gateway a device counts for the address that it connects from; no address outlasts its
// devices.
func TestMovedDevice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newClients(Options{DeviceRate: 1})
		for _, from := range []string{"10.0.0.1/32", "10.0.0.2/32"} {
			here := netip.MustParsePrefix(from)
			d, err := c.registerConnection(netproto.Hello{Device: netproto.Device{1}}, here, nil)
			require.NoError(t, err)
			assert.Same(t, c.byAddress[here], d.client)
			assert.Equal(t, 1, d.client.devices)
			d.takeMessagePermit()
			c.unregisterConnection(d, nil)
		}
		assert.Len(t, c.devices, 1, "its rate has not recovered")
		time.Sleep(time.Minute)
		c.removeDisconnected()
		assert.Empty(t, c.devices)
		assert.Empty(t, c.byAddress)
	})
}

// TestRemembered: a disconnected device is remembered until all its rates have recovered, those of asks and of syncs,
// and counts as a new one when it reconnects later.
func TestRemembered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		hello := func(device byte) netproto.Hello {
			return netproto.Hello{Secret: secretA, Device: netproto.Device{device}}
		}
		enter := func(c *clients, device byte) *device {
			d, err := c.registerConnection(hello(device), netip.Prefix{}, nil)
			require.NoError(t, err)
			return d
		}
		for _, use := range []func(d *device){
			func(d *device) { d.takeMessagePermit() }, func(d *device) { takePermit(d.syncs) },
		} {
			c := newClients(Options{
				DeviceRate: 1, Tokens: []Token{{Name: "a", Secret: secretA, MaxDevices: 1}},
			})
			d := enter(c, 1)
			use(d)
			c.unregisterConnection(d, nil)
			assert.Len(t, c.devices, 1)
			c.removeDisconnected()
			assert.Len(t, c.devices, 1)
			other := enter(c, 2)
			_, err := c.registerConnection(hello(1), netip.Prefix{}, nil)
			require.ErrorIs(t, err, netproto.Busy, "another device is connected now")
			c.unregisterConnection(other, nil)
			assert.Same(t, d, enter(c, 1))
			time.Sleep(time.Second)
			c.unregisterConnection(d, nil)
			assert.Empty(t, c.devices)
		}
	})
}
