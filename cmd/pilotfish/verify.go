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
	maxAhead       = 64
	maxVerifyEvery = 1024
)

// registerVerification adds the flags that say how far an answer of the cloud reaches: back over tokens that it did not
// choose, and ahead.
func (r *routeFlags) registerVerification(f *pflag.FlagSet) {
	f.IntVar(&r.ahead, "ahead", 1, "number of tokens per answer, 1 to 64: the one asked for, and those that the large "+
		"model goes on to decode while it is idle. This never changes a token")
	f.IntVar(&r.every, "verify-every", 64, "with verification: ask after this many `tokens` that the large model "+
		"has not checked, 1 to 1024")
}

// checkVerification refuses values that are out of range.
func (r *routeFlags) checkVerification() error {
	return errors.Join(
		checkRange("ahead", r.ahead, 1, maxAhead, "1 for the token that is asked for alone, up to 64"),
		checkRange("verify-every", r.every, 1, maxVerifyEvery, "1 to 1024 tokens"),
	)
}

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
	f.Var(&v.verify, "verify", "let the cloud check every token of the small model before it is shown: the "+
		"`margin` in nats "+
		"by which the large model must prefer its own token to replace it, 0 for exactly its own text, or off")
	f.BoolVar(&v.show, "show-unverified", false, "with --verify: show tokens before the cloud has checked them; some "+
		"are replaced later. Only on a terminal, or with --json")
	v.price.register(f)
}

// check refuses flags that have no effect. given says which are on the command line.
func (v *verifyFlags) check(given func(string) bool, json, terminal bool) error {
	if !v.verify.on {
		for _, name := range []string{"verify-every", "show-unverified"} {
			if given(name) {
				return usagef("--%s has no effect without verification: give --verify with a margin, such as "+
					"--verify 0", name)
			}
		}
	}
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
