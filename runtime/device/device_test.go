package device

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/record"
)

// TestParse: every name of a backend, and invalid names.
func TestParse(t *testing.T) {
	for _, name := range []string{
		"cpu", "metal", "soft", "soft:fast", "soft:fastmath", "soft:check", "soft:ubsan", "soft:check:0",
		"soft:fast:18446744073709551615",
	} {
		b, err := Parse(name)
		require.NoError(t, err, name)
		assert.Equal(t, Backend(name), b)
	}
	for name, want := range map[string]string{
		"":                               `"" is not a backend: choose cpu, metal or soft`,
		"gpu":                            "choose cpu, metal or soft",
		"CPU":                            "choose cpu, metal or soft",
		"cpu:":                           "choose cpu, metal or soft",
		"cpu:fast":                       "choose cpu, metal or soft",
		"metal:fast":                     "choose cpu, metal or soft",
		"soft:":                          "choose fast, fastmath, check or ubsan",
		"soft:slow":                      `"slow" is not a variant of the backend soft: choose fast`,
		"soft:fast:":                     "the seed after the colon must be a number",
		"soft:fast:-1":                   "must be a number",
		"soft:fast:x":                    `"fast:x" is not a variant of the backend soft`,
		"soft:fast:1:":                   "must be a number",
		"soft:fast:18446744073709551616": "must be a number",
	} {
		b, err := Parse(name)
		assert.ErrorContains(t, err, want, name)
		assert.Empty(t, b)
	}
	variant, seed, err := Soft.how("check:42")
	require.NoError(t, err)
	assert.Equal(t, "check", variant)
	assert.EqualValues(t, 42, seed)
	variant, seed, err = Soft.how("ubsan")
	require.NoError(t, err)
	assert.Equal(t, "ubsan", variant)
	assert.Zero(t, seed)
}

// counted is a Metal device that counts what is open. It compiles and allocates as often as it may.
type counted struct {
	metal.Device
	libraries, buffers int // that it may still make
	open, closed       int
}

var errRefused = errors.New("refused")

func (c *counted) NewLibrary(source string) (metal.Library, error) {
	if c.libraries--; c.libraries < 0 {
		return nil, errRefused
	}
	c.open++
	l, err := c.Device.NewLibrary(source)
	return library{l, c}, err
}

func (c *counted) NewBuffer(length int) (metal.Buffer, error) {
	if c.buffers--; c.buffers < 0 {
		return nil, errRefused
	}
	c.open++
	b, err := c.Device.NewBuffer(length)
	return buffer{b, c}, err
}

func (c *counted) Close() error {
	c.closed++
	return c.Device.Close()
}

type library struct {
	metal.Library
	of *counted
}

func (l library) Close() { l.of.open-- }

type buffer struct {
	metal.Buffer
	of *counted
}

func (b buffer) Close() { b.of.open-- }

// TestOver: what was opened is closed at the end, and at once if the device cannot be used.
func TestOver(t *testing.T) {
	for _, c := range []*counted{{}, {libraries: 1}} {
		c.Device = record.Open()
		d, end, err := over(c, nil)
		assert.ErrorIs(t, err, errRefused)
		assert.Nil(t, d)
		assert.Nil(t, end)
		assert.Equal(t, [2]int{0, 1}, [2]int{c.open, c.closed})
	}
	c := &counted{Device: record.Open(), libraries: 1, buffers: 1}
	_, end, err := over(c, nil)
	require.NoError(t, err)
	assert.Equal(t, [2]int{2, 0}, [2]int{c.open, c.closed})
	require.NoError(t, end())
	assert.Equal(t, [2]int{0, 1}, [2]int{c.open, c.closed})
}
