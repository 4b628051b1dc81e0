package main

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
	"go.yaml.in/yaml/v3"
)

// variable is the environment variable of a flag.
func (d flagDecl) variable() string {
	return "PILOTFISH_" + strings.ToUpper(strings.ReplaceAll(d.name, "-", "_"))
}

// settings are the flags that an environment variable or the user's configuration file sets as well, each after those
// that it needs.
func settings() (all []flagDecl) {
	for _, d := range append(slices.Clone(flagTable), numberDecls()...) {
		if d.env && d.name != "config" {
			all = append(all, d)
		}
	}
	return all
}

// configured reports whether settings are for the command of this name.
func configured(name string) bool { return slices.Contains([]string{"run", "chat", "serve"}, name) }

// configVariable is the environment variable with the name of the configuration file.
const configVariable = "PILOTFISH_CONFIG"

// addSettings has the commands that answer questions take settings from the environment and from the configuration
// file.
func addSettings(a *app, root *cobra.Command) {
	for _, c := range root.Commands() {
		if !configured(c.Name()) {
			continue
		}
		var file string
		registerConfig(c.Flags(), &file)
		for _, s := range settings() {
			if flag := c.Flags().Lookup(s.name); flag != nil {
				flag.Usage += " [" + s.variable() + "]"
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

func registerConfig(f *pflag.FlagSet, file *string) { add(f, "config", file, "") }

// given is the value of a setting, and where it is from.
type given struct {
	value string
	from  string // for people
	file  bool
}

// readSettings returns what the environment and the configuration file say, by flag, and the path of that file.
func (a *app) readSettings(file string, named bool) (all map[string]given, path string, err error) {
	path, must := file, named
	if !named {
		path = a.env(configVariable)
		must = path != ""
	}
	all = map[string]given{}
	if path == "" {
		if named {
			return nil, "", usagef("--config names no file: give one, or leave it out")
		}
		dir, err := os.UserConfigDir()
		if err != nil {
			return all, "", a.readEnvironment(all)
		}
		path = filepath.Join(dir, "pilotfish", "config.yaml")
	}
	b, err := readConfigBytes(path)
	if err == nil {
		err = a.parseSettings(path, b, all)
	} else if errors.Is(err, fs.ErrNotExist) && !must {
		err = nil
	}
	if err != nil {
		return nil, path, usagef("read the configuration: %w", err)
	}
	return all, path, a.readEnvironment(all)
}

// readEnvironment puts what the environment says over what the file says. An empty variable counts as none.
func (a *app) readEnvironment(all map[string]given) error {
	flags := a.settingFlags()
	for _, s := range settings() {
		value := a.env(s.variable())
		if value == "" {
			continue
		}
		if err := flags.Set(s.name, value); err != nil {
			return usagef("the environment variable %s: %w", s.variable(), flagFault(err))
		}
		all[s.name] = given{value: value, from: s.variable()}
	}
	if g, ok := all["token-file"]; ok && g.file && a.env(tokenVariable) != "" {
		delete(all, "token-file") // the token itself is nearer
	}
	return nil
}

// settingFlags are new flags that take every setting.
func (a *app) settingFlags() *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, c := range a.commands(a) {
		if configured(c.Name()) {
			all.AddFlagSet(c.Flags())
		}
	}
	return all
}

// parseSettings reads a configuration file.
func (a *app) parseSettings(name string, b []byte, all map[string]given) error {
	known := a.settingFlags()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	var names []string
	for _, s := range settings() {
		if f := known.Lookup(s.name); f != nil {
			flags.AddFlag(f)
			names = append(names, s.name)
		}
	}
	c := &configFile{name: name, flags: flags, names: strings.Join(names, ", ")}
	root, err := c.document(b)
	if root == nil || err != nil {
		return err
	}
	err = c.each(root, map[string]int{}, func(key, value *yaml.Node) error { return c.readFlag(key, value) })
	for _, v := range c.values {
		all[v.flag] = given{value: v.values[0], from: fmt.Sprintf("%s:%d", name, v.line), file: true}
	}
	return err
}

// applySettings sets the flags that the command line leaves alone.
func (a *app) applySettings(f *pflag.FlagSet, file string) error {
	all, _, err := a.readSettings(file, f.Changed("config"))
	if err != nil {
		return err
	}
	a.settled = map[string]string{}
	line := map[string]bool{} // given on the command line
	f.Visit(func(flag *pflag.Flag) { line[flag.Name] = true })
	local := f.Lookup("mode") != nil && f.Lookup("mode").Value.String() == "local" ||
		f.Lookup("local") != nil && f.Lookup("local").Value.String() == "true"
	for _, s := range settings() {
		g, ok := all[s.name]
		if !ok || line[s.name] || f.Lookup(s.name) == nil || local && (s.name == "cloud" || s.needs == "cloud") {
			continue
		}
		if s.needs != "" && !f.Changed(s.needs) || s.needs == "temp" && f.Lookup("temp").Value.String() == "0" {
			continue
		}
		nearer := func(name string) bool { o, ok := all[name]; return line[name] || g.file && ok && !o.file }
		learned := s.name == "router" && f.Lookup("policy").Value.String() == "learned"
		if slices.ContainsFunc(strings.Fields(s.unless), nearer) && !learned {
			continue
		}
		if err := f.Set(s.name, g.value); err != nil {
			return usagef("%s: %w", g.from, flagFault(err))
		}
		a.settled[s.name] = g.from
	}
	if model := f.Lookup("model"); model != nil && !model.Changed {
		return usagef("there is no model: name a file or a downloaded model with -m, in %s, or as \"model\" in the "+
			"configuration file", declarationOf("model").variable())
	}
	return nil
}

// origin says of the flags in a message that were not on the command line where they are from; "" where all were.
func (a *app) origin(message string) string {
	var all []string
	for _, s := range settings() {
		named := regexp.MustCompile("--" + s.name + "([^a-z-]|$)").MatchString
		if from := a.settled[s.name]; from != "" && named(message) {
			all = append(all, fmt.Sprintf("--%s is from %s", s.name, from))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// newConfigCommand shows the settings.
func newConfigCommand(a *app) *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:                   "config [--config FILE] [--json]",
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
file: the access token belongs in ` + tokenVariable + `, or in the file that token-file names.`,
		Example: "  pilotfish config",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, path, err := a.readSettings(file, c.Flags().Changed("config"))
			if err != nil {
				return err
			}
			return a.showSettings(all, path, asJSON)
		},
	}
	registerConfig(c.Flags(), &file)
	add(c.Flags(), "json", &asJSON, false)
	return c
}

// shownSetting is a line of config --json.
type shownSetting struct {
	Setting  string `json:"setting"`
	Variable string `json:"variable"`
	Value    string `json:"value"`
	From     string `json:"from"` // "default", the variable, or FILE:LINE
}

func (a *app) showSettings(all map[string]given, path string, asJSON bool) error {
	flags := a.settingFlags()
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if !asJSON {
		state := ""
		if _, err := os.Stat(path); err != nil {
			state = ", which does not exist"
		}
		fmt.Fprintf(a.stderr, "configuration file: %s%s\n", path, state)
		fmt.Fprintln(w, "SETTING\tVALUE\tFROM\tVARIABLE")
	}
	for _, s := range settings() {
		line := shownSetting{s.name, s.variable(), flags.Lookup(s.name).DefValue, "default"}
		if s.name == "max-tokens" {
			line.Value = fmt.Sprintf("%d, chat: %d", defaultMaxTokens, defaultChatTokens)
		}
		if g, ok := all[s.name]; ok {
			line.Value, line.From = g.value, g.from
		}
		if asJSON {
			if err := a.printJSON(line); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", line.Setting, line.Value, line.From, line.Variable)
	}
	return w.Flush()
}

// defaultChatTokens is the longest answer of a chat where nothing else is said.
const defaultChatTokens = 1024

// defaultMaxTokens is the longest answer where nothing else is said.
const defaultMaxTokens = 256
