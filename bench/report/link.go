package report

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// Path is a time that bench link measured on a path between device and gateway, with its prediction.
type Path struct {
	Link     string // round trip, loss and model
	What     string // what was timed, from when to when
	name     string // short name for a picture
	Times    int    // number of measurements
	Failed   int    // asks without an answer
	MS       result.Latency
	Expected string // in milliseconds
	most     float64
	Up, Down *float64 // bytes on the wire per ask, including headers
}

// addLink adds a line of bench link.
func (r *Report) addLink(one *result.Record) error {
	var l wire.LinkReport
	if err := one.Into(&l); err != nil {
		return err
	}
	link := fmt.Sprintf("%s ms", chart.Number(l.RTTMS))
	if l.Loss > 0 {
		link += fmt.Sprintf(", %s%% lost", chart.Number(100*l.Loss))
	}
	if l.ModelMS > 0 {
		link += fmt.Sprintf(", model %s ms", chart.Number(l.ModelMS))
	}
	add := func(name, what string, times, failed int, ms result.Latency, expected float64) *Path {
		r.Paths = append(r.Paths, Path{
			Link: link, What: what, name: name, Times: times, Failed: failed, MS: ms, Expected: chart.Number(expected),
			most: expected,
		})
		return &r.Paths[len(r.Paths)-1]
	}
	if a := l.Asks; a != nil {
		tokens := plural(a.Tokens, "new token")
		expected := 0.0 // unknown
		if a.Expected != nil {
			expected = *a.Expected
		}
		p := add("ask, "+tokens, "ask with "+tokens+", until its answer", a.Answers, a.Errors, a.Latency, expected)
		p.Up, p.Down = &a.WireUp, &a.WireDown
	}
	if c := l.Connect; c != nil {
		add("connected", "new connection, until it is there", c.Connections, 0, c.Connected, c.ExpectedHello)
		add("first answer", "new connection, until its first answer", c.Connections, 0, c.First, c.ExpectedFirst)
		const resumed = "connection resumed with 0-RTT, until its first answer"
		add("first with 0-RTT", resumed, c.Early, 0, c.Resumed, c.ExpectedEarly)
	}
	if o := l.Outage; o != nil {
		what := fmt.Sprintf("end of an outage of %s ms, until an answer", chart.Number(o.OutageMS))
		p := add("after an outage", what, o.Outages, o.Lost, o.Recovery, o.Expected)
		p.Expected = "at most " + p.Expected
	}
	if l.Loopback != nil {
		r.Loopbacks = append(r.Loopbacks, l.Loopback)
	}
	return nil
}

// paths returns bars of the median times beside the predicted ones, with whiskers to the 99th percentiles; nil if there
// is nothing to draw.
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
