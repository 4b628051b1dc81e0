package routing

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// listFlag is a flag with values separated by commas. Each value is a cell of a sweep.
type listFlag[T comparable] struct {
	values []T
	text   string // as given
	kind   string
	read   func(parts []string) ([]T, error)
}

// String implements pflag.Value.
func (l *listFlag[T]) String() string { return l.text }

// Type implements pflag.Value.
func (l *listFlag[T]) Type() string { return l.kind }

// Set implements pflag.Value.
func (l *listFlag[T]) Set(text string) error {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	values, err := l.read(parts)
	if err != nil {
		return err
	}
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return fmt.Errorf("%v is given twice: give each value once", v)
		}
	}
	l.values, l.text = values, text
	return nil
}

// floats returns a list of numbers. The default has one number.
func floats(usual float64) listFlag[float64] {
	return listFlag[float64]{[]float64{usual}, strconv.FormatFloat(usual, 'g', -1, 64), "numbers", readFloats}
}

func readFloats(parts []string) (all []float64, err error) {
	for _, p := range parts {
		x, err := strconv.ParseFloat(p, 64)
		if err != nil {
			return nil, fmt.Errorf("%.40q is not a number", p)
		}
		all = append(all, x)
	}
	return all, nil
}

// durations returns a list of times. The default has one time.
func durations(usual time.Duration) listFlag[time.Duration] {
	return listFlag[time.Duration]{[]time.Duration{usual}, usual.String(), "durations", readDurations}
}

// readDurations parses times. A number without a unit has that of the next one with a unit: 0,50,100ms.
func readDurations(parts []string) ([]time.Duration, error) {
	all, unit := make([]time.Duration, len(parts)), ""
	for i, p := range slices.Backward(parts) {
		d, err := time.ParseDuration(p)
		if err != nil {
			d, err = time.ParseDuration(p + unit)
		} else if letters := strings.TrimLeft(p, "+-.0123456789"); letters != "" &&
			!strings.ContainsAny(letters, "0123456789") {
			unit = letters
		}
		if err != nil {
			return nil, fmt.Errorf("%.40q is not a time: give one such as 100ms, or a list such as 0,50,100ms", p)
		}
		all[i] = d
	}
	return all, nil
}

// paths returns a list of files, empty by default.
func paths() listFlag[string] { return listFlag[string]{kind: "paths", read: readPaths} }

func readPaths(parts []string) ([]string, error) {
	if slices.Contains(parts, "") {
		return nil, errors.New("the name between two commas is missing: give files, such as a.up,b.rtt.csv")
	}
	return parts, nil
}
