package cli

import (
	"cmp"
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

// NewVersionCommand returns the command that prints what this binary was built from.
func NewVersionCommand(a *App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what this binary was built from",
		Example: "  " + a.Program.Name + " version",
		Args:    NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := ReadBuild()
			if asJSON {
				return a.PrintJSON(b)
			}
			_, err := fmt.Fprintf(a.Stdout, "%s %s (%s, %s/%s)\n", a.Program.Name, b.Version, b.Go, b.OS, b.Arch)
			return err
		},
	}
	Add(c.Flags(), "json", &asJSON, false)
	return c
}

// version is set by the linker in `make build`: -X CLI.version=v1.2.3, where CLI is this package.
var version string

// archive is what git archive wrote when it packed this source: the nearest tag, if there is one, and the commit.
//
//go:embed archive.txt
var archive string

// Build describes what this binary was built from.
type Build struct {
	Version  string `json:"version"` // stamped, or the module's, or the revision with "+dirty", or "unknown"
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Revision string `json:"revision,omitempty"` // of the repository
	Time     string `json:"time,omitempty"`     // of that revision
	Dirty    bool   `json:"dirty,omitempty"`    // files differ from that revision
}

// BuildVersion returns the version.
func BuildVersion() string { return ReadBuild().Version }

// ReadBuild reads the information that the Go linker stored in this binary.
func ReadBuild() Build {
	info, _ := debug.ReadBuildInfo()
	return combineBuildInfo(version, archive, info)
}

// combineBuildInfo combines the information about a binary. The stamp has priority over the module's version, then come
// the revision of a checkout and the archive. info may be nil.
func combineBuildInfo(stamp, archive string, info *debug.BuildInfo) Build {
	b := Build{Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info == nil {
		info = &debug.BuildInfo{}
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
	tag, packed := parseArchiveInfo(archive)
	switch v := info.Main.Version; {
	case stamp != "":
		b.Version = stamp
	case v != "" && v != "(devel)":
		b.Version = v
	case b.Revision != "":
		b.Version = b.Revision
		if b.Dirty {
			b.Version += "+dirty"
		}
	case packed != "":
		b.Version, b.Revision = cmp.Or(tag, packed), packed
	}
	return b
}

// parseArchiveInfo parses the text of git archive; the results are empty if git archive did not write it.
func parseArchiveInfo(archive string) (tag, revision string) {
	if archive = strings.TrimSpace(archive); strings.HasPrefix(archive, "$") {
		return "", ""
	}
	words := strings.Fields(archive)
	if len(words) == 0 {
		return "", ""
	}
	revision = words[len(words)-1]
	if len(words) == 2 {
		tag = words[0]
	}
	return tag, revision
}

// BuildMetric returns a metric with the version of the program.
func BuildMetric() prometheus.Collector {
	b := ReadBuild()
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "pilotfish_build_info",
		Help:        "1, with the version of the program.",
		ConstLabels: prometheus.Labels{"version": b.Version, "go": b.Go},
	})
	g.Set(1)
	return g
}
