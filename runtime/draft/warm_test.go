package draft

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// slowWarmer takes a text in 20 ms.
type slowWarmer struct{ Cloud }

func (slowWarmer) Warm(context.Context, []int32) (up, down int, err error) {
	time.Sleep(20 * ms)
	return 1, 1, nil
}

// TestTextWarmer: one text is sent at a time, when the cloud lacks enough of it; a question brings text too.
func TestTextWarmer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var sent []int
		began := time.Now()
		o := &outputStream{rules: new(rules), sched: newScheduler(nil), began: began}
		o.emit = func(e Event) bool { sent = append(sent, e.Warming.New, e.Warming.Tokens); return true }
		w := newTextWarmer(o.rules, o.sched, slowWarmer{})
		warm := func(length, unknown int) {
			w.warmCloud(t.Context(), make([]int32, length), unknown, began)
			w.emitWarming(o)
		}
		warm(10, 1)
		warm(30, 1)
		time.Sleep(21 * ms)
		w.emitWarming(o)
		assert.Equal(t, []int{10, 10}, sent, "the second text came too early")
		w.markSent(25)
		warm(30, 6)
		warm(31, 6)
		time.Sleep(21 * ms)
		w.emitWarming(o)
		assert.Equal(t, []int{10, 10, 6, 31}, sent)
		newTextWarmer(o.rules, o.sched, Cloud(nil)).warmCloud(t.Context(), make([]int32, 9), 1, began)
	})
}
