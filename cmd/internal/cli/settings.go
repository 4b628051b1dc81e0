package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Variable returns the environment variable of a flag.
func (d FlagDecl) Variable() string {
	return "PILOTFISH_" + strings.ToUpper(strings.ReplaceAll(d.Name, "-", "_"))
}

// Settings returns the flags that an environment variable or the user's configuration file can set as well. Each comes
// after those that it needs.
func Settings() (all []FlagDecl) {
	for _, d := range Declarations() {
		if d.Env && d.Name != "config" {
			all = append(all, d)
		}
	}
	return all
}

// Configured reports whether settings apply to the command with this name.
func Configured(name string) bool { return slices.Contains([]string{"run", "chat", "serve"}, name) }

// configVariable is the environment variable with the name of the configuration file.
const configVariable = "PILOTFISH_CONFIG"

func addSettingSources(a *App, root *cobra.Command) {
	for _, c := range root.Commands() {
		if !Configured(c.Name()) {
			continue
		}
		var file string
		addConfigFlag(c.Flags(), &file)
		for _, s := range Settings() {
			if flag := c.Flags().Lookup(s.Name); flag != nil {
				flag.Usage += " [" + s.Variable() + "]"
			}
		}
		before := c.PreRunE
		c.PreRunE = func(c *cobra.Command, args []string) error {
			if before != nil {
				if err := before(c, args); err != nil {
					return err
				}
			}
			return a.applySettings(c.Flags(), file)
		}
	}
}

func addConfigFlag(f *pflag.FlagSet, file *string) { Add(f, "config", file, "") }

// Given is the value of a setting and its source.
type Given struct {
	value string
	from  string // for messages
	file  bool
}

func (a *App) readSettings(file string, named bool) (all map[string]Given, path string, err error) {
	path, must := file, named
	if !named {
		path = a.Env(configVariable)
		must = path != ""
	}
	all = map[string]Given{}
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			a.readEnvironment(all)
			return all, "", nil
		}
		path = filepath.Join(dir, "pilotfish", "config.yaml")
	}
	b, err := ReadConfigBytes(path)
	if err == nil {
		err = a.ParseSettings(path, b, all)
	} else if errors.Is(err, fs.ErrNotExist) && !must {
		err = nil
	}
	if err != nil {
		return nil, path, Usagef("read the configuration: %w", err)
	}
	a.readEnvironment(all)
	return all, path, nil
}

// readEnvironment overrides the settings of the file by those of the environment. An empty variable counts as unset.
func (a *App) readEnvironment(all map[string]Given) {
	for _, s := range Settings() {
		if value := a.Env(s.Variable()); value != "" {
			all[s.Name] = Given{value: value, from: s.Variable()}
		}
	}
	if g, ok := all["token-file"]; ok && g.file && a.Env(TokenVariable) != "" {
		delete(all, "token-file") // the token itself has higher priority
	}
}

func (a *App) settingFlags() *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, c := range a.Program.Commands(a) {
		if Configured(c.Name()) {
			all.AddFlagSet(c.Flags())
		}
	}
	return all
}

// ParseSettings parses a configuration file.
func (a *App) ParseSettings(name string, b []byte, all map[string]Given) error {
	known := a.settingFlags()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	var names []string
	for _, s := range Settings() {
		if f := known.Lookup(s.Name); f != nil {
			flags.AddFlag(f)
			names = append(names, s.Name)
		}
	}
	c := &ConfigFile{Name: name, Flags: flags, Names: strings.Join(names, ", ")}
	err := c.Parse(b)
	for _, v := range c.Values {
		all[v.Flag] = Given{value: v.Values[0], from: fmt.Sprintf("%s:%d", name, v.Line), file: true}
	}
	return err
}

