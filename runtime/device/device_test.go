package device

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
)

// TestParse: every name of a backend, and invalid names.
func TestParse(t *testing.T) {
	for _, b := range []Backend{CPU, Metal, Soft, SoftCheck} {
		got, err := Parse(string(b))
		require.NoError(t, err, b)
		assert.Equal(t, b, got)
	}
	for _, name := range []string{"", "gpu", "CPU", "cpu:", "cpu:check",
		"metal:check", "soft:", "soft:fast", "soft:check:1"} {
		b, err := Parse(name)
		assert.EqualError(t, err, strconv.Quote(name)+" is not a backend: choose cpu, metal, soft or soft:check")
		assert.Empty(t, b)
	}
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
	for name, c := range map[string]*counted{"no library": {}, "no buffer": {libraries: 1}} {
		t.Run(name, func(t *testing.T) {
			c.Device = record.Open()
			d, end, err := newGPUBackend(c, gpu.Options{})
			assert.ErrorIs(t, err, errRefused)
			assert.Nil(t, d)
			assert.Nil(t, end)
			assert.Zero(t, c.open)
			assert.Equal(t, 1, c.closed)
		})
	}
	c := &counted{Device: record.Open(), libraries: 1, buffers: 1}
	_, end, err := newGPUBackend(c, gpu.Options{})
	require.NoError(t, err)
	assert.Equal(t, 2, c.open)
	assert.Zero(t, c.closed)
	require.NoError(t, end())
	assert.Zero(t, c.open)
	assert.Equal(t, 1, c.closed)
}

// TestOverMapped: weights in the memory of a mapped file are used in place.
func TestOverMapped(t *testing.T) {
	c := &counted{Device: record.Open(), libraries: 2, buffers: 1} // none for a copy
	page := c.Limits().PageSize
	memory := make([]byte, 2*page)
	memory = memory[page-int(uintptr(unsafe.Pointer(&memory[0]))%uintptr(page)):][:page]
	d, end, err := newGPUBackend(c, gpu.Options{Mapped: [][]byte{memory}})
	require.NoError(t, err)
	_, err = d.LoadWeight(gguf.Tensor{Type: gguf.F32, Shape: []int{4, 4}, Data: memory[64:128]}, nil)
	assert.NoError(t, err)
	assert.NoError(t, end())
}

// TestOpen: threads and exactness reach the CPU, which alone computes exactly, and of which nothing is left at the end.
// An error names the backend.
func TestOpen(t *testing.T) {
	held.Same(t, func() {
		for _, b := range []Backend{"", CPU} {
			for exact, want := range map[bool]string{true: "cpu (exact, threads 3)", false: ", threads 3)"} {
				d, end, err := Open(Options{Backend: b, Threads: 3, Exact: exact})
				require.NoError(t, err)
				assert.Contains(t, d.Name(), want)
				assert.Equal(t, exact, strings.Contains(d.Name(), "exact"))
				assert.NoError(t, end())
			}
		}
	})
	for _, b := range []Backend{Soft, Metal, SoftCheck} {
		_, _, err := Open(Options{Backend: b, Exact: true})
		assert.ErrorContains(t, err, "only possible on the backend cpu", b)
	}
	_, _, err := Open(Options{Backend: "abacus"})
	assert.ErrorContains(t, err, "abacus")
	if runtime.GOOS != "darwin" {
		_, _, err = Open(Options{Backend: Metal})
		assert.ErrorIs(t, err, metal.ErrNoDevice)
		assert.ErrorContains(t, err, "backend metal: ")
	}
}
