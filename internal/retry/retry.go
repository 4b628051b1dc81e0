// Package retry computes the wait between failing attempts, and waits.
package retry

import "time"

// Delay returns the wait before the next attempt after consecutive failures: none after none, first after one, and
// twice as long after each further one, up to longest.
func Delay(failures int, first, longest time.Duration) time.Duration {
	if failures <= 0 {
		return 0
	}
	d := min(first, longest)
	for range failures - 1 {
		if d > longest/2 {
			return longest
		}
		d *= 2
	}
	return d
}

// Spread lengthens or shortens d by up to share of it, so that clients that failed together do not retry together.
// random is uniform in [0, 1), share in [0, 1].
func Spread(d time.Duration, share, random float64) time.Duration {
	return time.Duration(float64(d) * (1 - share + 2*share*random))
}
