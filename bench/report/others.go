package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// Engine is a line of bench engine.
type Engine struct {
	Run result.Run `json:"run"`
	speed.Report
}

// Name identifies the engine.
func (e *Engine) Name() string {
	return fmt.Sprintf("%s, %s", cmp.Or(modelName(e.Run.Model), "a model"), plural(e.Threads, "thread"))
}

// OfBound returns how close the generation is to the limit of memory bandwidth.
func (e *Engine) OfBound() string {
	switch {
	case e.FitsCache:
		return "fits in the cache"
	case e.Share == nil:
		return ""
	}
	return percent(e.Share)
}

// engines returns bars of speeds, with whiskers from the minimum to the maximum of the samples; nil if there is nothing
// to draw.
func engines(all []Engine) Picture {
	s := chart.Spans{Title: "Speed of the engine", X: chart.Axis{Label: "tokens per second", Scale: chart.Linear},
		Kinds: []chart.Kind{{Name: "generation"}, {Name: "prompt", Colour: 1}}}
	bar := func(e *Engine, kind int, tps float64, of func(i int) float64) {
		if tps <= 0 {
			return
		}
		whole := chart.Span{To: tps, Colour: kind, Text: s.Kinds[kind].Name}
		r := chart.Row{Name: e.Name(), Text: chart.Number(tps), Spans: []chart.Span{whole}}
		for i := range e.Samples {
			v := of(i)
			if i == 0 || v < r.Low {
				r.Low = v
			}
			r.High = max(r.High, v)
		}
		s.X.End = max(s.X.End, tps, r.High)
		s.Rows = append(s.Rows, r)
	}
	for i := range all {
		e := &all[i]
		bar(e, 0, e.GenerationTPS, func(i int) float64 { return e.Samples[i].GenerationTPS })
		bar(e, 1, e.PromptTPS, func(i int) float64 { return e.Samples[i].PromptTPS })
	}
	if len(s.Rows) == 0 {
		return nil
	}
	return s
}

// Curves are the lines of one call of eval.
type Curves struct {
	Title string
	Runs  []Accuracy
	run   result.Run
}

// Accuracy is a line of eval.
type Accuracy struct{ eval.RunReport }

// Name of a run of eval.
func (a *Accuracy) Name() string {
	name := a.Policy
	if a.Threshold != nil {
		name += " " + chart.Number(*a.Threshold)
	}
	if a.Budget != nil {
		name += " " + percent(a.Budget)
	}
	if a.Verify != nil {
		name += " verified " + chart.Number(*a.Verify)
	}
	return name
}

// addCurve adds a line of eval to the others of its call.
func (r *Report) addCurve(one *result.Record) error {
	var a Accuracy
	if err := one.Into(&a); err != nil {
		return err
	}
	i := slices.IndexFunc(r.Curves, func(c *Curves) bool { return sameRun(&c.run, &one.Run) })
	if i < 0 {
		i = len(r.Curves)
		r.Curves = append(r.Curves, &Curves{Title: strings.TrimSpace(one.Run.Command), run: one.Run})
	}
	r.Curves[i].Runs = append(r.Curves[i].Runs, a)
	return nil
}

// picture returns the plot of accuracy against the share of tokens from the large model, nil if nothing is graded. The
// large model alone is a horizontal line, since its share is far from the others.
func (c *Curves) picture() Picture {
	const alone = "always"
	p := chart.Chart{
		Title: "Accuracy against the share of tokens from the large model",
		X:     chart.Axis{Label: "tokens from the large model, %"}, Y: chart.Axis{Label: "accuracy, %"},
	}
	lines := map[string]*chart.Line{}
	var order []string
	some := slices.Clone(c.Runs)
	slices.SortStableFunc(some, func(a, b Accuracy) int { return cmp.Compare(a.EscalatedShare, b.EscalatedShare) })
	most := 0.0
	for _, a := range some {
		if a.Accuracy == nil || a.AccuracyLow == nil || a.AccuracyHigh == nil {
			continue
		}
		l := lines[a.Policy]
		if l == nil {
			l = &chart.Line{Name: a.Policy, Dots: a.Policy != alone, Dashed: a.Policy == alone}
			lines[a.Policy], order = l, append(order, a.Policy)
		}
		if a.Policy == alone {
			l.X, l.Y = []float64{0, 1}, []float64{*a.Accuracy, *a.Accuracy}
			continue
		}
		l.X, l.Y = append(l.X, a.EscalatedShare), append(l.Y, *a.Accuracy)
		l.Low, l.High = append(l.Low, *a.AccuracyLow), append(l.High, *a.AccuracyHigh)
		most = max(most, a.EscalatedShare)
	}
	for _, name := range order {
		p.Lines = append(p.Lines, *lines[name])
	}
	if len(p.Lines) == 0 {
		return nil
	}
	p.X.End = min(1, math.Ceil(most*20+1e-9)/20)
	return p
}

// Other is a line of a measurement without pictures: its figures by name.
type Other struct {
	Measurement string
	Fields      []Field
}

// Field is a figure, or a text, of a line.
type Field struct{ Name, Value string }

// maxFields is the maximum number of figures of a line on a page.
const maxFields = 200

// addOther adds a line of any measurement. Lists, such as samples, are only counted.
func (r *Report) addOther(one *result.Record) error {
	d := json.NewDecoder(bytes.NewReader(one.Fields))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return fmt.Errorf("%s: %w", one.Source, err)
	}
	delete(fields, "run")
	o := Other{Measurement: one.Run.Measurement}
	o.flatten("", fields)
	slices.SortFunc(o.Fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	o.Fields = o.Fields[:min(len(o.Fields), maxFields)]
	r.Others = append(r.Others, o)
	return nil
}

// flatten adds the figures below a name.
func (o *Other) flatten(name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			o.flatten(strings.TrimPrefix(name+"."+k, "."), inner)
		}
	case []any:
		o.Fields = append(o.Fields, Field{name, plural(len(v), "value")})
	case nil:
	default:
		o.Fields = append(o.Fields, Field{name, shortText(fmt.Sprint(v))})
	}
}

// shortText shortens a text for a cell of a table.
func shortText(s string) string {
	const most = 200
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
