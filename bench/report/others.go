package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// Engine is a line of bench engine, as far as a page shows it.
type Engine struct {
	Run     result.Run `json:"run"`
	Prompt  int        `json:"prompt_tokens"`
	Decoded int        `json:"generated_tokens"`
	Threads int        `json:"threads"`
	Device  string     `json:"device"`
	In      float64    `json:"prompt_tps"`
	Out     float64    `json:"generation_tps"`
	Bound   float64    `json:"generation_bound_tps"`
	Share   *float64   `json:"bandwidth_share"`
	Fits    bool       `json:"fits_cache"`
	GBs     float64    `json:"bandwidth_gbs"`
	LoadMS  float64    `json:"load_ms"`
	FirstMS float64    `json:"first_token_ms"`
	RSS     int64      `json:"peak_rss_bytes"`
	Samples []struct {
		In  float64 `json:"prompt_tps"`
		Out float64 `json:"generation_tps"`
	} `json:"samples"`
}

// Name says which engine that is.
func (e *Engine) Name() string {
	return fmt.Sprintf("%s, %s", cmp.Or(modelName(e.Run.Model), "a model"), plural(e.Threads, "thread"))
}

// OfBound says how near the generation is to what reading memory allows.
func (e *Engine) OfBound() string {
	switch {
	case e.Fits:
		return "fits in the cache"
	case e.Share == nil:
		return ""
	}
	return percent(e.Share)
}

// engines are bars of speeds, from the samples' least to their most; nil where there is nothing to draw.
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
		bar(e, 0, e.Out, func(i int) float64 { return e.Samples[i].Out })
		bar(e, 1, e.In, func(i int) float64 { return e.Samples[i].In })
	}
	if len(s.Rows) == 0 {
		return nil
	}
	return s
}

// Gateway is a line of bench gateway, as far as a page shows it.
type Gateway struct {
	Devices   int     `json:"devices"`
	Rate      float64 `json:"rate"`
	ModelMS   float64 `json:"model_ms"`
	Seconds   float64 `json:"seconds"`
	Asks      int     `json:"asks"`
	Answers   int     `json:"answers"`
	Errors    int     `json:"errors"`
	CPU       float64 `json:"cpu_us_per_ask"`
	Latency   Latency `json:"latency_ms"`
	InGateway Latency `json:"in_gateway_ms"`
	PerDevice int64   `json:"memory_per_connection_bytes"`
	Session   int64   `json:"memory_per_session_bytes"`
}

// Latency is percentiles in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// PerSecond is how many answers came each second.
func (g *Gateway) PerSecond() float64 { return float64(g.Answers) / g.Seconds }

// Curves are the lines of one call of eval.
type Curves struct {
	Title string
	Runs  []Accuracy
	run   result.Run
}

// Accuracy is a line of eval, as far as a page shows it.
type Accuracy struct {
	Policy    string   `json:"policy"`
	Threshold *float64 `json:"threshold"`
	Budget    *float64 `json:"budget"`
	Verify    *float64 `json:"verify"`
	Answers   int      `json:"answers"`
	Value     *float64 `json:"accuracy"`
	Low       *float64 `json:"accuracy_low"`
	High      *float64 `json:"accuracy_high"`
	Share     float64  `json:"escalated_share"`
	Asks      float64  `json:"asks_per_answer"`
}

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

// addCurve puts a line of eval beside the others of its call.
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

// picture is accuracy against the share of tokens from the large model, nil where nothing is graded. The large model
// alone is a level, as its share is far from the others.
func (c *Curves) picture() Picture {
	const alone = "always"
	p := chart.Chart{
		Title: "Accuracy against the share of tokens from the large model",
		X:     chart.Axis{Label: "tokens from the large model, %"}, Y: chart.Axis{Label: "accuracy, %"},
	}
	lines := map[string]*chart.Line{}
	var order []string
	some := slices.Clone(c.Runs)
	slices.SortStableFunc(some, func(a, b Accuracy) int { return cmp.Compare(a.Share, b.Share) })
	most := 0.0
	for _, a := range some {
		if a.Value == nil || a.Low == nil || a.High == nil {
			continue
		}
		l := lines[a.Policy]
		if l == nil {
			l = &chart.Line{Name: a.Policy, Dots: a.Policy != alone, Dashed: a.Policy == alone}
			lines[a.Policy], order = l, append(order, a.Policy)
		}
		if a.Policy == alone {
			l.X, l.Y = []float64{0, 1}, []float64{*a.Value, *a.Value}
			continue
		}
		l.X, l.Y = append(l.X, a.Share), append(l.Y, *a.Value)
		l.Low, l.High = append(l.Low, *a.Low), append(l.High, *a.High)
		most = max(most, a.Share)
	}
	for _, name := range order {
		p.Lines = append(p.Lines, *lines[name])
	}
	if len(p.Lines) == 0 {
		return nil
	}
	if p.X.End = min(1, math.Ceil(most*20+1e-9)/20); p.X.End == 0 {
		p.X.End = 1
	}
	return p
}

// Other is a line of a measurement that has no pictures: its figures by name.
type Other struct {
	Measurement string
	Fields      []Field
}

// Field is a figure, or a text, of a line.
type Field struct{ Name, Value string }

// maxFields is how many figures of one line a page shows.
const maxFields = 200

// addOther takes a line of any measurement. Lists, such as samples, are only counted.
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

// shortText is a text of which a cell of a table shows only so much.
func shortText(s string) string {
	const most = 200
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// Percent is the share in percent.
func (a *Accuracy) Percent() float64 { return 100 * a.Share }
