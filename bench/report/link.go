package report

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// Path is a time that bench link took of a path between device and gateway, beside what arithmetic says of it.
type Path struct {
	Link     string // round trip, loss and model
	What     string // was timed, from when to when
	name     string // the same for a picture
	Times    int    // that it was
	Failed   int    // asks that had no answer
	MS       Latency
	Expected string // in milliseconds
	most     float64
	Up, Down *float64 // bytes on the wire for each ask, headers included
}

// Loopback is how many questions a second pass without a link.
type Loopback struct {
	PerSecond float64 `json:"asks_per_second"`
	CPU       float64 `json:"cpu_us_per_ask"`
	Answers   int     `json:"answers"`
	Abreast   int     `json:"abreast"` // questions under way at any time
}

// linkLine is a line of bench link: one of its parts.
type linkLine struct {
	RTT     float64 `json:"rtt_ms"`
	Loss    float64 `json:"loss"`
	ModelMS float64 `json:"model_ms"`
	Asks    *struct {
		Tokens   int     `json:"tokens"`
		Answers  int     `json:"answers"`
		Errors   int     `json:"errors"`
		MS       Latency `json:"latency_ms"`
		Expected float64 `json:"expected_ms"`
		Up       float64 `json:"wire_bytes_up_per_ask"`
		Down     float64 `json:"wire_bytes_down_per_ask"`
	} `json:"asks"`
	Connect *struct {
		Connections     int     `json:"connections"`
		Early           int     `json:"early"`
		Connected       Latency `json:"connected_ms"`
		First           Latency `json:"first_answer_ms"`
		Resumed         Latency `json:"resumed_ms"`
		ExpectConnected float64 `json:"expected_connected_ms"`
		ExpectFirst     float64 `json:"expected_first_ms"`
		ExpectResumed   float64 `json:"expected_resumed_ms"`
	} `json:"connect"`
	Outage *struct {
		Outages  int     `json:"outages"`
		MS       float64 `json:"outage_ms"`
		Recovery Latency `json:"recovery_ms"`
		Lost     int     `json:"asks_lost"`
		Expected float64 `json:"expected_most_ms"`
	} `json:"outage"`
	Loopback *Loopback `json:"loopback"`
}

// addLink takes a line of bench link.
func (r *Report) addLink(one *result.Record) error {
	var l linkLine
	if err := one.Into(&l); err != nil {
		return err
	}
	link := fmt.Sprintf("%s ms", chart.Number(l.RTT))
	if l.Loss > 0 {
		link += fmt.Sprintf(", %s%% lost", chart.Number(100*l.Loss))
	}
	if l.ModelMS > 0 {
		link += fmt.Sprintf(", model %s ms", chart.Number(l.ModelMS))
	}
	add := func(name, what string, times, failed int, ms Latency, expected float64) *Path {
		r.Paths = append(r.Paths, Path{
			Link: link, What: what, name: name, Times: times, Failed: failed, MS: ms, Expected: chart.Number(expected),
			most: expected,
		})
		return &r.Paths[len(r.Paths)-1]
	}
	if a := l.Asks; a != nil {
		tokens := plural(a.Tokens, "new token")
		p := add("ask, "+tokens, "ask with "+tokens+", until its answer", a.Answers, a.Errors, a.MS, a.Expected)
		p.Up, p.Down = &a.Up, &a.Down
	}
	if c := l.Connect; c != nil {
		add("connected", "new connection, until it is there", c.Connections, 0, c.Connected, c.ExpectConnected)
		add("first answer", "new connection, until its first answer", c.Connections, 0, c.First, c.ExpectFirst)
		const resumed = "connection resumed with 0-RTT, until its first answer"
		add("first with 0-RTT", resumed, c.Early, 0, c.Resumed, c.ExpectResumed)
	}
	if o := l.Outage; o != nil {
		what := fmt.Sprintf("end of an outage of %s ms, until an answer", chart.Number(o.MS))
		p := add("after an outage", what, o.Outages, o.Lost, o.Recovery, o.Expected)
		p.Expected = "at most " + p.Expected
	}
	if l.Loopback != nil {
		r.Loopbacks = append(r.Loopbacks, *l.Loopback)
	}
	return nil
}

// paths are bars of the median times beside the predicted ones, with whiskers to the 99th percentiles; nil where
// there is nothing to draw.
func paths(all []Path) Picture {
	s := chart.Spans{
		Title: "Times over the link and what arithmetic says", X: chart.Axis{Label: "ms", Scale: chart.Linear},
		Kinds: []chart.Kind{{Name: "measured, median"}, {Name: "predicted", Colour: 1}},
	}
	for _, p := range all {
		s.X.End = max(s.X.End, p.MS.P99, p.most)
		s.Rows = append(s.Rows, chart.Row{
			Name: p.name, Text: chart.Number(p.MS.P50), Low: p.MS.P50, High: p.MS.P99,
			Spans: []chart.Span{{To: p.MS.P50, Text: p.Link + ": median"}},
		}, chart.Row{
			Name: "predicted", Text: p.Expected,
			Spans: []chart.Span{{To: p.most, Colour: 1, Text: p.Link + ": predicted"}},
		})
	}
	if len(s.Rows) == 0 {
		return nil
	}
	return s
}
