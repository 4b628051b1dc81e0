package netproto

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCompare: models with other tokens cannot work together, and those with other templates can; what one of them does
// not state is not compared.
func TestCompare(t *testing.T) {
	own := Identity{Digest{1}, 10, Digest{2}}
	for _, c := range []struct {
		large Identity
		other bool
		err   error
	}{
		{own, false, nil}, {Identity{Digest{}, 10, Digest{}}, false, nil},
		{Identity{Digest{1}, 10, Digest{3}}, true, nil},
		{Identity{Digest{3}, 10, Digest{2}}, false, WrongTokenizer},
		{Identity{Digest{}, 11, Digest{2}}, false, WrongTokenizer},
	} {
		other, err := c.large.Compare(own)
		assert.Equal(t, c.other, other, c.large)
		assert.Equal(t, c.err, err, c.large)
	}
	other, err := own.Compare(Identity{Digest{1}, 10, Digest{}})
	assert.NoError(t, err)
	assert.False(t, other)
	_, err = own.Compare(Identity{Vocab: 10})
	assert.Equal(t, WrongTokenizer, err)
}
