package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDetect(t *testing.T) {
	name, err := Detect()
	require.NoError(t, err)
	require.Equal(t, Features(), name)
	require.Contains(t, Variants(), name)
}
