package gpu

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal/record"
)

// TestPut: the arguments of all dispatches of a pass are stored consecutively, aligned, for any number of dispatches,
// and the next pass reuses the memory.
func TestPut(t *testing.T) {
	d, err := New(record.Open(), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	f := new(frame)
	defer f.closeBuffers()
	for range 2 {
		f.used = 0
		var all []binding
		args := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 76+(i*37)%400) }
		for i := range 200 {
			at, err := f.storeArgs(d, args(i))
			require.NoError(t, err)
			require.Zero(t, at.offset%argsAlign)
			all = append(all, at)
		}
		for i, at := range all {
			want := args(i)
			require.LessOrEqual(t, at.offset+len(want), argsLength)
			require.Equal(t, want, at.b.Bytes()[at.offset:at.offset+len(want)])
		}
		require.Len(t, f.args, 5)
	}
}
