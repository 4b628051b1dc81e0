package cloud

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// limitFlags has the limits and timeouts of a gateway. Those that no operator needs to change are constants of the
// package gateway.
type limitFlags struct {
	o   engine.GatewayOptions
	set *cli.OptionsFlag
}

func (l *limitFlags) registerFlags(f *pflag.FlagSet) {
	l.set = cli.AddOptions(f, "limit")
	cli.Add(l.set.FlagSet, "limit.memory", &l.o.MaxTokens, 1<<24)
	cli.Add(l.set.FlagSet, "limit.devices", &l.o.MaxConns, 1<<13)
	cli.Add(l.set.FlagSet, "limit.rate", &l.o.DeviceRate, 0)
	l.set.Lookup("rate").DefValue = "no limit"
	cli.Add(l.set.FlagSet, "limit.idle", &l.o.IdleTimeout, 30*time.Second)
	cli.Add(l.set.FlagSet, "limit.total", &l.o.AskTimeout, time.Minute)
}
