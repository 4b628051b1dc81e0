// Package timelinetest checks files of trace events, for tests: their format as viewers require it, and their contents.
package timelinetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// File is a file of trace events, with the names of the format. Times are in microseconds.
type File struct {
	Unit   string          `json:"displayTimeUnit"`
	About  json.RawMessage `json:"otherData"`
	Events []Event         `json:"traceEvents"`

	processes map[int]string
	threads   map[threadKey]string
}

// Event is one event.
type Event struct {
	Name    string         `json:"name"`
	Phase   string         `json:"ph"`
	Time    *float64       `json:"ts"`
	Dur     float64        `json:"dur"`
	Process int            `json:"pid"`
	Thread  int            `json:"tid"`
	Cat     string         `json:"cat"`
	ID      int            `json:"id"`
	Bind    string         `json:"bp"`
	Scope   string         `json:"s"`
	Args    map[string]any `json:"args"`
}

// End returns the end of a span.
func (e Event) End() float64 { return *e.Time + e.Dur }

// Arg returns a numeric argument of an event; 0 if there is none.
func (e Event) Arg(name string) float64 {
	v, _ := e.Args[name].(float64)
	return v
}

// threadKey is a thread of a process.
type threadKey struct{ process, thread int }

// Read parses a file and checks it: every used process and thread has one name, and no two have the same number; no
// time is negative, and each thread's events are in the order of time; spans of a thread are disjoint or nested; an
// arrow has a beginning and one end, goes forward in time, and each part of it touches a span.
func Read(b []byte) (*File, error) {
	f := &File{processes: map[int]string{}, threads: map[threadKey]string{}}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, err
	}
	if f.Unit != "ms" {
		return nil, fmt.Errorf("displayTimeUnit is %q", f.Unit)
	}
	for _, check := range []func() error{f.checkNames, f.checkTimes, f.checkNesting, f.checkArrows} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *File) checkNames() error {
	for i, e := range f.Events {
		if e.Time == nil {
			return fmt.Errorf("event %d, %s: no ts", i, e.Name)
		}
		name, _ := e.Args["name"].(string)
		at := threadKey{e.Process, e.Thread}
		switch {
		case e.Phase != "M":
			if f.processes[e.Process] == "" || f.threads[at] == "" {
				return fmt.Errorf("event %d, %s: its process or thread has no name yet", i, e.Name)
			}
		case e.Name == "process_name":
			if name == "" || f.processes[e.Process] != "" {
				return fmt.Errorf("process %d is called %q, and %q", e.Process, f.processes[e.Process], name)
			}
			f.processes[e.Process] = name
		case e.Name == "thread_name":
			if name == "" || f.threads[at] != "" {
				return fmt.Errorf("thread %v is called %q, and %q", at, f.threads[at], name)
			}
			f.threads[at] = name
		case !strings.HasSuffix(e.Name, "_sort_index"):
			return fmt.Errorf("event %d: metadata %s", i, e.Name)
		}
	}
	return nil
}

func (f *File) checkTimes() error {
	last := map[threadKey]float64{}
	for i, e := range f.Events {
		at := threadKey{e.Process, e.Thread}
		if *e.Time < 0 || e.Dur < 0 || *e.Time < last[at] {
			return fmt.Errorf("event %d, %s: it is at %v µs, %v long, after one at %v", i, e.Name, *e.Time, e.Dur,
				last[at])
		}
		last[at] = *e.Time
		switch e.Phase {
		case "X":
			if e.Dur == 0 {
				return fmt.Errorf("event %d, %s: a span without length", i, e.Name)
			}
		case "i":
			if e.Scope != "t" {
				return fmt.Errorf("event %d, %s: a mark of scope %q", i, e.Name, e.Scope)
			}
		case "M", "s", "t", "f":
		default:
			return fmt.Errorf("event %d, %s: phase %q", i, e.Name, e.Phase)
		}
	}
	return nil
}

// rounding is the maximum rounding error of sums of numbers with three decimals, in microseconds.
const rounding = 1e-6

func (f *File) checkNesting() error {
	open := map[threadKey][]Event{}
	for i, e := range f.Events {
		if e.Phase != "X" {
			continue
		}
		at := threadKey{e.Process, e.Thread}
		stack := open[at]
		for len(stack) > 0 && stack[len(stack)-1].End() <= *e.Time+rounding {
			stack = stack[:len(stack)-1]
		}
		if n := len(stack); n > 0 && stack[n-1].End() < e.End()-rounding {
			outer := stack[n-1]
			return fmt.Errorf("event %d, %s: [%v, %v] begins within %s [%v, %v] and ends after it",
				i, e.Name, *e.Time, e.End(), outer.Name, *outer.Time, outer.End())
		}
		open[at] = append(stack, e)
	}
	return nil
}

func (f *File) checkArrows() error {
	parts := map[int][]Event{}
	for i, e := range f.Events {
		if !strings.Contains("stf", e.Phase) {
			if e.ID != 0 {
				return fmt.Errorf("event %d, %s: an id without an arrow", i, e.Name)
			}
			continue
		}
		if e.ID == 0 || e.Cat == "" || e.Bind != "e" {
			return fmt.Errorf("event %d, %s: an arrow with id %d, category %q, bp %q", i, e.Name, e.ID, e.Cat, e.Bind)
		}
		if !slices.ContainsFunc(f.Events, func(x Event) bool {
			return x.Phase == "X" && x.Process == e.Process && x.Thread == e.Thread && *x.Time <= *e.Time &&
				*e.Time < x.End()
		}) {
			return fmt.Errorf("event %d, %s: part %s of arrow %d at %v touches no span", i, e.Name, e.Phase, e.ID,
				*e.Time)
		}
		parts[e.ID] = append(parts[e.ID], e)
	}
	for id, all := range parts {
		slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(*a.Time, *b.Time) })
		for i, e := range all {
			want := "t"
			if i == 0 {
				want = "s"
			} else if i == len(all)-1 {
				want = "f"
			}
			if e.Phase != want || e.Cat != all[0].Cat || e.Name != all[0].Name {
				return fmt.Errorf("arrow %d: part %d of %d is %s %s", id, i+1, len(all), e.Phase, e.Name)
			}
		}
		if len(all) < 2 {
			return fmt.Errorf("arrow %d has one end only", id)
		}
	}
	return nil
}

// Process returns the name of an event's process.
func (f *File) Process(e Event) string { return f.processes[e.Process] }

// Thread returns the name of an event's thread, without the number of its lane.
func (f *File) Thread(e Event) string {
	return strings.TrimRight(f.threads[threadKey{e.Process, e.Thread}], " 0123456789")
}

// All returns the events with a phase and a name, on the threads with a name, of a process with a suffix of its name;
// "" matches any name.
func (f *File) All(phase, process, thread, name string) (all []Event) {
	for _, e := range f.Events {
		if e.Phase == phase && strings.HasSuffix(f.Process(e), process) && (thread == "" || f.Thread(e) == thread) &&
			(name == "" || e.Name == name) {
			all = append(all, e)
		}
	}
	return all
}

// Sum returns the total duration of spans.
func Sum(all []Event) (sum float64) {
	for _, e := range all {
		sum += e.Dur
	}
	return sum
}
