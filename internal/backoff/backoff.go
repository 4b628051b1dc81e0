// Package backoff says how long to wait between tries of something that fails.
package backoff

import "time"

// Pauses double from one failure to the next, up to a longest. Chance makes each shorter or longer, so that many that
// failed at the same moment do not come back at the same moment (M. Brooker, "Exponential Backoff and Jitter", AWS
// Architecture Blog, 2015).
type Pauses struct {
	First   time.Duration // after one failure, before chance
	Longest time.Duration // before chance
	Spread  float64       // share of a pause by which chance makes it shorter or longer at most, 0 to 1
}

// After returns the pause after so many failures in a row: 0 after none. random is a number from 0 to 1.
func (p Pauses) After(failures int, random float64) time.Duration {
	if failures <= 0 {
		return 0
	}
	pause := p.First
	for n := 1; n < failures && pause < p.Longest; n++ {
		pause *= 2
	}
	return time.Duration(float64(min(pause, p.Longest)) * (1 - p.Spread + 2*p.Spread*random))
}
