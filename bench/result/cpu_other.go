//go:build !unix

package result

import "time"

// CPUTime returns 0: the system is not asked.
func CPUTime() time.Duration { return 0 }
