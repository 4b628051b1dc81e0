package bench

import "time"

// usage is what was used of the machine.
type usage struct {
	cpu    time.Duration // of this process; 0 if the system does not tell
	joules float64       // of all processors; 0 if the system does not tell
}

// meter reads what is used. A nil one reads nothing: with several answers at a time nobody knows whose it is.
type meter struct {
	cpu    func() time.Duration
	energy *rapl // nil: cannot be read
}

// newMeter is a meter for so many answers at a time.
func newMeter(parallel int) *meter {
	if parallel != 1 {
		return nil
	}
	energy, _ := openRAPL(powercap) // why not is told by [EnergyReadable]
	return &meter{cpuTime, energy}
}

// read returns what has been used so far.
func (m *meter) read() (u usage) {
	if m == nil {
		return u
	}
	u.cpu = m.cpu()
	if m.energy != nil {
		u.joules = m.energy.joules()
	}
	return u
}

// less is what was used between two readings.
func (u usage) less(before usage) usage { return usage{u.cpu - before.cpu, u.joules - before.joules} }
