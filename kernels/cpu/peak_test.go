package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadBandwidth(t *testing.T) {
	require.Zero(t, ReadBandwidth(2))
	require.Zero(t, ReadBandwidth(2, nil, []byte{}))
	require.Positive(t, ReadBandwidth(2, make([]byte, 3<<20+5), nil, make([]byte, 7)))
}

func TestPeak(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		k.peakBytes.run(3)
		k.peakFloats.run(3)
	})
}

func TestPeaksTogether(t *testing.T) {
	bytes, floats := Peak(2)
	require.Positive(t, bytes)
	require.Positive(t, floats)
}
