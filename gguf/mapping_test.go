package gguf

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

func TestPreload(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	w.Declare("a", F32, 3<<20)
	w.Declare("b", F32, 5)
	require.NoError(t, w.WriteFloats(make([]float32, 3<<20)))
	require.NoError(t, w.WriteFloats(make([]float32, 5)))
	require.NoError(t, w.Close())
	f, err := Parse(b.Bytes())
	require.NoError(t, err)

	var seen []int64
	require.NoError(t, f.Preload(t.Context(), func(done, total int64) {
		assert.EqualValues(t, 12<<20+20, total)
		seen = append(seen, done)
	}))
	assert.Equal(t, []int64{4 << 20, 8 << 20, 12 << 20, 12<<20 + 20}, seen)
	require.NoError(t, f.Preload(t.Context(), nil))

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	assert.ErrorIs(t, f.Preload(ctx, func(int64, int64) { cancel(why) }), why)

	dir := held.TempDir(t)
	f = opened(t, save(t, dir, "m.gguf", b.Bytes()))
	err = f.Preload(t.Context(), func(int64, int64) { assert.NoError(t, f.Close()) })
	assert.ErrorIs(t, err, ErrClosed, "what is unmapped meanwhile is not touched")
}
