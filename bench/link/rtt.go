package link

import (
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"time"
)

// RTTTrace is a recording of round trips: times of messages and of their echoes.
type RTTTrace struct {
	rows []rttRow // in ascending order of time
}

// rttRow is one message.
type rttRow struct {
	at   time.Duration // when it was sent
	rtt  time.Duration // until its echo arrived
	lost bool          // no echo arrived
}

// ReadRTT reads a trace of comma-separated values: a line of column names, among them t_ms and rtt_ms, then one line
// per message. t_ms, from 0 to a day, is ascending; an empty rtt_ms means that the message was lost, so the link drops
// all packets until the next row. Other columns are ignored. The path is used in errors.
func ReadRTT(r io.Reader, path string) (*RTTTrace, error) {
	t := &RTTTrace{}
	columns := rttColumns{}
	err := forEachLine(r, path, func(line int, text string) error {
		if line == 1 {
			return columns.findColumns(text)
		}
		row, err := columns.parseRow(text)
		if err != nil {
			return err
		}
		if n := len(t.rows); n > 0 && row.at <= t.rows[n-1].at {
			return fmt.Errorf("t_ms: %v after %v: %w", row.at, t.rows[n-1].at, ErrOrder)
		}
		t.rows = append(t.rows, row)
		return nil
	})
	if err == nil && len(t.rows) < 2 {
		err = fmt.Errorf("%s: %w", path, ErrEmpty)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// rttColumns are the indices of the columns that are read.
type rttColumns struct{ at, rtt int }

func (c *rttColumns) findColumns(text string) error {
	c.at, c.rtt = -1, -1
	for i, name := range strings.Split(text, ",") {
		switch name {
		case "t_ms":
			c.at = i
		case "rtt_ms":
			c.rtt = i
		}
	}
	switch {
	case c.at < 0:
		return fmt.Errorf("t_ms: %w", ErrColumn)
	case c.rtt < 0:
		return fmt.Errorf("rtt_ms: %w", ErrColumn)
	}
	return nil
}

func (c *rttColumns) parseRow(text string) (row rttRow, err error) {
	fields := strings.Split(text, ",")
	if n := max(c.at, c.rtt); len(fields) <= n {
		return row, fmt.Errorf("%d columns instead of %d: %w", len(fields), n+1, ErrColumn)
	}
	if row.at, err = parseMilliseconds(fields[c.at], maxTrace); err != nil {
		return row, fmt.Errorf("t_ms: %w", err)
	}
	if fields[c.rtt] == "" {
		row.lost = true
		return row, nil
	}
	if row.rtt, err = parseMilliseconds(fields[c.rtt], maxRTT); err != nil {
		return row, fmt.Errorf("rtt_ms: %w", err)
	}
	return row, nil
}

// parseMilliseconds parses a time in [0, most].
func parseMilliseconds(text string, most time.Duration) (time.Duration, error) {
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ms >= 0 && ms <= most.Seconds()*1e3) {
		return 0, fmt.Errorf("%.40q: %w", text, ErrNumber)
	}
	return time.Duration(ms * float64(time.Millisecond)), nil
}

// Length returns the time after which the trace repeats: its last row lasts as long as the one before.
func (t *RTTTrace) Length() time.Duration {
	last := len(t.rows) - 1
	return t.rows[last].at + t.rows[last].at - t.rows[last-1].at
}

// rttReplay replays a trace. Without a trace it does nothing.
type rttReplay struct {
	trace *RTTTrace
	begin time.Duration
	adds  bool // whether to add the recorded times; outages apply in either case
}

// delayAt returns the time to add for a packet at a time: that of the last row not after it, or false in an outage.
func (p *rttReplay) delayAt(at time.Duration) (time.Duration, bool) {
	if p.trace == nil {
		return 0, true
	}
	row := p.trace.rows[p.trace.rowIndex(at+p.begin)]
	if row.lost {
		return 0, false
	}
	if !p.adds {
		return 0, true
	}
	return row.rtt, true
}

func (t *RTTTrace) meanRTT() time.Duration {
	sum, n := time.Duration(0), 0
	for _, row := range t.rows {
		if !row.lost {
			sum, n = sum+row.rtt, n+1
		}
	}
	return sum / time.Duration(max(1, n))
}

// rowIndex returns the index of the last row not after a time.
func (t *RTTTrace) rowIndex(at time.Duration) int {
	at %= t.Length()
	return max(0, sort.Search(len(t.rows), func(i int) bool { return t.rows[i].at > at })-1)
}
