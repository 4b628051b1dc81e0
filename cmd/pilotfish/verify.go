package main

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// The ends of the ranges of --ahead and --verify-every.
const (
	maxAhead = 64

	defaultVerifyEvery = 64
)

// margin is the dial of verification: off, or by how many nats the large model must like its own token better.
type margin struct {
	on   bool
	nats float64
}

// String implements pflag.Value.
func (m *margin) String() string {
	if !m.on {
		return "off"
	}
	return strconv.FormatFloat(m.nats, 'f', -1, 64)
}

// Set implements pflag.Value.
func (m *margin) Set(s string) error {
	if s == "off" {
		*m = margin{}
		return nil
	}
	nats, err := outcome.ParseMargin(s)
	if err != nil {
		return errors.New("give off, or a margin in nats as a decimal number, 0 or more, such as 0.5")
	}
	*m = margin{true, nats}
	return nil
}

// Type implements pflag.Value.
func (m *margin) Type() string { return "margin" }

// verifyFlags are those of a single run.
type verifyFlags struct {
	verify margin
	show   bool
	price  priceFlag
}

func (v *verifyFlags) register(f *pflag.FlagSet) {
	addValue(f, "verify", &v.verify)
	add(f, "show-unverified", &v.show, false)
	v.price.register(f)
}

// check refuses to show what cannot be taken back.
func (v *verifyFlags) check(json, terminal bool) error {
	if v.show && !json && !terminal {
		return usagef("--show-unverified needs a terminal, where what was shown can be erased: what a file or a pipe " +
			"has been given cannot be taken back. Leave it out, or give --json, which tells of each change")
	}
	return nil
}

// options sets what the flags say of drafting.
func (v *verifyFlags) options(o *engine.DraftOptions) {
	o.Verify, o.Margin, o.Preview = v.verify.on, v.verify.nats, v.show
	if !o.Verify {
		o.VerifyEvery = 0
	}
}
