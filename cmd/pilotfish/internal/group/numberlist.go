package group

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// NumberList is a flag of integers separated by commas. A value replaces the default.
type NumberList []int

// maxNumbers limits the length of a list.
const maxNumbers = 1000

// Set implements [pflag.Value].
func (l *NumberList) Set(text string) error {
	var all NumberList
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		switch {
		case err != nil:
			return fmt.Errorf("%.40q is not a whole number: give some such as 16,512", field)
		case slices.Contains(all, n):
			return fmt.Errorf("%d is given twice", n)
		case len(all) == maxNumbers:
			return fmt.Errorf("there are more than %d numbers", maxNumbers)
		}
		all = append(all, n)
	}
	*l = all
	return nil
}

// String implements [pflag.Value].
func (l *NumberList) String() string {
	var all []string
	for _, n := range *l {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ",")
}

// Type implements [pflag.Value].
func (l *NumberList) Type() string { return "numbers" }

// CheckRange returns an error if v is not in [low, high]; NaN never is. want describes the valid values.
func CheckRange[T cmp.Ordered](flag string, v, low, high T, want string) error {
	if v >= low && v <= high {
		return nil
	}
	return cli.Usagef("--%s %v is out of range: give %s", flag, v, want)
}

// Limits of ranges of flags.
const (
	LongestRTT   = 10 * time.Second
	MaxEdgeTPS   = 1e6
	MaxDevices   = 64 // with more devices, the one process of a measurement mainly measures itself
	MaxQuestions = 1_000_000
)

// CheckTraces checks the traces of one link.
func CheckTraces(paths []string) error {
	rtt, up, down := 0, 0, 0
	for _, path := range paths {
		var o link.Options
		if err := o.AddTrace(path); err != nil {
			return fmt.Errorf("--trace %s: %w", path, err)
		}
		if o.RTT != nil {
			rtt++
		}
		if o.Up.Capacity != nil {
			up++
		}
		if o.Down.Capacity != nil {
			down++
		}
		if max(rtt, up, down) > 1 {
			return cli.Usagef(
				"--trace %s is a second trace of its kind: give only one of round trips, one up and one down",
				path)
		}
	}
	return nil
}
