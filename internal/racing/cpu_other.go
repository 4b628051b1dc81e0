//go:build !unix

package racing

import "time"

// CPUTime returns 0 on this system.
func CPUTime() time.Duration { return 0 }
