package train

import (
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// Folder is a set of traces with its name in errors.
type Folder struct {
	Name string
	Set  *trace.Set
}

// Traces holds the positions of one or more sets of traces with the labels of one rule. Hidden states stay in the
// files; 13 bytes of each position are in memory. The sets must stay open.
type Traces struct {
	sets   []*trace.Set
	starts []int // of the positions of each set, and of all at the end
	prompt []int32
	label  []Label
	head   [][2]float32
}

// NewTraces joins sets of one small model. Prompts with the same number in sets of the same data are the same prompt.
func NewTraces(folders []Folder, rule string) (*Traces, error) {
	t := &Traces{starts: []int{0}}
	prompts := map[string]int{} // of each data, most of any set
	var large Folder            // the first one that names its large model: a gateway does not
	for i, f := range folders {
		if i == 0 || large.Set.Settings().Large.Fingerprint == "" {
			large = f
		}
		if err := checkCompatible(folders[0], large, f, rule); err != nil {
			return nil, err
		}
		s := f.Set.Settings()
		prompts[s.Data] = max(prompts[s.Data], s.Prompts)
	}
	first, next := map[string]int{}, 0 // number of the first prompt
	for _, f := range folders {
		s := f.Set.Settings()
		if _, known := first[s.Data]; !known {
			first[s.Data] = next
			next += prompts[s.Data]
		}
		t.appendTraceSet(f.Set, first[s.Data], s.Rule(rule))
	}
	return t, nil
}

// checkCompatible returns an error if a set cannot be used together with the first one, and with the first one that
// names its large model.
func checkCompatible(first, large, f Folder, rule string) error {
	one, s, model := first.Set.Settings(), f.Set.Settings(), large.Set.Settings().Large
	switch {
	case s.Small.Fingerprint != one.Small.Fingerprint:
		return fmt.Errorf("%s is of the small model %q, %s of %q: a router belongs to one small model, "+
			"so leave one of the files out", f.Name, s.Small.Name, first.Name, one.Small.Name)
	case s.Width != one.Width:
		return fmt.Errorf("%s has hidden states of %d numbers, %s of %d: leave one of the files out",
			f.Name, s.Width, first.Name, one.Width)
	case s.Tap != one.Tap || s.Tap != router.TapFinalNorm && s.Tap != router.TapMismatch:
		return fmt.Errorf("%s has hidden states of the tap point %q: a router takes those of %q, a judge of %q",
			f.Name, s.Tap, router.TapFinalNorm, router.TapMismatch)
	case s.Large.Fingerprint != model.Fingerprint && s.Large.Fingerprint != "" && model.Fingerprint != "":
		return fmt.Errorf("%s is of the large model %q, %s of %q: leave one of the files out",
			f.Name, s.Large.Name, large.Name, model.Name)
	case s.Rule(rule) < 0:
		return fmt.Errorf("%s has no labels %q: it has %s", f.Name, rule, strings.Join(s.Labels, ", "))
	}
	return nil
}

// appendTraceSet appends the positions of a set. prompt is the number of its first prompt.
func (t *Traces) appendTraceSet(s *trace.Set, prompt, rule int) {
	for i := range s.Len() {
		p := s.At(i)
		t.prompt = append(t.prompt, int32(prompt)+p.Prompt)
		t.label = append(t.label, labelOfVerdict(p.Labels[rule]))
		t.head = append(t.head, [2]float32{p.Margin, router.Certainty(p.Entropy)})
	}
	t.sets, t.starts = append(t.sets, s), append(t.starts, len(t.label))
}

func labelOfVerdict(v trace.Verdict) Label {
	switch v {
	case trace.Keep:
		return Keep
	case trace.Escalate:
		return Escalate
	case trace.Spoil:
		return Spoil
	}
	return Unlabelled
}

// Len implements [Source], and so do the others.
func (t *Traces) Len() int { return len(t.label) }

// Width implements [Source].
func (t *Traces) Width() int { return t.sets[0].Width() }

// Prompt implements [Source].
func (t *Traces) Prompt(i int) int { return int(t.prompt[i]) }

// Label implements [Source].
func (t *Traces) Label(i int) Label { return t.label[i] }

// Head implements [Source].
func (t *Traces) Head(i int) (margin, certainty float32) { return t.head[i][0], t.head[i][1] }

// Hidden implements [Source].
func (t *Traces) Hidden(dst []float32, i int) {
	set := t.Folder(i)
	t.sets[set].Hidden(dst, i-t.starts[set])
}

// Folder returns the index of the folder of position i.
func (t *Traces) Folder(i int) int {
	set := 0
	for i >= t.starts[set+1] {
		set++
	}
	return set
}
