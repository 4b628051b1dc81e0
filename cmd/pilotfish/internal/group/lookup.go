package group

import (
	"errors"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// LookupRows is the value of --lookup in the form of the engine: 0 for auto, negative for off, or the maximum number of
// rows.
type LookupRows int

// Values of --lookup that are not numbers.
const (
	LookupAuto LookupRows = 0
	LookupOff  LookupRows = -1
)

// String implements pflag.Value.
func (l *LookupRows) String() string {
	switch *l {
	case LookupAuto:
		return "auto"
	case LookupOff:
		return "off"
	}
	return strconv.Itoa(int(*l))
}

// Set implements pflag.Value.
func (l *LookupRows) Set(s string) error {
	switch s {
	case "auto":
		*l = LookupAuto
		return nil
	case "off":
		*l = LookupOff
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 2 || n > engine.MostLookup {
		return errors.New("give auto, off, or the most tokens in a pass, 2 to 8")
	}
	*l = LookupRows(n)
	return nil
}

// Type implements pflag.Value.
func (l *LookupRows) Type() string { return "auto|off|N" }
