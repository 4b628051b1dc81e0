package cloud

import (
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// reloader reloads settings that may change while a gateway serves: access tokens, certificate, ticket keys and the
// level of the log.
type reloader struct {
	f      *cloudCommandFlags // from the start of the gateway
	g      *engine.Gateway
	listen net.Addr
	open   bool // it started without access tokens
	log    *slog.Logger
	level  *slog.LevelVar
}

// watchSettings reloads after each SIGHUP, and creates new ticket keys when they are due. The result stops it.
func (r *reloader) watchSettings(hangups <-chan os.Signal) (stop func()) {
	return runInBackground(time.Hour, r.renewTicketKeys, hangups, r.reloadSettings)
}

func (r *reloader) reloadSettings() {
	next, o, err := r.readSettings()
	if err == nil {
		err = r.applySettings(next, o)
	}
	if err != nil {
		r.log.Error("not reloaded: all settings are unchanged", "error", err)
		return
	}
	r.log.Info("reloaded", "tokens", len(o.Tokens), "ticket_keys", len(o.TicketKeys),
		"certificate", r.g.Fingerprint().String())
	for _, name := range changedFlags(r.f.operate.set, next.operate.set) {
		r.log.Warn("this has changed and needs a restart", "flag", "--"+name)
	}
}

// readSettings reads flags and files like a start, but creates nothing.
func (r *reloader) readSettings() (next *cloudCommandFlags, o engine.GatewayOptions, err error) {
	c, next := newCloudCommand(&cli.App{})
	for name, values := range r.f.operate.given {
		if err := setFlag(c.Flags(), c.Flags().Lookup(name), values); err != nil {
			return nil, o, err
		}
	}
	if err = next.loadSettings(c.Flags()); err != nil {
		return nil, o, err
	}
	next.access.dry = true
	if err = cli.CheckFlags(c.Flags()); err == nil {
		_, err = next.setCredentials(&o, r.listen)
	}
	return next, o, err
}

// applySettings changes the gateway. The steps that can fail come first, so that an error changes nothing.
func (r *reloader) applySettings(next *cloudCommandFlags, o engine.GatewayOptions) error {
	if len(o.Tokens) > 0 || !r.open {
		if err := r.g.SetTokens(o.Tokens); err != nil {
			return err
		}
	}
	err := error(nil)
	if len(o.Certificate.Certificate) > 0 {
		err = r.g.SetCertificate(o.Certificate)
	}
	if err == nil && len(o.TicketKeys) > 0 {
		err = r.g.SetTicketKeys(o.TicketKeys)
	}
	if err != nil {
		return err
	}
	r.level.Set(cli.ParseLevel(next.operate.level))
	return nil
}

// renewTicketKeys creates a new ticket key if the gateway manages its own keys and the newest is a day old.
func (r *reloader) renewTicketKeys(now time.Time) {
	if r.f.operate.tickets != "" {
		return
	}
	keys, err := r.f.loadTicketKeys(now)
	if err == nil && len(keys) > 0 {
		err = r.g.SetTicketKeys(keys)
	}
	if err != nil {
		r.log.Error("no new ticket key", "error", err)
	}
}

// changedFlags leaves out the flags that take effect without a restart.
func changedFlags(a, b *pflag.FlagSet) (names []string) {
	live := []string{"token-file", "cert", "key", "ticket-key-file", "log-level"}
	a.VisitAll(func(f *pflag.Flag) {
		other := b.Lookup(f.Name) // nil for --help
		if other == nil || slices.Equal(flagValues(f), flagValues(other)) {
			return
		}
		if !slices.Contains(live, f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}
