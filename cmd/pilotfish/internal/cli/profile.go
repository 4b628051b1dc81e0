package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// ProfiledCommands returns the commands that can be profiled: those that run for long.
func ProfiledCommands() []string {
	return []string{
		"run", "demo", "cloud", "eval", "bench engine", "bench routing", "bench link", "bench gateway",
		"bench capacity", "router train", "router collect", "router calibrate",
	}
}

// addProfiles adds the flag for profiles to the commands that run for long.
func addProfiles(root *cobra.Command) {
	for _, path := range ProfiledCommands() {
		c, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			continue // not in this program; a test of the complete program finds all of them
		}
		Add(c.Flags(), "profile", new(string), "")
	}
}

// profiles start each kind of profile, and return the function that ends it and writes the rest. A whole profile is
// one whose writer had no error: not every function of the library returns it.
var profiles = sync.OnceValue(func() map[string]func(io.Writer) (end func(), err error) {
	return map[string]func(io.Writer) (func(), error){
		"cpu":   func(w io.Writer) (func(), error) { return pprof.StopCPUProfile, pprof.StartCPUProfile(w) },
		"trace": func(w io.Writer) (func(), error) { return trace.Stop, trace.Start(w) },
		"mem":   sampled("heap", func(on int) { runtime.MemProfileRate = on << 12 }),
		"block": sampled("block", runtime.SetBlockProfileRate),
		"mutex": sampled("mutex", func(on int) { runtime.SetMutexProfileFraction(on) }),
	}
})

// sampled is a profile that the runtime collects while set is called with 1, and not with 0.
func sampled(name string, set func(int)) func(io.Writer) (func(), error) {
	return func(w io.Writer) (func(), error) {
		set(1)
		return func() {
			_ = pprof.Lookup(name).WriteTo(w, 0) // the writer has the error
			set(0)
		}, nil
	}
}

// startProfile starts the profile that the flags of a command request, if any, and returns a function that ends and
// writes it. Its argument is the error of the command: after wrong usage there is no profile.
func startProfile(c *cobra.Command) (stop func(error) error, err error) {
	flags := c.Flags()
	if !flags.Changed("profile") {
		return func(error) error { return nil }, nil
	}
	kind, path, _ := strings.Cut(flags.Lookup("profile").Value.String(), ":")
	start, ok := profiles()[kind]
	if !ok {
		return nil, Usagef("--profile %.40s is not a kind of profile: choose cpu, mem, block, mutex or trace", kind)
	}
	name := kind + ".pprof"
	if kind == "trace" {
		name = "trace.out"
	}
	f, err := reserve(path, name)
	if err != nil {
		return nil, err
	}
	out := &Output{W: f}
	end, err := start(out)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--profile: %w", err), f.Close(), os.Remove(f.Name()))
	}
	return func(failed error) error {
		end()
		err := errors.Join(out.err(), f.Close())
		if wrong := (*UsageError)(nil); errors.As(failed, &wrong) {
			return os.Remove(f.Name())
		}
		if err != nil {
			return errors.Join(fmt.Errorf("write the profile: %w", err), os.Remove(f.Name()))
		}
		return nil
	}, nil
}

// reserve creates the file for a profile, which by default and in a folder is called name. It overwrites none.
func reserve(path, name string) (*os.File, error) {
	if path == "" {
		path = name
	} else if info, err := os.Stat(path); err == nil && info.IsDir() || os.IsPathSeparator(path[len(path)-1]) {
		path = filepath.Join(path, name)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("--profile: %s exists already: name another file, such as --profile cpu:FILE, or "+
			"remove it first", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	}
	return f, nil
}
