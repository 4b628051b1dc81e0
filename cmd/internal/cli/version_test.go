package cli

import (
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBuildOf: the version, by the source of the binary.
func TestBuildOf(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	info := func(module string, settings ...string) *debug.BuildInfo {
		i := &debug.BuildInfo{Main: debug.Module{Version: module}}
		for _, s := range settings {
			key, value, _ := strings.Cut(s, "=")
			i.Settings = append(i.Settings, debug.BuildSetting{Key: key, Value: value})
		}
		return i
	}
	for name, c := range map[string]struct {
		stamp, archive string
		info           *debug.BuildInfo
		version        string
		revision       string
	}{
		"make build":       {"v1.2.3", "v0.1.0 " + commit, info("v9.9.9", "vcs.revision=abc"), "v1.2.3", "abc"},
		"go install":       {"", "$Format:%H$", info("v1.2.3"), "v1.2.3", ""},
		"checkout":         {"", "$Format:%H$", info("(devel)", "vcs.revision=abc"), "abc", "abc"},
		"with changes":     {"", "", info("(devel)", "vcs.revision=abc", "vcs.modified=true"), "abc+dirty", "abc"},
		"archive":          {"", "v1.2.3-4-gabc " + commit + "\n", info("(devel)"), "v1.2.3-4-gabc", commit},
		"archive, no tags": {"", " " + commit + "\n", info(""), commit, commit},
		"copy without git": {"", "$Format:%(describe) %H$\n", info("(devel)"), "unknown", ""},
		"empty file":       {"", "", info(""), "unknown", ""},
		"no build info":    {"", "", nil, "unknown", ""},
		"stamped, no info": {"v1.2.3", "", nil, "v1.2.3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := combineBuildInfo(c.stamp, c.archive, c.info)
			assert.Equal(t, c.version, b.Version)
			assert.Equal(t, c.revision, b.Revision)
			assert.Equal(t, runtime.Version(), b.Go)
		})
	}
}

// TestArchive: git archive fills in archive.txt.
func TestArchive(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: git is not installed")
	}
	out, err := exec.Command("git", "check-attr", "export-subst", "archive.txt").Output()
	if err != nil {
		t.Skip("SKIPPED, NOT TESTED: this is not a git checkout")
	}
	assert.Equal(t, "archive.txt: export-subst: set\n", string(out))
	if tag, revision := parseArchiveInfo(archive); revision != "" {
		t.Errorf("archive.txt is filled in although this is a checkout: %q %q", tag, revision)
	}
}

// TestBuildMetric: the metric of the build is 1, and its labels are the version and that of Go.
func TestBuildMetric(t *testing.T) {
	to := prometheus.NewRegistry()
	to.MustRegister(BuildMetric())
	all, err := to.Gather()
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, "pilotfish_build_info", all[0].GetName())
	m := all[0].GetMetric()[0]
	assert.Equal(t, 1., m.GetGauge().GetValue())
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	assert.Equal(t, map[string]string{"version": BuildVersion(), "go": runtime.Version()}, labels)
}
