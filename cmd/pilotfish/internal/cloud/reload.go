package cloud

import (
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
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

// watch reloads after each SIGHUP, and creates new ticket keys when they are due. The result stops it.
func (r *reloader) watch(hangups <-chan os.Signal) (stop func()) {
	return inBackground(time.Hour, r.renewTickets, hangups, r.reload)
}

// reload reads all settings, and applies them if all are valid.
func (r *reloader) reload() {
	next, o, err := r.read()
	if err == nil {
		err = r.apply(next, o)
	}
	if err != nil {
		r.log.Error("not reloaded: all settings are unchanged", "error", err)
		return
	}
	r.log.Info("reloaded", "tokens", len(o.Tokens), "ticket_keys", len(o.TicketKeys),
		"certificate", r.g.Fingerprint().String())
	for _, name := range differing(r.f.operate.set, next.operate.set) {
		r.log.Warn("this has changed and needs a restart", "flag", "--"+name)
	}
}

// read reads flags and files like a start, but creates nothing.
func (r *reloader) read() (next *cloudCommandFlags, o engine.GatewayOptions, err error) {
	c, next := cloudCommand(&cli.App{})
	for name, values := range r.f.operate.given {
		if err := setFlag(c.Flags(), c.Flags().Lookup(name), values); err != nil {
			return nil, o, err
		}
	}
	if err = next.load(c.Flags()); err != nil {
		return nil, o, err
	}
	next.access.dry = true
	if err = cli.CheckFlags(c.Flags()); err == nil {
		_, err = next.secure(&o, r.listen)
	}
	return next, o, err
}

// apply changes the gateway. The steps that can fail come first, so that an error changes nothing.
func (r *reloader) apply(next *cloudCommandFlags, o engine.GatewayOptions) error {
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

// renewTickets creates a new ticket key if the gateway manages its own keys and the newest is a day old.
func (r *reloader) renewTickets(now time.Time) {
	if r.f.operate.tickets != "" {
		return
	}
	keys, err := r.f.ticketKeys(now)
	if err == nil && len(keys) > 0 {
		err = r.g.SetTicketKeys(keys)
	}
	if err != nil {
		r.log.Error("no new ticket key", "error", err)
	}
}

// differing returns the names of flags that differ and that require a restart.
func differing(a, b *pflag.FlagSet) (names []string) {
	live := []string{"token-file", "cert", "key", "ticket-key-file", "log-level"}
	a.VisitAll(func(f *pflag.Flag) {
		other := b.Lookup(f.Name) // nil for --help
		if other == nil || slices.Equal(valuesOf(f), valuesOf(other)) {
			return
		}
		if !slices.Contains(live, f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}
