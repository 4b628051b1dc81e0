package simclock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestOrder: goroutines continue in the order of the times for which they wait, equal ones in the order in which they
// began to wait; time stands still in between.
func TestOrder(t *testing.T) {
	c := New(start)
	var log []string
	say := func(format string, args ...any) {
		log = append(log, fmt.Sprintf("%v ", c.Now().Sub(start))+fmt.Sprintf(format, args...))
	}
	c.Run(func() {
		for i, d := range []time.Duration{30, 10, 20, 10} {
			c.Go(func() {
				say("%d begins", i)
				say("%d got %v", i, c.Sleep(d, nil))
			})
		}
		say("main goes on")
		say("main got %v", c.Wait(start.Add(15), nil))
		say("main got %v", c.Sleep(-5, nil))
	})
	assert.Equal(t, []string{
		"0s main goes on", "0s 0 begins", "0s 1 begins", "0s 2 begins", "0s 3 begins", "10ns 1 got false",
		"10ns 3 got false", "15ns main got false", "15ns main got false", "20ns 2 got false", "30ns 0 got false",
	}, log)
}

// TestDone: a goroutine that waits for a condition continues as soon as it holds, before time passes; if it already
// holds there is no wait, and other goroutines do not run.
func TestDone(t *testing.T) {
	c := New(start)
	mail, ran := 0, false
	c.Run(func() {
		c.Go(func() {
			ran = true
			c.Sleep(7, nil)
			mail++
			assert.False(t, c.Sleep(100, func() bool { return mail > 2 }))
			assert.Equal(t, start.Add(107), c.Now())
		})
		assert.True(t, c.Wait(time.Time{}, func() bool { return true }))
		assert.False(t, ran)
		assert.True(t, c.Wait(time.Time{}, func() bool { return mail > 0 }))
		assert.Equal(t, start.Add(7), c.Now())
		mail++
	})
	assert.Equal(t, start.Add(107), c.Now(), "Run waits for all goroutines")
}

// TestDeadlock: a simulation without any further event panics with a message.
func TestDeadlock(t *testing.T) {
	c := New(start)
	assert.PanicsWithValue(t, "simclock: deadlock: all goroutines wait without a time limit", func() {
		c.Run(func() { c.Wait(time.Time{}, func() bool { return false }) })
	})
}
