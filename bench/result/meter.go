package result

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/cputime"
)

// Usage is the use of the machine's resources.
type Usage struct {
	CPU    time.Duration // of this process; 0 if the system does not report it
	Joules float64       // of all processors; 0 if the system does not report it
}

// Meter reads the use of resources. A nil Meter reads nothing: with concurrent answers the use cannot be attributed.
type Meter struct {
	CPU    func() time.Duration
	energy *rapl // nil: not readable
}

// NewMeter returns a meter for this number of concurrent answers.
func NewMeter(parallel int) *Meter {
	if parallel != 1 {
		return nil
	}
	energy, _ := openRAPL(powercap) // [EnergyReadable] reports the error
	return &Meter{cputime.Used, energy}
}

// Read returns the use so far.
func (m *Meter) Read() (u Usage) {
	if m == nil {
		return u
	}
	u.CPU = m.CPU()
	if m.energy != nil {
		u.Joules = m.energy.joules()
	}
	return u
}

// Less returns the difference between two readings.
func (u Usage) Less(before Usage) Usage { return Usage{u.CPU - before.CPU, u.Joules - before.Joules} }
