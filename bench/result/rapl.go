package result

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// powercap is where Linux tells what processors have used (Running Average Power Limit): Documentation/power/powercap.
const powercap = "/sys/class/powercap"

// EnergyReadable returns why the energy that answers take cannot be read; nil where it can.
func EnergyReadable() error {
	_, err := openRAPL(powercap)
	return err
}

// rapl adds up the energy of all packages: sockets, with what is in them.
type rapl struct {
	packages []raplPackage
	sum      float64 // joules since it was opened
}

// raplPackage is one counter, which begins again at 0 behind its range.
type raplPackage struct {
	file   string
	last   uint64 // microjoules
	before uint64 // of its range: the largest number
}

// openRAPL opens the counters below a folder.
func openRAPL(dir string) (*rapl, error) {
	zones, err := filepath.Glob(filepath.Join(dir, "intel-rapl:*")) // AMD's processors are under that name too
	if err != nil {
		return nil, err
	}
	r := new(rapl)
	for _, zone := range zones {
		name, err := os.ReadFile(filepath.Join(zone, "name"))
		if err != nil || !strings.HasPrefix(string(name), "package") {
			continue // a part of a package, which that counts already
		}
		p := raplPackage{file: filepath.Join(zone, "energy_uj")}
		if p.before, err = readCounter(filepath.Join(zone, "max_energy_range_uj")); err != nil {
			return nil, err
		}
		if p.last, err = readCounter(p.file); err != nil {
			return nil, err
		}
		r.packages = append(r.packages, p)
	}
	if len(r.packages) == 0 {
		return nil, fmt.Errorf("%s has no counters of packages: %w", dir, errors.ErrUnsupported)
	}
	return r, nil
}

// joules used since it was opened. It is to be called more often than the counters begin again, which is minutes. A
// counter that can be read no more stands still.
func (r *rapl) joules() float64 {
	for i := range r.packages {
		p := &r.packages[i]
		now, err := readCounter(p.file)
		if err != nil {
			continue
		}
		used := now - p.last
		if now < p.last {
			used = now + (p.before - p.last)
		}
		p.last = now
		r.sum += float64(used) / 1e6
	}
	return r.sum
}

// readCounter reads a file with a number.
func readCounter(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}
