package group

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// List is a flag of values separated by commas. A value replaces the default.
type List[T comparable] struct {
	Values []T
	text   string // as given
	kind   string
	parse  func(parts []string) ([]T, error)
}

// String implements [pflag.Value].
func (l *List[T]) String() string { return l.text }

// Type implements [pflag.Value].
func (l *List[T]) Type() string { return l.kind }

// Set implements [pflag.Value].
func (l *List[T]) Set(text string) error {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	values, err := l.parse(parts)
	if err != nil {
		return err
	}
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return fmt.Errorf("%v is given twice: give each value once", v)
		}
	}
	l.Values, l.text = values, text
	return nil
}

// ListOf returns a list of values that a function parses, with the default in text; "" for none.
func ListOf[T comparable](kind, text string, one func(string) (T, error)) List[T] {
	return newList(kind, text, func(parts []string) (all []T, err error) {
		for _, p := range parts {
			v, err := one(p)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	})
}

func newList[T comparable](kind, text string, parse func([]string) ([]T, error)) List[T] {
	l := List[T]{kind: kind, parse: parse}
	if text == "" {
		return l
	}
	if err := l.Set(text); err != nil {
		panic(err) // unreachable: the defaults of flags are constants
	}
	return l
}

// Numbers returns a list of integers.
func Numbers(usual string) List[int] {
	return ListOf("numbers", usual, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			err = fmt.Errorf("%.40q is not a whole number: give some such as 16,512", text)
		}
		return n, err
	})
}

// Floats returns a list of numbers.
func Floats(usual string) List[float64] {
	return ListOf("numbers", usual, func(text string) (float64, error) {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			err = fmt.Errorf("%.40q is not a number", text)
		}
		return x, err
	})
}

// Durations returns a list of times.
func Durations(usual string) List[time.Duration] { return newList("durations", usual, parseDurations) }

// parseDurations parses times. A number without a unit has that of the next one with a unit: 0,50,100ms.
func parseDurations(parts []string) ([]time.Duration, error) {
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
