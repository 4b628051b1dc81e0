package soft

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWrappedIsReadOnly: kernels cannot write to wrapped memory.
func TestWrappedIsReadOnly(t *testing.T) {
	p := newProgram(t, Options{Variant: Check})
	page := p.Limits().PageSize
	memory, err := syscall.Mmap(-1, 0, page, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { assert.NoError(t, syscall.Munmap(memory)) }()
	w, err := p.WrapBuffer(memory)
	require.NoError(t, err)
	defer w.Close()
	x := floats(t, p.Device, make([]float32, 64)...)
	c := p.commands()
	p.encode(c, "copy", 1, w, x)
	assert.NoError(t, finish(c))
	c = p.commands()
	p.encode(c, "copy", 1, x, w)
	f := p.fault(finish(c), ReadOnly, "copy")
	assert.Equal(t, 1, f.Buffer)
	assert.Contains(t, f.Error(), ": write to read-only memory: ")
}
