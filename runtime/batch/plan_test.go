package batch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// witness is a counter that records the devices of the rows in its calls: each token of a context encodes the device
// that asks.
type witness struct {
	*counter
	steps []string
}

// Forward implements [batch.Model].
func (w *witness) Forward(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	parts := [100]int{}
	for _, r := range rows {
		parts[r.Token]++
	}
	var step []string
	for device, n := range parts {
		if n > 0 {
			step = append(step, fmt.Sprint(device, "x", n))
		}
	}
	w.steps = append(w.steps, strings.Join(step, " "))
	return w.counter.Forward(ctx, kv, rows, out, want)
}

// wish is a question of a scene: n tokens after old tokens in memory, which include the best candidate after them.
type wish struct {
	client          uint64
	device, session uint64 // session 0: a new one
	domain          uint64 // 0: that of its session
	old, n          int
	k               int // 0: 1
	back            bool
	audit, verify   bool // of the whole text
}

// question returns the wish as a job of the service.
func (w wish) question(i int) terms.Job {
	q := terms.Job{Client: w.client, Session: w.session, Device: w.device, Priority: when(w.back, terms.Background),
		Question: terms.Question{K: max(1, w.k)}}
	q.Context = make([]int32, w.old+w.n)
	if w.audit {
		q.AuditFrom = 1
	}
	if w.verify {
		q.AuditFrom, q.Verify = 1, terms.EachChoice
	}
	if w.session == 0 {
		q.Session = 100*w.device + uint64(i)
	}
	if q.Domain = w.domain; q.Domain == 0 { // all its tokens are equal
		q.Domain = 1000 + q.Session
	}
	for i := range q.Context {
		q.Context[i] = int32(w.device)
	}
	return q
}

// scene is a number of waiting questions, and the rows of each device in the steps that answer them.
type scene struct {
	slots  int
	wishes []wish
	steps  []string
}

// sharedSteps are scenes in which devices take turns.
var sharedSteps = map[string]scene{
	"one gets whole steps": {2000, []wish{
		{device: 1, n: 70},
	}, []string{"1x32", "1x32", "1x6"}},
	"the one that would end first is first": {2000, []wish{
		{device: 1, n: 40}, {device: 2, n: 45},
	}, []string{"1x32", "1x8 2x4", "2x32", "2x9"}},
	"of equal ones one ends before the next begins": {2000, []wish{
		{device: 1, n: 50}, {device: 2, n: 50}, {device: 3, n: 50},
	}, []string{"1x32", "1x18 2x14", "2x32", "2x4 3x4", "3x32", "3x14"}},
	"background questions are last, in small steps": {2000, []wish{
		{device: 1, n: 20, back: true}, {device: 2, n: 40},
	}, []string{"2x32", "2x8", "1x8", "1x8", "1x4"}},
}

