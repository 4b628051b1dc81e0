package main

import (
	"errors"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// lookupRows is the value of --lookup, as the engine takes it: 0 for auto, negative for off, or the most rows.
type lookupRows int

const (
	lookupAuto lookupRows = 0
	lookupOff  lookupRows = -1
)

// String implements pflag.Value.
func (l *lookupRows) String() string {
	switch *l {
	case lookupAuto:
		return "auto"
	case lookupOff:
		return "off"
	}
	return strconv.Itoa(int(*l))
}

// Set implements pflag.Value.
func (l *lookupRows) Set(s string) error {
	switch s {
	case "auto":
		*l = lookupAuto
		return nil
	case "off":
		*l = lookupOff
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 2 || n > engine.MostLookup {
		return errors.New("give auto, off, or the most tokens in a pass, 2 to 8")
	}
	*l = lookupRows(n)
	return nil
}

// Type implements pflag.Value.
func (l *lookupRows) Type() string { return "auto|off|N" }
