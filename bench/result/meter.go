package result

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/cputime"
)

// CPUMeter returns the processor time of this process so far. With concurrent answers, of which it could not be said
// whose it is, it returns 0.
func CPUMeter(parallel int) func() time.Duration {
	if parallel != 1 {
		return func() time.Duration { return 0 }
	}
	return cputime.Used
}