// shortQuestions are scenes with questions that are short, or just not.
var shortQuestions = map[string]scene{
	"short ones come first, with a few rows of others": {2000, []wish{
		{device: 1, n: 70}, {device: 2, n: 5}, {device: 3, n: 8},
	}, []string{"1x4 2x5 3x8", "1x32", "1x32", "1x2"}},
	"as many short ones as leave room for others": {2000, []wish{
		{device: 1, n: 70}, {device: 2, n: 8}, {device: 3, n: 8}, {device: 4, n: 8}, {device: 5, n: 8},
		{device: 6, n: 4},
	}, []string{"1x4 2x8 3x8 4x8 6x4", "1x4 5x8", "1x32", "1x30"}},
	"a whole step of short ones": {2000, []wish{
		{device: 1, n: 7}, {device: 2, n: 8}, {device: 3, n: 8}, {device: 4, n: 8}, {device: 5, n: 8},
		{device: 6, n: 1},
	}, []string{"1x7 2x8 3x8 4x8 6x1", "5x8"}},
	"short ones are not cut": {2000, []wish{
		{device: 1, n: 7}, {device: 2, n: 8}, {device: 3, n: 8}, {device: 4, n: 8}, {device: 5, n: 2},
		{device: 6, n: 4},
	}, []string{"1x7 2x8 3x8 4x8", "5x2 6x4"}},
	"9 is not short": {2000, []wish{
		{device: 1, n: 70}, {device: 2, n: 9},
	}, []string{"1x23 2x9", "1x32", "1x15"}},
	"two halves of half a step are short": {2000, []wish{
		{device: 1, n: 70}, {device: 2, n: 8}, {device: 2, n: 8},
	}, []string{"1x4 2x16", "1x32", "1x32", "1x2"}},
	"more than half a step is not": {2000, []wish{
		{device: 1, n: 70}, {device: 2, n: 8}, {device: 2, n: 8}, {device: 2, n: 1},
	}, []string{"1x15 2x17", "1x32", "1x23"}},
	"what is in memory counts as one": {2000, []wish{
		{device: 1, n: 70}, {device: 2, old: 20}, {device: 2, old: 30, n: 7}, {device: 3, old: 30, n: 8},
	}, []string{"1x4 2x7 3x8", "1x32", "1x32", "1x2"}},
	"what the one before wants does not count": {2000, []wish{
		{device: 1, n: 70}, {device: 2, n: 7, session: 1}, {device: 2, n: 8, session: 1},
		{device: 2, n: 9, session: 1},
	}, []string{"1x4 2x9", "1x32", "1x32", "1x2"}},
	"what the one before wants is not all that there is": {2000, []wish{
		{device: 1, n: 70}, {device: 2, n: 3, session: 1}, {device: 2, old: 30, n: 8, session: 1},
	}, []string{"1x4 2x9", "1x32", "1x32", "1x2"}},
	"the first one of a session counts nothing twice": {2000, []wish{
		{device: 1, n: 70},
		{device: 2, n: 1, session: 2}, {device: 2, n: 7, session: 1}, {device: 2, n: 15, session: 1},
	}, []string{"1x4 2x16", "1x32", "1x32", "1x2"}},
	"what is in memory is paid for, too": {2000, slices.Concat(
		[]wish{{device: 1, n: 40}}, slices.Repeat([]wish{{device: 2, old: 20, session: 1}}, 20),
	), []string{"1x12", "1x28"}},
	"beside short ones others are cut": {2000, []wish{
		{device: 1, n: 8}, {device: 1, n: 8}, {device: 1, n: 8}, {device: 2, n: 5},
	}, []string{"1x4 2x5", "1x20"}},
	"what other sessions want counts": {2000, []wish{
		{device: 1, n: 70}, {device: 2, n: 7, session: 1}, {device: 2, n: 8, session: 2},
		{device: 2, n: 9, session: 3},
	}, []string{"1x8 2x24", "1x32", "1x30"}},
	"what other sessions of its domain want does not count": {2000, []wish{
		{device: 1, n: 70}, {device: 2, n: 7, session: 1, domain: 5}, {device: 2, n: 8, session: 2, domain: 5},
		{device: 2, n: 9, session: 3, domain: 5},
	}, []string{"1x4 2x9", "1x32", "1x32", "1x2"}},
	"by turns short ones are not cut either": {2000, []wish{
		{device: 1, n: 8}, {device: 1, n: 8}, {device: 1, n: 8}, {device: 2, n: 5}, {device: 2, n: 5},
		{device: 2, n: 5}, {device: 2, n: 5}, {device: 3, n: 80},
	}, []string{"1x16 2x15 3x1", "1x8 2x5 3x4", "3x32", "3x32", "3x11"}},
}

