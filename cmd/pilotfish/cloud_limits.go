package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// limitFlags are the limits and timeouts of a gateway. Their values are above 0, and 0 stands for a flag that was
// not given; only --ahead-limit may be 0.
type limitFlags struct {
	o            engine.GatewayOptions
	dictionaries []string
	set          *pflag.FlagSet
}

func (l *limitFlags) register(f *pflag.FlagSet) {
	l.set = f
	number := func(v *int, name, def, usage string) {
		f.IntVar(v, name, 0, usage)
		f.Lookup(name).DefValue = def // cobra shows it
	}
	duration := func(v *time.Duration, name string, def time.Duration, usage string) {
		f.DurationVar(v, name, def, usage)
	}
	number(&l.o.MaxContext, "max-context", "--ctx", "maximum context that a device may send, in `tokens`")
	number(&l.o.MaxConns, "max-connections", "8192",
		"maximum open connections of all devices; beyond that, idle ones are closed")
	number(&l.o.MaxConnsPerAddress, "max-connections-per-address", "half of all",
		"maximum open connections of one IPv4 address or IPv6 /64")
	number(&l.o.MaxConnsPerDevice, "max-connections-per-device", "8", "maximum open connections of one device")
	number(&l.o.MaxAsks, "max-questions", "4096", "maximum open questions of all devices; beyond that, only "+
		"devices with few are served")
	number(&l.o.MaxAsksPerDevice, "max-questions-per-device", "256", "maximum open questions of one device")
	number(&l.o.MaxStreams, "max-questions-per-connection", "128", "maximum open questions of one connection")
	number(&l.o.MaxSessions, "max-sessions", "65536", "maximum texts of all devices kept in memory")
	number(&l.o.MaxSessionsPerDevice, "max-sessions-per-device", "64", "maximum texts of one device kept in memory")
	number(&l.o.MaxTokens, "max-session-tokens", "16777216", "maximum `tokens` of all texts kept in memory, 12 "+
		"bytes each")
	number(&l.o.MaxSessionTokens, "max-tokens-per-session", "4 contexts",
		"maximum `tokens` of one text and its drafts kept in memory")
	f.Float64Var(&l.o.DeviceRate, "device-rate", 0,
		"maximum questions per second of one device; on an open gateway, of one address")
	f.Lookup("device-rate").DefValue = "no limit"
	number(&l.o.DeviceBurst, "device-burst", "2 seconds' worth", "questions allowed at once under --device-rate")
	f.IntVar(&l.o.MaxAhead, "ahead-limit", 16, fmt.Sprintf("maximum `tokens` beyond the one asked for that "+
		"are decoded for a question while the model is idle, 0 to %d", netproto.MaxAhead))
	duration(&l.o.SessionIdle, "session-idle", 15*time.Minute, "time after which an unused text is dropped from memory")
	duration(&l.o.IdleTimeout, "idle-timeout", 30*time.Second, "time after which a silent connection is closed")
	duration(&l.o.MessageTimeout, "message-timeout", 5*time.Second, "maximum time for a message to arrive "+
		"completely, or to be accepted")
	duration(&l.o.AskTimeout, "question-timeout", time.Minute, "maximum time for an answer, whatever deadline the "+
		"device gives")
	duration(&l.o.DrainTimeout, "drain-timeout", 10*time.Second,
		"time for open questions to finish when the gateway shuts down")
	registerDictionaries(f, &l.dictionaries)
}

// options returns the options, once all flags are known to be right.
func (l *limitFlags) options() (o engine.GatewayOptions, err error) {
	l.set.Visit(func(f *pflag.Flag) {
		v := f.Value.String()
		if d, bad := time.ParseDuration(v); f.Value.Type() == "duration" && bad == nil && d <= 0 && err == nil {
			err = usagef("--%s %s: give a time above 0", f.Name, v)
		}
		x, bad := strconv.ParseFloat(v, 64)
		if l.isLimit(f.Name) && bad == nil && !(x > 0 && x <= 1e9) && err == nil {
			err = usagef("--%s %s: give a number from 1 to 1000000000", f.Name, v)
		}
	})
	if err != nil {
		return o, err
	}
	if n := l.o.MaxAhead; n < 0 || n > netproto.MaxAhead {
		return o, usagef("--ahead-limit %d: give a number from 0 to %d", n, netproto.MaxAhead)
	}
	if l.set.Changed("device-burst") && !l.set.Changed("device-rate") {
		return o, usagef("--device-burst needs --device-rate")
	}
	o = l.o
	if o.MaxAhead == 0 {
		o.MaxAhead = -1 // none; 0 would mean the default
	}
	o.Dictionaries, err = readDictionaries(l.dictionaries)
	return o, err
}

func (l *limitFlags) isLimit(flag string) bool {
	return strings.HasPrefix(flag, "max-") || strings.HasPrefix(flag, "device-")
}

// registerDictionaries adds the flag for dictionaries, which a device and its gateway must both have.
func registerDictionaries(f *pflag.FlagSet, all *[]string) {
	f.StringArrayVar(all, "dictionary", nil,
		"zstd dictionary of token ids that makes questions shorter, as `NUMBER:FILE`; device and "+
			"gateway must both have it; may be repeated, best first")
}

// readDictionaries reads dictionaries, each written as NUMBER:FILE.
func readDictionaries(all []string) (read []netproto.Dictionary, err error) {
	for _, one := range all {
		number, path, ok := strings.Cut(one, ":")
		id, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil || id == 0 || path == "" {
			return nil, usagef("--dictionary %q: write NUMBER:FILE, with the number that the dictionary has inside",
				one)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--dictionary: %w", err)
		}
		read = append(read, netproto.Dictionary{ID: uint32(id), Bytes: b})
	}
	return read, nil
}
