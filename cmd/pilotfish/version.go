package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// newVersionCommand prints what this binary was built from.
func newVersionCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print what this binary was built from",
		Example: "  pilotfish version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if asJSON {
				return a.printJSON(b)
			}
			_, err := fmt.Fprintf(a.stdout, "pilotfish %s (%s, %s/%s)\n", b.Version, b.Go, b.OS, b.Arch)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// build says what this binary was built from.
type build struct {
	Version  string `json:"version"` // the module's version, or the revision with "+dirty", or "unknown"
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Revision string `json:"revision,omitempty"` // of the repository
	Time     string `json:"time,omitempty"`     // of that revision
	Dirty    bool   `json:"dirty,omitempty"`    // files differ from that revision
}

// buildVersion returns the version alone.
func buildVersion() string { return readBuild().Version }

// readBuild reads what the Go linker left in this binary.
func readBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	switch v := info.Main.Version; {
	case v != "" && v != "(devel)":
		b.Version = v
	case b.Revision != "":
		b.Version = b.Revision
		if b.Dirty {
			b.Version += "+dirty"
		}
	}
	return b
}