// costlyHeads are scenes in which heads limit the rows of a step, or a call.
var costlyHeads = map[string]scene{
	"heads are work": {2000, []wish{
		{device: 1, n: 80}, {device: 2, n: 9, k: 256}, {device: 2, n: 9, k: 256},
		{device: 2, n: 9, k: 256}, {device: 2, n: 9, k: 256},
	}, []string{"1x23 2x9", "1x23 2x9", "1x23 2x9", "1x11 2x9", "2x1"}},
	"deep heads share steps as far as they fit, in calls of their own": {2000, []wish{
		{device: 1, n: 2, k: 256}, {device: 2, n: 2, k: 128}, {device: 3, n: 2, k: 120},
		{device: 4, n: 2, k: 8}, {device: 5, n: 2, k: 9},
	}, []string{"1x2 4x2", "1x1", "2x2 3x2", "5x2"}},
	"audits are work": {2000, []wish{
		{device: 1, n: 120}, {device: 2, n: 120, audit: true},
	}, []string{
		"1x32", "1x32", "1x32", "1x24 2x8", "2x32", "2x32", "2x32", "2x16",
	}},
	"plain heads are not counted among them": {2000, []wish{
		{device: 1, n: 2}, {device: 2, n: 2}, {device: 3, n: 2}, {device: 4, n: 2, k: 128},
		{device: 5, n: 2, k: 128},
	}, []string{"1x2 2x2 3x2 4x2 5x2", "4x1 5x1"}},
	"heads of eight candidates are not counted, either": {2000, []wish{
		{device: 1, n: 2, k: 8}, {device: 2, n: 2, k: 8}, {device: 3, n: 2, k: 128}, {device: 4, n: 2, k: 128},
	}, []string{"1x2 2x2 3x2 4x2", "3x1 4x1"}},
	"heads that verify with one candidate are not counted, either": {2000, []wish{
		{device: 1, n: 8, verify: true}, {device: 2, n: 2, k: 128}, {device: 3, n: 2, k: 128},
	}, []string{"1x8 2x2 3x2", "2x1 3x1"}},
	"what is computed again for more candidates has a row": {2000, slices.Concat(
		slices.Repeat([]wish{{device: 1, old: 2, k: 2}}, 11), slices.Repeat([]wish{{device: 2, old: 2, k: 2}}, 11),
		slices.Repeat([]wish{{device: 3, old: 2, k: 2}}, 11),
	), []string{"1x11 2x11 3x10", "3x1"}},
	"each head costs as much as the deepest": {2000, []wish{
		{device: 1, n: 2, k: 128}, {device: 2, n: 2, k: 9}, {device: 3, n: 2, k: 80},
	}, []string{"1x2 2x2", "3x2"}},
}

// fullStore are scenes in which the store has no room for all questions.
var fullStore = map[string]scene{
	"what takes several steps takes half of the store, or is alone": {200, []wish{
		{device: 1, n: 70}, {device: 2, n: 50}, {device: 3, n: 40}, {device: 4, n: 35},
		{device: 5, n: 33},
	}, []string{
		"5x32", "4x4 5x1", "3x1 4x31", "3x32", "2x4 3x7", "2x32", "2x14", "1x32", "1x32", "1x6",
	}},
	"who fits does not overtake": {200, []wish{
		{device: 1, n: 33}, {device: 2, old: 65, n: 34}, {device: 3, n: 36},
	}, []string{"1x32", "1x1", "2x32", "2x2", "3x32", "3x4"}},
	"exactly half of the store": {200, []wish{
		{device: 1, n: 50}, {device: 2, n: 50}, {device: 3, n: 40}, {device: 4, n: 40},
	}, []string{"3x32", "3x8 4x4", "4x32", "2x4 4x4", "2x32", "1x18 2x14", "1x32"}},
	"what ends at once needs no such room": {200, []wish{
		{device: 1, n: 101}, {device: 2, n: 50}, {device: 3, n: 9}, {device: 4, n: 8}, {device: 4, n: 8},
		{device: 4, n: 8},
	}, []string{"2x7 3x9 4x16", "2x4 4x8", "2x32", "2x7", "1x32", "1x32", "1x32", "1x5"}},
}

// TestPlan: the rows of each device in the steps, when all these questions wait. Steps have 32 rows, a turn 8, other
// questions get 4 next to short ones, and background steps have 8. Devices with smaller numbers have a slightly earlier
// virtual time.
func TestPlan(t *testing.T) {
	for subject, scenes := range map[string]map[string]scene{
		"turns": sharedSteps, "short questions": shortQuestions, "costly heads": costlyHeads, "a full store": fullStore,
	} {
		for name, scene := range scenes {
			t.Run(subject+"/"+name, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					assert.Equal(t, scene.steps, stepsOf(t, scene.slots, scene.wishes))
				})
			})
		}
	}
}

// stepsOf asks all wishes while a call for another device runs, and returns the calls after that.
func stepsOf(t *testing.T, slots int, wishes []wish) []string {
	m := &witness{counter: &counter{perRow: tick}}
	c := &crowd{t: t, s: service(t, m, slots, batch.Options{Rows: 32, Now: m.checks()})}
	m.of = c.s
	defer c.s.Close()
	for i, w := range wishes {
		if q := w.question(i); w.old > 0 {
			q.Context, q.K = q.Context[:w.old], 1
			c.mustAsk(q)
		}
	}
	together := func(questions []terms.Job) {
		first := wish{device: 99, n: 1}.question(len(m.steps)) // others gather during this call
		for _, q := range append([]terms.Job{first}, questions...) {
			c.askRight(m.counter, q, false)
			synctest.Wait()
		}
		c.wait.Wait()
	}
	var warmups, all []terms.Job
	for i, w := range wishes {
		ahead := wish{device: w.device, session: 7, n: int(w.device)}
		warmups, all = append(warmups, ahead.question(0)), append(all, w.question(i))
	}
	together(slices.CompactFunc(warmups, func(a, b terms.Job) bool { return a.Device == b.Device }))
	before := len(m.steps)
	together(all)
	require.NoError(t, m.wrong)
	return m.steps[before+1:]
}

