package outcome

import (
	"reflect"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Tally counts the costs of answers, from the stream of events. Its bytes include those of dropped questions and of
// text sent early: a question without an answer is a cost without a benefit.
type Tally struct {
	draft.Summary
	Up, Down int // payload bytes
}

// Add counts an event.
func (t *Tally) Add(e draft.Event) {
	t.Summary.Add(e)
	if w := e.Warming; w != nil {
		t.Up, t.Down = t.Up+w.BytesUp, t.Down+w.BytesDown
	}
	if q := e.Escalation; q != nil {
		switch q.Outcome {
		case draft.Hit, draft.Miss, draft.Dropped, draft.Checked:
			t.Up, t.Down = t.Up+q.BytesUp, t.Down+q.BytesDown
		}
	}
}

func (t *Tally) addTally(o Tally) {
	sum, more := reflect.ValueOf(&t.Summary).Elem(), reflect.ValueOf(o.Summary)
	for i := range sum.NumField() {
		if sum.Field(i).CanInt() {
			sum.Field(i).SetInt(sum.Field(i).Int() + more.Field(i).Int())
		}
	}
	t.Up, t.Down = t.Up+o.Up, t.Down+o.Down
}
