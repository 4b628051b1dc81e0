package result

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// powercap is the folder with Linux's counters of processor energy (Running Average Power Limit):
// Documentation/power/powercap.
const powercap = "/sys/class/powercap"

// EnergyReadable returns why the energy of answers cannot be read; nil if it can.
func EnergyReadable() error {
	_, err := openRAPL(powercap)
	return err
}

// rapl adds up the energy of all packages, which are sockets.
type rapl struct {
	packages []raplPackage
	sum      float64 // joules since it was opened
}

// raplPackage is one counter. It restarts at 0 after the end of its range.
type raplPackage struct {
	file   string
	last   uint64 // microjoules
	before uint64 // its range: the maximum value
}

// openRAPL opens the counters in a folder.
func openRAPL(dir string) (*rapl, error) {
	zones, err := filepath.Glob(filepath.Join(dir, "intel-rapl:*")) // AMD's processors have this name too
	if err != nil {
		return nil, err
	}
	r := new(rapl)
	for _, zone := range zones {
		name, err := os.ReadFile(filepath.Join(zone, "name"))
		if err != nil || !strings.HasPrefix(string(name), "package") {
			continue // a part of a package, which is included in the package's counter
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

// joules returns the energy used since it was opened. It must be called more often than the counters restart, which
// takes minutes. A counter that becomes unreadable keeps its value.
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
