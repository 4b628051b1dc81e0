package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// args are the arguments of a trace event.
type args map[string]any

// event is an event of the Trace Event Format, with its names.
type event struct {
	Name    string  `json:"name"`
	Phase   phase   `json:"ph"`
	Time    float64 `json:"ts"`
	Dur     float64 `json:"dur,omitempty"`
	Process int     `json:"pid"`
	Thread  int     `json:"tid"`
	Cat     string  `json:"cat,omitempty"`
	ID      int     `json:"id,omitempty"` // of an arrow
	Bind    string  `json:"bp,omitempty"` // "e": to the enclosing span
	Scope   string  `json:"s,omitempty"`  // of a mark; "t": its thread
	Args    args    `json:"args,omitempty"`
}

// phase is the type of an event.
type phase string

const (
	named     phase = "M" // a name of a process or thread
	spans     phase = "X"
	mark      phase = "i"
	arrow     phase = "s" // beginning of an arrow
	arrowStep phase = "t"
	arrowEnd  phase = "f"
)

func inMicroseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Write writes the file. about is added to the file as further information, such as the command; nil: none. No answer
// may be under way.
func (l *Timeline) Write(w io.Writer, about any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := bufio.NewWriter(w)
	fmt.Fprint(out, `{"displayTimeUnit":"ms",`)
	if about != nil {
		b, err := json.Marshal(about)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, `"otherData":%s,`, b)
	}
	fmt.Fprint(out, `"traceEvents":[`)
	separator, arrows := "\n", 0
	for i, t := range l.texts {
		d := &drawing{t: t, first: int(processes)*i + 1, arrows: arrows}
		for _, e := range d.buildEvents() {
			b, err := json.Marshal(e)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s%s", separator, b)
			separator = ",\n"
		}
		arrows = d.arrows
	}
	fmt.Fprint(out, "\n]}\n")
	return out.Flush()
}

// sortEvents sorts events by time: names first, and at equal times a span before the spans within it, and the parts of
// arrows in order, last.
func sortEvents(all []event) {
	rank := func(e event) int {
		return slices.Index([]phase{named, spans, mark, arrow, arrowStep, arrowEnd}, e.Phase)
	}
	slices.SortStableFunc(all, func(a, b event) int {
		if (a.Phase == named) != (b.Phase == named) {
			return rank(a) - rank(b)
		}
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Dur, a.Dur))
	})
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
