package cloud

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// cloudVariable is the prefix of the environment variables for flags of `pilotfish cloud`.
const cloudVariable = "PILOTFISH_CLOUD_"

// loadSettings sets the flags that are not on the command line: from the environment, or else from the configuration
// file.
func (f *cloudCommandFlags) loadSettings(set *pflag.FlagSet) error {
	o := &f.operate
	o.given = map[string][]string{}
	set.Visit(func(flag *pflag.Flag) { o.given[flag.Name] = flagValues(flag) })
	if err := o.loadEnvironment(set, os.Environ()); err != nil {
		return err
	}
	if err := f.loadConfigFile(set); err != nil {
		return cli.Usagef("--config %w", err)
	}
	f.access.given = set.Changed("token-file")
	return nil
}

func (f *cloudCommandFlags) loadConfigFile(set *pflag.FlagSet) error {
	o := &f.operate
	if o.config == "" {
		return nil
	}
	_, fresh := newCloudCommand(&cli.App{})
	b, err := cli.ReadConfigBytes(o.config)
	if err != nil {
		return err
	}
	c := &cli.ConfigFile{Name: o.config, Flags: fresh.operate.set,
		Names: "those of the flags in `pilotfish cloud --help`"}
	if err := c.Parse(b); err != nil {
		return err
	}
	for _, v := range c.Values {
		if err := setFlag(set, set.Lookup(v.Flag), v.Values); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", o.config, v.Line, v.Flag, err)
		}
	}
	return nil
}

// loadEnvironment sets flags from variables such as PILOTFISH_CLOUD_LISTEN. An empty variable counts as unset.
func (o *operateFlags) loadEnvironment(set *pflag.FlagSet, all []string) error {
	slices.Sort(all)
	for _, one := range all {
		name, value, _ := strings.Cut(one, "=")
		rest, ours := strings.CutPrefix(name, cloudVariable)
		if !ours || value == "" {
			continue
		}
		flag := set.Lookup(strings.ReplaceAll(strings.ToLower(rest), "_", "-"))
		if flag == nil || flag.Name == "help" || flag.Name == "check-config" {
			o.strange = append(o.strange, name)
			continue
		}
		values := []string{value}
		if cli.IsList(flag) {
			values = strings.Split(value, ",")
		}
		if err := setFlag(set, flag, values); err != nil {
			return cli.Usagef("the environment variable %s: %w", name, err)
		}
	}
	return nil
}

// setFlag sets a flag to its values, unless it is already set. Only a list has more than one value. Of options, it sets
// those that are not set.
func setFlag(set *pflag.FlagSet, flag *pflag.Flag, values []string) error {
	o, options := flag.Value.(*cli.OptionsFlag)
	switch {
	case options:
		values = o.Without(values)
	case flag.Changed:
		return nil
	}
	for _, v := range values {
		if err := set.Set(flag.Name, v); err != nil {
			return cli.FlagFault(err)
		}
	}
	return nil
}

func flagValues(flag *pflag.Flag) []string {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{flag.Value.String()}
}

func (f *cloudCommandFlags) exposedSecrets() (all []string) {
	for _, name := range []string{f.access.file, f.key, f.operate.tickets, f.upstream.Key} {
		if info, err := os.Stat(name); err == nil && readableByOthers(info) {
			all = append(all, name)
		}
	}
	return all
}

func (f *cloudCommandFlags) logWarnings(log *slog.Logger, unkept *notStoredError) {
	if unkept != nil {
		log.Warn("devices will not come back without a round trip after a restart", "error", unkept)
	}
	for _, name := range f.exposedSecrets() {
		log.Warn("other users of this machine can read a file with secrets: chmod 600", "file", name)
	}
	for _, name := range f.operate.strange {
		log.Warn("this environment variable names no flag", "name", name)
	}
}

// checkConfig implements --check-config: it reads everything that a start reads, but creates and opens nothing.
func (f *cloudCommandFlags) checkConfig(a *cli.App) error {
	at, err := net.ResolveUDPAddr("udp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", f.listen, err)
	}
	var o engine.GatewayOptions
	f.access.dry = true
	who, err := f.setCredentials(&o, at)
	if err == nil {
		err = engine.CheckTokens(o.Tokens)
	}
	if err != nil {
		return err
	}
	what, err := f.checkFiles()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.Stdout, "all is right: %s on %s, %s\n", what, at, who.say); err != nil {
		return err
	}
	f.logWarnings(slog.New(slog.NewTextHandler(a.Stderr, nil)), nil)
	return nil
}

func (f *cloudCommandFlags) checkFiles() (what string, err error) {
	if urls := f.upstream.O.URLs; len(urls) > 0 {
		_, err := engine.ReadTokenizer(f.upstream.Tokenizer)
		return fmt.Sprintf("%d engines", len(urls)), err
	}
	e, err := f.model.Open()
	if err != nil {
		return "", err
	}
	o, err := f.serviceOptions()
	if err == nil && o.Judge != nil {
		err = o.Judge.Fits(e.Width())
	}
	return f.model.Path, errors.Join(err, e.Close())
}
