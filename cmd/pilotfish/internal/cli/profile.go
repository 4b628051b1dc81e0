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
	"slices"
	"strings"

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

// startProfile starts the profile that the flags of a command request, if any, and returns a function that ends and
// writes it. Its argument is the error of the command: after wrong usage there is no profile.
func startProfile(c *cobra.Command) (stop func(error) error, err error) {
	flag := c.Flags().Lookup("profile")
	if flag == nil || !flag.Changed {
		return func(error) error { return nil }, nil
	}
	kind, path, _ := strings.Cut(flag.Value.String(), ":")
	kinds := strings.Fields(declarationOf(flag).Values)
	if !slices.Contains(kinds, kind) {
		return nil, Usagef("--profile %.40s is not a kind of profile: choose %s", kind, strings.Join(kinds, ", "))
	}
	f, err := newProfile(kind, path)
	if err != nil {
		return nil, err
	}
	end, err := beginProfile(kind, f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--profile: %w", err), f.Close(), os.Remove(f.Name()))
	}
	return func(failed error) error {
		err := errors.Join(end(), f.Close())
		if wrong := (*UsageError)(nil); errors.As(failed, &wrong) {
			return os.Remove(f.Name())
		}
		if err != nil {
			return fmt.Errorf("write the profile: %w", err)
		}
		return nil
	}, nil
}

// newProfile creates the file of a profile. It does not overwrite a file.
func newProfile(kind, path string) (*os.File, error) {
	name := kind + ".pprof"
	if kind == "trace" {
		name = "trace.out"
	}
	if path == "" {
		path = name
	} else if info, err := os.Stat(path); err == nil && info.IsDir() || os.IsPathSeparator(path[len(path)-1]) {
		path = filepath.Join(path, name)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("--profile: %s exists already: name another file, such as --profile cpu:FILE, or remove it "+
			"first", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	}
	return f, nil
}

// beginProfile begins a profile, and returns a function that ends it. The profile is complete on w then.
func beginProfile(kind string, w io.Writer) (end func() error, err error) {
	switch kind {
	case "cpu":
		return func() error { pprof.StopCPUProfile(); return nil }, pprof.StartCPUProfile(w)
	case "trace":
		return func() error { trace.Stop(); return nil }, trace.Start(w)
	case "block":
		runtime.SetBlockProfileRate(1)
	case "mutex":
		runtime.SetMutexProfileFraction(1)
	case "mem":
		runtime.MemProfileRate = 4096 // bytes between samples
		kind = "heap"
	}
	return func() error { return pprof.Lookup(kind).WriteTo(w, 0) }, nil
}
