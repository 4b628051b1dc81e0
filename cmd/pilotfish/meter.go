package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
)

// meter shows how far something long is: as a bar on a terminal, elsewhere as a line for every tenth.
type meter struct {
	w     io.Writer
	what  string
	unit  meterUnit
	bar   *progressbar.ProgressBar // nil where w is no terminal, and before the first bytes
	tty   bool
	tenth int64 // the last one that was said
	since time.Time
	quiet time.Duration // nothing is shown before, for what is usually short
	paced bool          // the rate and the time left are shown, too
	first int64         // what was done before, for the rate
}

// meterUnit is what a meter counts.
type meterUnit int

const (
	inPieces meterUnit = iota
	inBytes
)

func newMeter(w io.Writer, what string, unit meterUnit) *meter {
	return &meter{w: w, what: what, unit: unit, tty: isTerminal(w), tenth: -1, since: time.Now()}
}

// show says that done of total are here; total is -1 where it is unknown.
func (m *meter) show(done, total int64) {
	if time.Since(m.since) < m.quiet {
		return
	}
	if !m.tty {
		m.line(done, total)
		return
	}
	if m.bar == nil {
		m.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(m.w),
			progressbar.OptionSetDescription(m.what), progressbar.OptionShowBytes(m.unit == inBytes),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionFullWidth(),
			progressbar.OptionSetPredictTime(true))
		if m.paced {
			progressbar.OptionShowIts()(m.bar)
		}
	}
	if total != m.bar.GetMax64() {
		m.bar.ChangeMax64(total)
	}
	m.bar.Set64(done) // only decoration: that a terminal went away is no reason to stop
}

// line prints a line when a tenth is full.
func (m *meter) line(done, total int64) {
	if total <= 0 || done*10/total == m.tenth {
		return
	}
	m.tenth = done * 10 / total
	whole := strconv.FormatInt(total, 10)
	if m.unit == inBytes {
		whole = fmt.Sprintf("%.1f MB", float64(total)/1e6)
	}
	pace := ""
	if m.paced {
		pace = paceText(done-m.first, total-done, time.Since(m.since))
	}
	fmt.Fprintf(m.w, "%s: %d%% of %s%s\n", m.what, m.tenth*10, whole, pace)
}

// paceText is the rate at which so much was done in a time, and how long the rest takes at that rate; nothing while
// that is not known.
func paceText(done, rest int64, took time.Duration) string {
	if done <= 0 || rest <= 0 || took < time.Second {
		return ""
	}
	left := time.Duration(float64(took) / float64(done) * float64(rest))
	return fmt.Sprintf(", %.1f/s, %v left", float64(done)/took.Seconds(), left.Round(time.Second))
}

// say prints a sentence on a line of its own.
func (m *meter) say(text string) {
	if m.bar != nil {
		m.bar.Clear()
	}
	fmt.Fprintf(m.w, "%s: %s\n", m.what, text)
}

// close leaves the terminal at the beginning of a line.
func (m *meter) close() {
	if m.bar != nil {
		m.bar.Exit()
		fmt.Fprintln(m.w)
	}
}
