package cloud

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// limitFlags has the limits and timeouts of a gateway and its model. 0 means that a flag was not given.
type limitFlags struct {
	o    engine.GatewayOptions
	rows int
	set  *cli.OptionsFlag
}

func (l *limitFlags) registerFlags(f *pflag.FlagSet) {
	l.set = cli.AddOptions(f, "limit")
	for _, n := range []struct {
		name  string
		to    *int
		usual string
	}{
		{"prompt", &l.o.MaxContext, "--ctx"}, {"memory", &l.o.MaxTokens, "16777216"},
		{"sessions", &l.o.MaxSessions, "65536"}, {"devices", &l.o.MaxConns, "8192"},
		{"questions", &l.o.MaxAsks, "4096"}, {"rows", &l.rows, "0"},
	} {
		cli.Add(l.set.FlagSet, "limit."+n.name, n.to, 0)
		l.set.Lookup(n.name).DefValue = n.usual
	}
	cli.Add(l.set.FlagSet, "limit.rate", &l.o.DeviceRate, 0)
	l.set.Lookup("rate").DefValue = "no limit"
	cli.Add(l.set.FlagSet, "limit.idle", &l.o.IdleTimeout, 30*time.Second)
	cli.Add(l.set.FlagSet, "limit.handshake", &l.o.MessageTimeout, 5*time.Second)
	cli.Add(l.set.FlagSet, "limit.total", &l.o.AskTimeout, time.Minute)
}
