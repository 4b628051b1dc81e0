package group

import (
	"errors"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Margin is the setting of verification: off, or by how many nats the large model must prefer its own token.
type Margin struct {
	On   bool
	Nats float64
}

// String implements pflag.Value.
func (m *Margin) String() string {
	if !m.On {
		return "off"
	}
	return strconv.FormatFloat(m.Nats, 'f', -1, 64)
}

// Set implements pflag.Value.
func (m *Margin) Set(s string) error {
	if s == "off" {
		*m = Margin{}
		return nil
	}
	nats, err := terms.ParseMargin(s)
	if err != nil {
		return errors.New("give off, or a margin in nats as a decimal number, 0 or more, such as 0.5")
	}
	*m = Margin{true, nats}
	return nil
}

// Type implements pflag.Value.
func (m *Margin) Type() string { return "margin" }
