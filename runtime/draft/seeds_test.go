package draft

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// oneSeed is the variable that selects a random case to repeat.
const oneSeed = "PILOTFISH_SEED"

var manyBatches = flag.Int("batches", 0,
	"batches of random schedules of each property, in place of the few that take seconds")

// randomCases returns the seeds of fixed cases, in batches, and a batch of new ones; or the one to repeat. Tests report
// the seed of a failed case.
func randomCases(t *testing.T, batches, size int) (all [][]uint64) {
	if batches = (batches + 3) / 4; *manyBatches > 0 {
		batches = *manyBatches
	}
	if s := os.Getenv(oneSeed); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, oneSeed)
		return [][]uint64{{seed}}
	}
	for b := range batches {
		var seeds []uint64
		for i := range size {
			seeds = append(seeds, uint64(b*size+i))
		}
		all = append(all, seeds)
	}
	var fresh []uint64
	for range size / 5 {
		fresh = append(fresh, rand.Uint64())
	}
	return append(all, fresh)
}