func (a *App) applySettings(f *pflag.FlagSet, file string) error {
	all, _, err := a.readSettings(file, f.Changed("config"))
	if err != nil {
		return err
	}
	a.Settled = map[string]string{}
	line := map[string]bool{} // given on the command line
	f.Visit(func(flag *pflag.Flag) { line[flag.Name] = true })
	for _, s := range Settings() {
		g, ok := all[s.Name]
		if !ok || line[s.Name] || f.Lookup(s.Name) == nil || unmetNeed(f, s) != "" {
			continue
		}
		if by, contradicts := s.overrulingFlag(f, g, all, line); by != "" {
			if contradicts && by != "local" { // which means whatever else is set
				fmt.Fprintf(a.Stderr, "%s: no effect with --%s\n", g.from, by)
			}
			continue
		}
		if err := f.Set(s.Name, g.value); err != nil {
			return Usagef("%s: %w", g.from, FlagFault(err)) // a file was checked when it was read
		}
		a.Settled[s.Name] = g.from
	}
	return nil
}

// overrulingFlag returns the flag beside which a setting has no effect, or that it contradicts and that is nearer: on
// the command line, or from the environment if the setting is from the file.
func (d FlagDecl) overrulingFlag(
	f *pflag.FlagSet, g Given, all map[string]Given, line map[string]bool,
) (by string, contradicts bool) {
	f.VisitAll(func(other *pflag.Flag) {
		value := other.Value.String()
		if o, ok := all[other.Name]; !line[other.Name] && !(ok && g.file && !o.file) {
			return
		} else if !line[other.Name] {
			value = o.value
		}
		e := DeclarationOf(other)
		excluded := conditionsInclude(d.Excludes, e.Name, value) || conditionsInclude(e.Excludes, d.Name, g.value)
		if value != "false" && (excluded || conditionsInclude(d.Unless, e.Name, value)) {
			by, contradicts = other.Name, contradicts || excluded
		}
	})
	return by, contradicts
}

// conditionsInclude reports whether conditions, each as NAME or NAME=VALUE, include a flag with this value.
func conditionsInclude(conditions, flag, value string) bool {
	all := strings.Fields(conditions)
	return slices.Contains(all, flag) || slices.Contains(all, flag+"="+value)
}

// settingOrigins returns the sources of those flags in a message that were not on the command line; "" if there are
// none.
func (a *App) settingOrigins(message string) string {
	var all []string
	for _, s := range Settings() {
		named := regexp.MustCompile("--" + s.Name + "([^a-z-]|$)").MatchString
		if from := a.Settled[s.Name]; from != "" && named(message) {
			all = append(all, fmt.Sprintf("--%s is from %s", s.Name, from))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// NewConfigCommand returns the command that shows the settings.
func NewConfigCommand(a *App) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:                   "config [--config FILE]",
		DisableFlagsInUseLine: true,
		Short:                 "Show the settings from the environment and the configuration file",
		Long: `Show the settings from the environment and the configuration file, and where each comes from.

A flag on the command line overrides its environment variable, which overrides the file, which overrides the default.
The file is YAML with the names of flags:

  model: Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0
  cloud: gpu.example.org:4433
  pin: 9f86…
  temp: 0.7

The settings apply to the commands that answer questions: chat, run and serve. Settings for a gateway or a temperature
are ignored if there is none, and so are those that contradict a setting of higher priority. Do not put secrets into the
file: the access token belongs in ` + TokenVariable + `, or in the file that token-file names.`,
		Example: "  pilotfish config",
		Args:    NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, path, err := a.readSettings(file, c.Flags().Changed("config"))
			if err != nil {
				return err
			}
			return a.printSettings(all, path)
		},
	}
	addConfigFlag(c.Flags(), &file)
	return c
}

func (a *App) printSettings(all map[string]Given, path string) error {
	state := ""
	if _, err := os.Stat(path); err != nil {
		state = ", which does not exist"
	}
	fmt.Fprintf(a.Stderr, "configuration file: %s%s\n", path, state)
	flags := a.settingFlags()
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tFROM\tVARIABLE")
	for _, s := range Settings() {
		value, from := flags.Lookup(s.Name).DefValue, "default"
		if g, ok := all[s.Name]; ok {
			value, from = g.value, g.from
			if err := flags.Set(s.Name, value); err != nil {
				return Usagef("%s: %w", from, FlagFault(err))
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, value, from, s.Variable())
	}
	return w.Flush()
}

// DefaultMaxTokens is the default limit of an answer, in tokens, also on the chat page.
const DefaultMaxTokens = 1024
