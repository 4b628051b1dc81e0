//go:build !unix

package cputime

import "time"

// Used returns 0 on this system.
func Used() time.Duration { return 0 }
