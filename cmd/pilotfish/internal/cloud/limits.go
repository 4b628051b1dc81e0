package cloud

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// limitFlags has the limits and timeouts of a gateway. Values are above 0, and 0 means that a flag was not given; only
// ahead-limit may be 0.
type limitFlags struct {
	o            engine.GatewayOptions
	dictionaries []string
	set          *cli.OptionsFlag
}

func (l *limitFlags) register(f *pflag.FlagSet) {
	l.set = cli.AddOptions(f, "limit")
	for _, n := range []struct {
		name  string
		to    *int
		usual string
	}{
		{"max-context", &l.o.MaxContext, "--ctx"}, {"max-connections", &l.o.MaxConns, "8192"},
		{"max-connections-per-address", &l.o.MaxConnsPerAddress, "half of all"},
		{"max-connections-per-device", &l.o.MaxConnsPerDevice, "8"}, {"max-questions", &l.o.MaxAsks, "4096"},
		{"max-questions-per-device", &l.o.MaxAsksPerDevice, "256"},
		{"max-questions-per-connection", &l.o.MaxStreams, "128"}, {"max-sessions", &l.o.MaxSessions, "65536"},
		{"max-sessions-per-device", &l.o.MaxSessionsPerDevice, "64"},
		{"max-session-tokens", &l.o.MaxTokens, "16777216"},
		{"max-tokens-per-session", &l.o.MaxSessionTokens, "4 contexts"},
		{"device-burst", &l.o.DeviceBurst, "2 seconds' worth"},
	} {
		cli.Add(l.set.FlagSet, "limit."+n.name, n.to, 0)
		l.set.Lookup(n.name).DefValue = n.usual
	}
	cli.Add(l.set.FlagSet, "limit.device-rate", &l.o.DeviceRate, 0)
	l.set.Lookup("device-rate").DefValue = "no limit"
	cli.Add(l.set.FlagSet, "limit.ahead-limit", &l.o.MaxAhead, netproto.MaxAhead)
	cli.Add(l.set.FlagSet, "limit.session-idle", &l.o.SessionIdle, 15*time.Minute)
	cli.Add(l.set.FlagSet, "limit.idle-timeout", &l.o.IdleTimeout, 30*time.Second)
	cli.Add(l.set.FlagSet, "limit.message-timeout", &l.o.MessageTimeout, 5*time.Second)
	cli.Add(l.set.FlagSet, "limit.question-timeout", &l.o.AskTimeout, time.Minute)
	cli.Add(l.set.FlagSet, "limit.drain", &l.o.DrainTimeout, 10*time.Second)
	cli.Add(f, "dictionary", &l.dictionaries, nil)
}

// options returns the options after checking all flags.
func (l *limitFlags) options() (o engine.GatewayOptions, err error) {
	l.set.VisitAll(func(f *pflag.Flag) {
		v := f.Value.String()
		if !f.Changed {
			return
		}
		if d, bad := time.ParseDuration(v); f.Value.Type() == "duration" && bad == nil && d <= 0 && err == nil {
			err = cli.Usagef("--limit %s=%s: give a time above 0", f.Name, v)
		}
		x, bad := strconv.ParseFloat(v, 64)
		if l.isLimit(f.Name) && bad == nil && !(x > 0 && x <= 1e9) && err == nil {
			err = cli.Usagef("--limit %s=%s: give a number from 1 to 1000000000", f.Name, v)
		}
	})
	if err != nil {
		return o, err
	}
	if n := l.o.MaxAhead; n < 0 || n > netproto.MaxAhead {
		return o, cli.Usagef("--limit ahead-limit=%d: give a number from 0 to %d", n, netproto.MaxAhead)
	}
	if l.set.Changed("device-burst") && !l.set.Changed("device-rate") {
		return o, cli.Usagef("--limit device-burst=N needs device-rate=N")
	}
	o = l.o
	if o.MaxAhead == 0 {
		o.MaxAhead = -1 // none; 0 would mean the default
	}
	o.Dictionaries, err = group.ReadDictionaries(l.dictionaries)
	return o, err
}

func (l *limitFlags) isLimit(flag string) bool {
	return strings.HasPrefix(flag, "max-") || strings.HasPrefix(flag, "device-")
}
