package cli

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"
)

func addProfileFlags(root *cobra.Command, commands []string) {
	for _, path := range commands {
		c, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			continue // in a program of some commands; a test of each complete one finds all
		}
		Add(c.Flags(), "profile", new(string), "")
	}
}

// profileFlag writes a profile of the whole command.
type profileFlag struct{ kind, path string }

// profileKind is a kind of profile, and the name that the library uses for the file.
type profileKind struct {
	name, file string
	of         func(*profile.Profile)
}

func profileKinds() []profileKind {
	return []profileKind{
		{"cpu", "cpu.pprof", profile.CPUProfile}, {"mem", "mem.pprof", profile.MemProfile},
		{"block", "block.pprof", profile.BlockProfile}, {"mutex", "mutex.pprof", profile.MutexProfile},
		{"trace", "trace.out", profile.TraceProfile},
	}
}

// startProfile starts the profile that the flags of a command request, if any, and returns a function that ends and
// writes it. Its argument is the error of the command: after wrong usage there is no profile.
func startProfile(c *cobra.Command) (stop func(error) error, err error) {
	flags := c.Flags()
	if !flags.Changed("profile") {
		return func(error) error { return nil }, nil
	}
	var p profileFlag
	p.kind, p.path, _ = strings.Cut(flags.Lookup("profile").Value.String(), ":")
	return p.startProfiling()
}

func (p profileFlag) startProfiling() (stop func(error) error, err error) {
	kind, ok := profileKind{}, false
	for _, k := range profileKinds() {
		if k.name == p.kind {
			kind, ok = k, true
		}
	}
	if !ok {
		return nil, Usagef("--profile %.40s is not a kind of profile: choose cpu, mem, block, mutex or trace", p.kind)
	}
	path, err := p.reserveFile(kind)
	if err != nil {
		return nil, err
	}
	// The library writes files with fixed names. They are renamed at the end.
	folder, err := os.MkdirTemp(filepath.Dir(path), ".pilotfish-profile-*")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--profile: %w", err), os.Remove(path))
	}
	// The command ends by itself after a signal, so that the profile is complete: the library need not watch for
	// signals.
	running := profile.Start(kind.of, profile.ProfilePath(folder), profile.NoShutdownHook, profile.Quiet)
	return func(failed error) error {
		running.Stop()
		if wrong := (*UsageError)(nil); errors.As(failed, &wrong) {
			return errors.Join(os.RemoveAll(folder), os.Remove(path))
		}
		err := checkProfileFile(filepath.Join(folder, kind.file), kind.name != "trace")
		if err == nil {
			err = os.Rename(filepath.Join(folder, kind.file), path)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("write the profile %s: %w", path, err), os.RemoveAll(folder), os.Remove(path))
		}
		return os.Remove(folder)
	}, nil
}

// checkProfileFile returns an error if a file is not a whole profile: the library that writes it ignores errors.
func checkProfileFile(path string, zipped bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	if zipped {
		if in, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("it is incomplete (%w): is there room for it?", err)
		}
	}
	if n, err := io.Copy(io.Discard, in); err != nil || n == 0 {
		return fmt.Errorf("it is incomplete (%w): is there room for it?", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return nil
}

// reserveFile creates an empty file for the profile, so that no existing file is overwritten.
func (p profileFlag) reserveFile(kind profileKind) (path string, err error) {
	path = p.path
	if path == "" {
		path = kind.file
	} else if info, err := os.Stat(path); err == nil && info.IsDir() || os.IsPathSeparator(path[len(path)-1]) {
		path = filepath.Join(path, kind.file)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return "",
			fmt.Errorf("--profile: %s exists already: name another file, such as --profile cpu:FILE, or remove it "+
				"first", path)
	}
	if err != nil {
		return "", fmt.Errorf("--profile: %w", err)
	}
	return path, f.Close()
}
