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
		name  string
		large Identity
		other bool
		err   error
	}{
		{"the same", own, false, nil},
		{"no digests stated", Identity{Digest{}, 10, Digest{}}, false, nil},
		{"another template", Identity{Digest{1}, 10, Digest{3}}, true, nil},
		{"another tokenizer", Identity{Digest{3}, 10, Digest{2}}, false, WrongTokenizer},
		{"another vocabulary", Identity{Digest{}, 11, Digest{2}}, false, WrongTokenizer},
	} {
		t.Run(c.name, func(t *testing.T) {
			other, err := c.large.Compare(own)
			assert.Equal(t, c.other, other)
			assert.Equal(t, c.err, err)
		})
	}
	other, err := own.Compare(Identity{Digest{1}, 10, Digest{}})
	assert.NoError(t, err)
	assert.False(t, other)
	_, err = own.Compare(Identity{Vocab: 10})
	assert.Equal(t, WrongTokenizer, err)
}