// TestClaims: a device gains no claim while it does not ask, and a short pause does not cost it its claim against a
// device that is ahead.
func TestClaims(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &witness{counter: &counter{perRow: tick}}
		c := &crowd{t: t, s: service(t, m, 2000, batch.Options{Rows: 32, Now: m.checks()})}
		m.of = c.s
		defer c.s.Close()
		session := uint64(0)
		ask := func(device uint64, sizes ...int) {
			for _, n := range sizes {
				session++
				q := wish{device: device, session: session, n: n}.question(0)
				c.ask(q, func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
			}
		}
		ask(1, 400)
		time.Sleep((10*32 - 1) * tick)
		ask(2, 64) // as if it had asked one step earlier
		c.wait.Wait()
		assert.Equal(t, []string{"2x32", "2x32", "1x32", "1x32", "1x16"}, m.steps[10:])

		ask(9, 1)
		synctest.Wait() // others gather during this call
		ask(1, 24)
		for range 5 { // 2 is ahead by 12 tokens for each of these steps
			ask(2, 8, 8)
			time.Sleep(20 * tick)
		}
		c.wait.Wait()
		before := len(m.steps)
		ask(2, 150)
		time.Sleep(tick)
		ask(1, 120)
		c.wait.Wait()
		assert.Equal(t, []string{
			"2x32", "1x32", "1x32", "1x32", "1x24 2x8", "2x32", "2x32", "2x32", "2x14",
		}, m.steps[before:])
	})
}

// TestGivesWay: when short questions need room, a partly computed background question goes first, then another one,
// from its end; all others keep their tokens.
func TestGivesWay(t *testing.T) {
	for _, back := range []bool{false, true} {
		slots, first := 34, 14
		if back {
			slots, first = 38, 10
		}
		bubble.Test(t, func(t *testing.T) {
			m := &witness{counter: &counter{perRow: tick}}
			c := &crowd{t: t, s: service(t, m, slots, batch.Options{Rows: 32, Now: m.checks()})}
			m.of = c.s
			defer c.s.Close()
			ask := func(want error, w wish) {
				c.ask(w.question(int(w.session)), func(_ batch.Answer, _ time.Duration, err error) {
					assert.ErrorIs(t, err, want)
				})
				synctest.Wait()
			}
			if back {
				ask(batch.ErrShed, wish{device: 2, session: 1, n: 20, back: true})
			} else {
				ask(nil, wish{device: 9, session: 9, n: 8})
			}
			for i, n := range []int{first, 9, 9} { // too long to be short, even the last two
				ask(nil, wish{device: 1, n: n, session: 20 + uint64(i)})
			}
			for i := range uint64(4) { // one in each step, because the head is costly
				ask(nil, wish{device: 3, n: 1, k: 256, session: 4 + i})
			}
			time.Sleep(10 * tick) // in the second step
			if !back {            // its first one would end before that of 1, and begins in the third step
				ask(nil, wish{client: 1, device: 2, n: 9, session: 30})
				ask(nil, wish{client: 1, device: 2, n: 9, session: 31})
			}
			time.Sleep(4 * tick) // in the third step
			for i := range uint64(4) {
				ask(nil, wish{device: 4 + i, n: 7, session: 10 + i})
			}
			c.wait.Wait()
			require.NoError(t, m.wrong)
			want := []string{ // 1 computes one of its first tokens twice
				"9x8", "1x4 3x1", "2x4 3x1", "2x5 3x1 4x7 5x7 6x7", "3x1", "2x4 3x1 7x7", "3x1", "1x4 2x5", "1x25",
			}
			if back {
				want = []string{"2x8", "1x4 3x1", "1x4 3x1", "1x2 4x7 5x7 6x7 7x7", "1x4 3x1", "1x9 3x1", "3x1", "1x5"}
			}
			assert.Equal(t, want, m.steps)
		})
	}
}
