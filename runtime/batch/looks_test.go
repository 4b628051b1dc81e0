package batch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// store is a KV store without memory.
type store struct{ backend.KV }

func (store) Config() backend.KVConfig { return backend.KVConfig{Slots: 4000} }

// TestRefreshIsBounded: before a step the waiting work is estimated again for the devices with the smallest tags: all
// those with little work left, and at most 4 others. Of these, a device with more than 4 questions is not estimated.
func TestRefreshIsBounded(t *testing.T) {
	const long = 40 // tokens of a question
	for name, c := range map[string]struct {
		questions []int // of each device, the smallest tag first
		known     []int // tokens of each of its questions that are in memory meanwhile
		works     []int // of each of its questions
	}{
		"four in vain":        {[]int{1, 1, 1, 1, 1, 1}, []int{1, 1, 1, 1, 1, 1}, []int{39, 39, 39, 39, 40, 40}},
		"four questions":      {[]int{4, 1, 1, 1, 1}, []int{1, 1, 1, 1, 1}, []int{39, 39, 39, 39, 40}},
		"five questions":      {[]int{5, 1, 1, 1, 1}, []int{1, 1, 1, 1, 1}, []int{40, 39, 39, 39, 40}},
		"five, all in memory": {[]int{5, 1}, []int{40, 40}, []int{40, 1}},
		"most are short": {
			[]int{1, 1, 1, 4, 1, 1, 1, 1, 1}, []int{32, 40, 33, 39, 1, 1, 1, 1, 1},
			[]int{8, 1, 7, 1, 39, 39, 39, 39, 40},
		},
	} {
		s, err := New(nil, store{}, Options{Rows: 32})
		require.NoError(t, err)
		s.Close() // the test runs in place of its goroutine
		var all [][]*ask
		for device, n := range c.questions {
			var asks []*ask
			for range n {
				session := uint64(10*device + len(asks))
				a := &ask{Job: terms.Job{Session: session, Device: uint64(device), Domain: session}}
				a.Context = make([]int32, long)
				s.admitAsk(a)
				asks = append(asks, a)
			}
			s.front.Charge(0, uint64(device), uint64(device), 1)
			all = append(all, asks)
		}
		for device, asks := range all {
			for _, a := range asks {
				at := &a.tree.root
				for _, token := range a.Context[:c.known[device]] {
					at = s.trees.addToken(at, token)
				}
			}
		}
		s.refreshEstimates()
		for device, asks := range all {
			for _, a := range asks {
				assert.EqualValues(t, c.works[device], a.Work(), "%s: device %d", name, device)
			}
		}
		assert.Equal(t, len(c.questions), s.front.Len(), "%s: none is left out of the order", name)
	}
}

// TestGivesWayOrder: background questions give way first, then those that began last.
func TestGivesWayOrder(t *testing.T) {
	var all []*ask
	for begun := range uint64(3) {
		for _, p := range []terms.Priority{terms.Foreground, terms.Background} {
			all = append(all, &ask{begun: begun, Job: terms.Job{Priority: p}})
		}
	}
	h := fair.Heap[*ask]{Before: evictedBefore, Place: func(a *ask) *int { return &a.place }}
	for _, a := range all {
		h.Set(a, true)
	}
	for _, want := range []int{5, 3, 1, 4, 2, 0} {
		require.Same(t, all[want], h.First())
		h.Set(h.First(), false)
	}
}

// TestPace: a row takes as long as in the fastest steps of late; steps with few rows do not count.
func TestPace(t *testing.T) {
	p := rowPace{step: 128}
	p.learnStep(63, 63*time.Second)
	assert.Zero(t, p.row)
	p.learnStep(64, 640*time.Millisecond)
	assert.Equal(t, 10*time.Millisecond, p.row)
	p.learnStep(128, 1024*time.Millisecond)
	assert.Equal(t, 8*time.Millisecond, p.row)
	p.learnStep(100, 4*time.Second)
	assert.Equal(t, 10*time.Millisecond, p.row, "a slow step may be one of a busy moment")
}

// TestBackgroundQueue: a question is stale when as many steps were not for background questions as its patience
// allows, from when it came or was last computed.
func TestBackgroundQueue(t *testing.T) {
	var q backgroundQueue
	first, second := &ask{tree: new(sessionTree)}, &ask{tree: new(sessionTree)}
	q.addAsk(first)
	q.steps++
	q.addAsk(second)
	q.steps += backPatience - 1
	assert.Nil(t, q.firstStale())
	q.resetPatience(first)
	q.steps++
	assert.Nil(t, q.firstStale(), "the first has been computed")
	q.steps++
	assert.Same(t, second, q.firstStale())
	second.tree.waiting = second
	q.removeAsk(second)
	assert.Nil(t, second.tree.waiting)
	q.removeAsk(second)
	assert.Nil(t, q.firstStale())
	assert.Equal(t, 1, q.order.Len())
}
