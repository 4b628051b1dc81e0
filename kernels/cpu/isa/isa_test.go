package isa

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	offered := Offered()
	name, err := chooseNamed("", offered)
	require.NoError(t, err)
	require.Equal(t, offered[len(offered)-1], name)
	for _, want := range offered {
		name, err := chooseNamed(want, offered)
		require.NoError(t, err)
		require.Equal(t, want, name)
	}
	name, err = chooseNamed("abacus", offered)
	require.ErrorContains(t, err, "PILOTFISH_CPU=abacus: this CPU and build offer generic")
	require.Equal(t, Generic, name)
}

// TestOffered: the offered instruction sets are known, in the same order.
func TestOffered(t *testing.T) {
	all := All()
	for _, name := range Offered() {
		require.Contains(t, all, name)
		for all[0] != name {
			all = all[1:]
		}
	}
}
