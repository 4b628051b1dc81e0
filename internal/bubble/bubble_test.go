package bubble

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestExpiredTimers: without the workaround this nearly always crashes the race detector.
func TestExpiredTimers(t *testing.T) {
	Test(t, func(*testing.T) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 50_000 {
					<-time.NewTimer(0).C
				}
			})
		}
		wg.Wait()
	})
}

func TestProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	want := 2
	if racing.Enabled {
		want = 1
	}
	Test(t, func(t *testing.T) { assert.Equal(t, want, runtime.GOMAXPROCS(0)) })
	assert.Equal(t, 2, runtime.GOMAXPROCS(0))
}

// TestListener: each connection that is dialled is accepted once, and a closed listener accepts none.
func TestListener(t *testing.T) {
	Test(t, func(t *testing.T) {
		l := NewListener()
		for _, text := range []string{"one", "two"} {
			go func() {
				server, err := l.Accept()
				assert.NoError(t, err)
				_, err = server.Write([]byte(text))
				assert.NoError(t, errors.Join(err, server.Close()))
			}()
			client, err := l.Dial()
			require.NoError(t, err)
			got, err := io.ReadAll(client)
			require.NoError(t, err)
			assert.Equal(t, text, string(got))
		}
		waits := make(chan error)
		go func() { _, err := l.Accept(); waits <- err }()
		synctest.Wait()
		for range 2 {
			require.NoError(t, l.Close(), "also a second time")
		}
		assert.ErrorIs(t, <-waits, net.ErrClosed)
		_, err := l.Accept()
		assert.ErrorIs(t, err, net.ErrClosed)
		_, err = l.Dial()
		assert.ErrorIs(t, err, net.ErrClosed)
	})
}

// TestOverlap: while bubbles overlap there is one processor, until the last of them ends.
func TestOverlap(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	var s threadLimiter
	s.limitThreads()
	s.limitThreads()
	assert.Equal(t, 1, runtime.GOMAXPROCS(0))
	s.restoreThreads()
	assert.Equal(t, 1, runtime.GOMAXPROCS(0))
	s.restoreThreads()
	assert.Equal(t, 2, runtime.GOMAXPROCS(0))
}
