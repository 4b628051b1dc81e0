package link

import (
	"fmt"
	"io"
	"sort"
	"strconv"
	"time"
)

// chanceBytes is the number of bytes that cross the link at one chance to send.
const chanceBytes = 1500

// CapacityTrace is a recorded capacity in the format of Mahimahi: times at which chanceBytes may cross the link. It
// repeats after the last one.
type CapacityTrace struct {
	chances []uint32 // milliseconds, never decreasing; the last one, which is not 0, is also the length
}

// readCapacity reads a trace with one integer of milliseconds per line, from 0 to a day, never decreasing. The path is
// used in errors.
func readCapacity(r io.Reader, path string) (*CapacityTrace, error) {
	t := &CapacityTrace{}
	last := uint32(0)
	err := forEachLine(r, path, func(_ int, text string) error {
		ms, err := strconv.ParseUint(text, 10, 32)
		switch {
		case err != nil || ms > uint64(maxTrace/time.Millisecond):
			return fmt.Errorf("%.40q: %w", text, ErrNumber)
		case uint32(ms) < last:
			return fmt.Errorf("%d after %d: %w", ms, last, ErrOrder)
		}
		last = uint32(ms)
		t.chances = append(t.chances, last)
		return nil
	})
	if err == nil && last == 0 {
		err = fmt.Errorf("%s: %w", path, ErrEmpty)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Length returns the time after which the trace repeats.
func (t *CapacityTrace) Length() time.Duration {
	return time.Duration(t.chances[len(t.chances)-1]) * time.Millisecond
}

// chanceTime returns the time of chance k, from 0, over all repetitions.
func (t *CapacityTrace) chanceTime(k int64) time.Duration {
	n := int64(len(t.chances))
	return time.Duration(k/n)*t.Length() + time.Duration(t.chances[k%n])*time.Millisecond
}

func (t *CapacityTrace) firstChance(at time.Duration) int64 {
	length := t.Length()
	round := max(0, at-1) / length // the end of a round belongs to it: its last chance is at the end
	rest := at - round*length
	i := sort.Search(len(t.chances), func(i int) bool { return time.Duration(t.chances[i])*time.Millisecond >= rest })
	return int64(round)*int64(len(t.chances)) + int64(i)
}
