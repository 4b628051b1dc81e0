package result

import "time"

// Usage is what was used of the machine.
type Usage struct {
	CPU    time.Duration // of this process; 0 if the system does not tell
	Joules float64       // of all processors; 0 if the system does not tell
}

// Meter reads what is used. A nil one reads nothing: with several answers at a time nobody knows whose it is.
type Meter struct {
	CPU    func() time.Duration
	energy *rapl // nil: cannot be read
}

// NewMeter is a meter for so many answers at a time.
func NewMeter(parallel int) *Meter {
	if parallel != 1 {
		return nil
	}
	energy, _ := openRAPL(powercap) // why not is told by [EnergyReadable]
	return &Meter{CPUTime, energy}
}

// Read returns what has been used so far.
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

// Less is what was used between two readings.
func (u Usage) Less(before Usage) Usage { return Usage{u.CPU - before.CPU, u.Joules - before.Joules} }
