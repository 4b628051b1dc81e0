package synth

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// TestBlank: a blank file has the tensors of the written one, except for their values.
func TestBlank(t *testing.T) {
	for _, name := range []string{"f32", "q8_0", "q4_k_m"} {
		r, err := ParseRecipe(name)
		require.NoError(t, err)
		s := Tiny(r, 1)
		var b bytes.Buffer
		require.NoError(t, s.Write(&b, nil))
		blank, err := s.Blank()
		require.NoError(t, err)
		begin := uintptr(unsafe.Pointer(&blank[0]))
		assert.Zero(t, begin%largestPage, "the start of a page")
		assert.Zero(t, (begin+uintptr(cap(blank)))%largestPage, "the end of a page")
		assert.Less(t, cap(blank)-len(blank), largestPage)
		written, err := gguf.Parse(b.Bytes())
		require.NoError(t, err)
		f, err := gguf.Parse(blank)
		require.NoError(t, err)
		require.Len(t, f.Tensors(), len(written.Tensors()))
		for i, w := range written.Tensors() {
			got := f.Tensors()[i]
			assert.Equal(t, make([]byte, len(w.Data)), got.Data)
			got.Data = w.Data
			assert.Equal(t, w, got)
		}
	}
	_, err := Spec{}.Blank()
	assert.Error(t, err)
}
