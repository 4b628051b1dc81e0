package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// maxThreads is the largest --threads.
const maxThreads = engine.MostThreads

// modelFlags are the flags of every command that runs a model.
type modelFlags struct {
	path    string
	threads int
	context int
	kv      string
	backend string
	exact   bool
	huge    string
}

// register adds the flags of a command that needs a model.
func (m *modelFlags) register(c *cobra.Command) {
	m.registerOptional(c)
	cobra.CheckErr(c.MarkFlagRequired("model"))
}

// registerOptional is for commands that can do without a model.
func (m *modelFlags) registerOptional(c *cobra.Command) {
	m.registerServed(c.Flags())
	add(c.Flags(), "exact", &m.exact, false)
}

// registerServed leaves out the flag for checking others.
func (m *modelFlags) registerServed(p *pflag.FlagSet) {
	m.registerWhole(p)
	add(p, "ctx", &m.context, 0)
	add(p, "huge-pages", &m.huge, "auto")
}

// registerWithoutContext is for commands that are given the whole text, and read the weights once.
func (m *modelFlags) registerWithoutContext(c *cobra.Command) {
	m.huge = string(engine.HugeOff)
	m.registerWhole(c.Flags())
	add(c.Flags(), "exact", &m.exact, false)
	cobra.CheckErr(c.MarkFlagRequired("model"))
}

func (m *modelFlags) registerWhole(p *pflag.FlagSet) {
	add(p, "model", &m.path, "")
	add(p, "threads", &m.threads, 0)
	add(p, "kv", &m.kv, "auto")
	add(p, "backend", &m.backend, string(engine.CPU))
}

// options are those of the engine. Wrong values are wrong usage.
func (m *modelFlags) options() (o engine.Options, err error) {
	switch {
	case m.exact && m.backend != string(engine.CPU):
		return o, usagef("--exact computes on the CPU: leave out --backend %s", m.backend)
	case m.exact && m.kv == string(engine.KVF16):
		return o, usagef("--exact keeps keys and values in float32: leave out --kv f16")
	}
	o = engine.Options{Threads: m.threads, Context: m.context, Exact: m.exact}
	if o.KV, err = parseKV(m.kv); err != nil {
		return o, err
	}
	if o.Backend, err = parseBackend(m.backend); err != nil {
		return o, err
	}
	o.HugePages, err = parseHugePages(m.huge, o.Backend)
	return o, err
}

// open opens the model. Wrong values are wrong usage, a bad file is a failure.
func (m *modelFlags) open() (*engine.Engine, error) {
	o, err := m.options()
	if err != nil {
		return nil, err
	}
	return engine.Open(m.path, o)
}

// compute is what was asked for that can change the last bits of what the model computes; "" where it is as usual.
func (m *modelFlags) compute() string {
	var said []string
	for _, v := range []struct{ name, value, usual string }{
		{"backend", m.backend, string(engine.CPU)}, {"kv", m.kv, "auto"},
		{"exact", strconv.FormatBool(m.exact), "false"},
	} {
		if v.value != v.usual {
			said = append(said, v.name+" "+v.value)
		}
	}
	return strings.Join(said, ", ")
}

// preload brings the weights into memory with a bar for somebody who watches.
// Otherwise they come when they are first used.
func (a *app) preload(ctx context.Context, e *engine.Engine) error {
	if !isTerminal(a.stderr) {
		return nil
	}
	m := newMeter(a.stderr, "load", inBytes)
	m.quiet = 300 * time.Millisecond // weights that are in the page cache are there sooner
	defer m.close()
	return e.File().Preload(ctx, m.show)
}

func parseKV(name string) (engine.KVType, error) {
	switch name {
	case "auto":
		return engine.KVAuto, nil
	case "f16", "f32":
		return engine.KVType(name), nil
	}
	return "", usagef("--kv %s is not a type of keys and values: choose auto, f16 or f32", name)
}

func parseHugePages(name string, where engine.Backend) (engine.HugePages, error) {
	switch {
	case name == "on" && where != engine.CPU:
		return "", usagef("--huge-pages on is for the backend cpu, %s maps the file: leave one of them out", where)
	case name == "auto":
		return engine.HugeAuto, nil
	case name == "on" || name == "off":
		return engine.HugePages(name), nil
	}
	return "", usagef("--huge-pages %.40q is not known: choose auto, off or on", name)
}

func parseBackend(name string) (engine.Backend, error) {
	b, err := engine.ParseBackend(name)
	if err != nil {
		return "", usagef("--backend %.40s is not a backend: choose cpu, metal, soft or soft:VARIANT[:SEED], "+
			"where a variant is fast, fastmath, check or ubsan", name)
	}
	return b, nil
}

// parseIDs reads token ids separated by commas.
func parseIDs(list string) ([]int32, error) {
	var ids []int32
	for field := range strings.SplitSeq(list, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || id < 0 {
			return nil, usagef("--tokens: %.40q is not a token id: give numbers such as 1,2,3", field)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
