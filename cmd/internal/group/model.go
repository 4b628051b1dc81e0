// Package group has groups of flags that commands of both programs share, and creates objects from them: a model, a
// gateway, a router.
package group

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// MaxThreads is the maximum of --threads.
const MaxThreads = engine.MostThreads

// ModelFlags has the flags of all commands that run a model.
type ModelFlags struct {
	Path    string
	Large   string // of the commands with [ModelFlags.RegisterLarge]; "": none
	Threads int
	Context int
	// Sessions, if not 0, chooses the default context: see [engine.Options].
	Sessions int
	Kv       string
	Backend  string
	Exact    bool
	huge     string
	notice   func(string) // prints it
}

// Register adds the flags of a command that needs a model.
func (m *ModelFlags) Register(c *cobra.Command) {
	m.RegisterOptional(c)
	cobra.CheckErr(c.MarkFlagRequired("model"))
}

// RegisterOptional adds the flags of a command for which the model is optional.
func (m *ModelFlags) RegisterOptional(c *cobra.Command) {
	m.RegisterServed(c)
	cli.Add(c.Flags(), "exact", &m.Exact, false)
}

// RegisterServed adds the flags of a server, without the one for checking others.
func (m *ModelFlags) RegisterServed(c *cobra.Command) {
	m.registerModelFlags(c)
	cli.Add(c.Flags(), "ctx", &m.Context, 0)
	cli.Add(c.Flags(), "huge-pages", &m.huge, "auto")
}

// RegisterWithoutContext adds the flags of a command that gets the whole text at once, and reads the weights once.
func (m *ModelFlags) RegisterWithoutContext(c *cobra.Command) {
	m.huge = string(engine.HugeOff)
	m.registerModelFlags(c)
	cli.Add(c.Flags(), "exact", &m.Exact, false)
	cobra.CheckErr(c.MarkFlagRequired("model"))
}

func (m *ModelFlags) registerModelFlags(c *cobra.Command) {
	m.notice = func(line string) { c.PrintErrln(line) }
	p := c.Flags()
	cli.Add(p, "model", &m.Path, "")
	cli.Add(p, "threads", &m.Threads, 0)
	cli.Add(p, "kv", &m.Kv, "auto")
	cli.Add(p, "backend", &m.Backend, string(engine.CPU))
}

// RegisterLarge adds the flag of a large model for which the model drafts.
func (m *ModelFlags) RegisterLarge(p *pflag.FlagSet) { cli.Add(p, "large", &m.Large, "") }

// Answers returns the name of the model with which [ModelFlags.Public] answers: the large one, if there is one.
func (m *ModelFlags) Answers() string { return cmp.Or(m.Large, m.Path) }

// Options returns the options of the engine. Wrong values are wrong usage.
func (m *ModelFlags) Options() (o engine.Options, err error) {
	o = engine.Options{Threads: m.Threads, Context: m.Context, Sessions: m.Sessions, Exact: m.Exact,
		KV: ParseKV(m.Kv), Notice: m.notice}
	if o.Backend, err = ParseBackend(m.Backend); err != nil {
		return o, err
	}
	o.HugePages = ParseHugePages(m.huge, o.Backend)
	return o, nil
}

// Public returns the options of the root package, for opening [ModelFlags.Answers].
func (m *ModelFlags) Public() (pilotfish.Options, error) {
	o, err := m.Options()
	public := pilotfish.Options{
		Backend: string(o.Backend), Threads: o.Threads, Context: o.Context, Sessions: o.Sessions, KV: string(o.KV),
		HugePages: string(o.HugePages), Exact: o.Exact, Notice: o.Notice,
	}
	if m.Large != "" {
		public.Drafter = m.Path
	}
	return public, err
}

// Open opens the model. Wrong values are wrong usage, a bad file is a failure.
func (m *ModelFlags) Open() (*engine.Engine, error) {
	o, err := m.Options()
	if err != nil {
		return nil, err
	}
	return engine.Open(m.Path, o)
}

// Embedded opens a model that is a part of the program.
func Embedded(b []byte, name string) (*engine.Engine, error) {
	file, err := gguf.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	return engine.New(file, name, engine.Options{})
}

// Compute returns the settings that can change the last bits of the model's results; "" if they are the defaults.
func (m *ModelFlags) Compute() string {
	var said []string
	for _, v := range []struct{ name, value, usual string }{
		{"backend", m.Backend, string(engine.CPU)}, {"kv", m.Kv, "auto"},
		{"exact", strconv.FormatBool(m.Exact), "false"},
	} {
		if v.value != v.usual {
			said = append(said, v.name+" "+v.value)
		}
	}
	return strings.Join(said, ", ")
}

// Preload reads the weights into memory, with a bar on a terminal. Without it they are read at their first use.
func Preload(ctx context.Context, a *cli.App, f *gguf.File) error {
	if !cli.IsTerminal(a.Stderr) {
		return nil
	}
	m := cli.NewMeter(a.Stderr, "load", true)
	m.Quiet = 300 * time.Millisecond // weights in the page cache take less
	defer m.Close()
	return f.Preload(ctx, m.Show)
}

// ParseKV parses the value of --kv.
func ParseKV(name string) engine.KVType {
	if name == "auto" {
		return engine.KVAuto
	}
	return engine.KVType(name)
}

// ParseHugePages parses the value of --huge-pages, for a model on this backend: others than the CPU map the file.
func ParseHugePages(name string, where engine.Backend) engine.HugePages {
	if name == "auto" || name == "on" && where != engine.CPU {
		return engine.HugeAuto
	}
	return engine.HugePages(name)
}

// ParseBackend parses the value of --backend.
func ParseBackend(name string) (engine.Backend, error) {
	b, err := engine.ParseBackend(name)
	if err != nil {
		return "", cli.Usagef("--backend %.40s is not a backend: choose cpu, metal, soft or soft:check", name)
	}
	return b, nil
}

// ParseIDs parses token ids separated by commas.
func ParseIDs(list string) ([]int32, error) {
	var ids []int32
	for field := range strings.SplitSeq(list, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || id < 0 {
			return nil, cli.Usagef("--tokens: %.40q is not a token id: give numbers such as 1,2,3", field)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
