package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Meter shows the progress of a long operation: as a bar on a terminal, otherwise as a line for every tenth.
type Meter struct {
	w     io.Writer
	what  string
	bytes bool                     // it counts bytes
	Bar   *progressbar.ProgressBar // nil if w is not a terminal, and before the first bytes
	tty   bool
	tenth int64 // last printed tenth
	since time.Time
	Quiet time.Duration // nothing is shown before this time, for operations that are usually short
}

// NewMeter returns a meter on w, of bytes or of pieces. what describes the operation.
func NewMeter(w io.Writer, what string, bytes bool) *Meter {
	return &Meter{w: w, what: what, bytes: bytes, tty: IsTerminal(w), tenth: -1, since: time.Now()}
}

// Show reports that done of total units are finished; total is -1 if it is unknown.
func (m *Meter) Show(done, total int64) {
	if time.Since(m.since) < m.Quiet {
		return
	}
	if !m.tty {
		m.printTenth(done, total)
		return
	}
	if m.Bar == nil {
		m.Bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(m.w),
			progressbar.OptionSetDescription(m.what), progressbar.OptionShowBytes(m.bytes),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionFullWidth(),
			progressbar.OptionSetPredictTime(true))
	}
	if total != m.Bar.GetMax64() {
		m.Bar.ChangeMax64(total)
	}
	m.Bar.Set64(done) // an error on the terminal does not stop the operation
}

func (m *Meter) printTenth(done, total int64) {
	if total <= 0 || done*10/total == m.tenth {
		return
	}
	m.tenth = done * 10 / total
	if m.bytes {
		fmt.Fprintf(m.w, "%s: %d%% of %.1f MB\n", m.what, m.tenth*10, float64(total)/1e6)
	} else {
		fmt.Fprintf(m.w, "%s: %d of %d\n", m.what, done, total)
	}
}

// Say prints a sentence on a separate line.
func (m *Meter) Say(text string) {
	if m.Bar != nil {
		m.Bar.Clear()
	}
	fmt.Fprintf(m.w, "%s: %s\n", m.what, text)
}

// Close moves the cursor of the terminal to the beginning of a line.
func (m *Meter) Close() {
	if m.Bar != nil {
		m.Bar.Exit()
		fmt.Fprintln(m.w)
	}
}
