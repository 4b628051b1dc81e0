package capacity

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// Measurement is the name of measurements with costs, in [result.Run].
const Measurement = "bench capacity"

// Costs are the costs of a large model's work. They are measured with [Measure], or read with [ReadCosts].
type Costs struct {
	Device  string `json:"device,omitempty"` // the CPU, or the name of a GPU
	Threads int    `json:"threads"`          // of the large model: the cores of "devices per core"; at least 1
	Depth   int    `json:"depth_tokens"`     // of context before the rows of a pass
	Passes  []Pass `json:"passes"`           // ascending rows, the first has 1 row
	// of an ask in addition to passes and round trip: connection, gateway and service, if nothing has to be computed
	AskMS float64 `json:"ask_ms"`
}

// Pass is the time of one pass of the model over the weights.
type Pass struct {
	Rows    int     `json:"rows"`     // tokens computed in it
	MS      float64 `json:"ms"`       // if the next token is predicted for one row, as in a prompt
	HeadsMS float64 `json:"heads_ms"` // if the next token is predicted for each row, as for rows of different texts
}

// maxRows is the maximum size of a pass in a table.
const maxRows = 1 << 20

// Validate returns an error that names the first invalid field.
func (c *Costs) Validate() error {
	switch {
	case c.Threads < 1:
		return fmt.Errorf("costs.threads is %d: give the number of cores of the large model, 1 or more", c.Threads)
	case c.Depth < 0:
		return fmt.Errorf("costs.depth_tokens is %d: give 0 or more", c.Depth)
	case !within(c.AskMS, 0):
		return fmt.Errorf("costs.ask_ms is %v: give milliseconds, 0 to 60000", c.AskMS)
	case len(c.Passes) == 0:
		return errors.New("costs.passes is empty: give the time of a pass of 1 row, and of more rows")
	}
	before := 0
	for i, p := range c.Passes {
		switch {
		case i == 0 && p.Rows != 1:
			return fmt.Errorf("costs.passes[0].rows is %d: the first pass has 1 row", p.Rows)
		case p.Rows <= before || p.Rows > maxRows:
			return fmt.Errorf("costs.passes[%d].rows is %d: rows rise from pass to pass, to %d at most", i, p.Rows,
				maxRows)
		case p.MS == 0 || !within(p.MS, 0):
			return fmt.Errorf("costs.passes[%d].ms is %v: give milliseconds, above 0 to 60000", i, p.MS)
		case !within(p.HeadsMS, p.MS):
			return fmt.Errorf("costs.passes[%d].heads_ms is %v: give milliseconds, from ms (%v) to 60000", i,
				p.HeadsMS, p.MS)
		}
		before = p.Rows
	}
	return nil
}

// maxMS is the longest time that costs may have, in milliseconds: a minute.
const maxMS = 60e3

// within reports whether x is a time of at least low and at most a minute. It is false for NaN.
func within(x, low float64) bool { return x >= low && x <= maxMS }

// Time returns the time of a pass with the given number of rows, if the next token is predicted for heads of them. It
// interpolates linearly between the passes of the table, and extrapolates beyond the last one. No rows take no time.
func (c *Costs) Time(rows, heads int) time.Duration {
	if rows < 1 {
		return 0
	}
	one, each := c.at(rows)
	ms := one
	if rows > 1 {
		ms += (each - one) * float64(heads-1) / float64(rows-1)
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

// at returns the time of a pass with one head, and with a head for each row, in milliseconds.
func (c *Costs) at(rows int) (one, each float64) {
	n := len(c.Passes)
	i := sort.Search(n, func(i int) bool { return c.Passes[i].Rows >= rows })
	if i < n && c.Passes[i].Rows == rows {
		return c.Passes[i].MS, c.Passes[i].HeadsMS
	}
	var a, b Pass
	switch {
	case n == 1: // the shared costs are unknown: each row costs as much as the first
		b = c.Passes[0]
	default:
		i = min(i, n-1)
		a, b = c.Passes[i-1], c.Passes[i]
	}
	share := float64(rows-a.Rows) / float64(b.Rows-a.Rows)
	one, each = a.MS+(b.MS-a.MS)*share, a.HeadsMS+(b.HeadsMS-a.HeadsMS)*share
	if last := c.Passes[n-1]; rows > last.Rows {
		one, each = max(one, last.MS), max(each, last.HeadsMS) // decreasing times at the end of a table are noise
	}
	return one, max(each, one)
}

// ask returns [Costs.AskMS] as a duration.
func (c *Costs) ask() time.Duration { return time.Duration(c.AskMS * float64(time.Millisecond)) }

// ReadCosts reads the costs in the first line of an earlier measurement: a file with the output of `bench capacity
// --json`, compressed with gzip if its name ends in .gz. An error names the file, the line and the field.
func ReadCosts(path string) (Costs, result.Run, error) {
	lines, err := result.ReadFile(path)
	if err != nil {
		return Costs{}, result.Run{}, err
	}
	first := lines[0]
	if first.Run.Measurement != Measurement {
		return Costs{}, first.Run, fmt.Errorf("%s: it is of %q: give what %q printed with --json", first.Source,
			first.Run.Measurement, Measurement)
	}
	var line struct {
		Costs *Costs `json:"costs"`
	}
	if err := first.Into(&line); err != nil {
		return Costs{}, first.Run, err
	}
	if line.Costs == nil {
		return Costs{}, first.Run, fmt.Errorf("%s: it has no field costs", first.Source)
	}
	if err := line.Costs.Validate(); err != nil {
		return Costs{}, first.Run, fmt.Errorf("%s: %w", first.Source, err)
	}
	return *line.Costs, first.Run, nil
}
