package fair

import "time"

// LearnLeast takes a measured time into an estimate of the least one: a shorter time at once, a longer one slowly.
func LearnLeast(least *time.Duration, measured time.Duration) {
	if *least == 0 || measured < *least {
		*least = measured
	}
	*least += (measured - *least) / 16
}

// RetryTimes says when refused jobs may come back.
type RetryTimes struct {
	promised time.Time // until then the jobs that were refused would be done
}

// Reserve returns how long the jobs that were refused before this one would take, but not more than it can wait, and
// adds the time that it takes itself: so not all come back at once, and what nobody comes back for delays others for
// one such time.
func (r *RetryTimes) Reserve(now time.Time, takes, within time.Duration) time.Duration {
	before := min(max(0, r.promised.Sub(now)), within)
	r.promised = now.Add(before + takes)
	return before
}
