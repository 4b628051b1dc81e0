package cloud

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/metrics"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// deployed reads a file of docs/deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(clitest.Root(), "docs", "deploy", name))
	require.NoError(t, err)
	return string(b)
}

// TestDeployConfig: the example of a configuration file is valid.
func TestDeployConfig(t *testing.T) {
	text := deployed(t, "cloud.yaml")
	for _, all := range []string{text, regexp.MustCompile(`(?m)^# ([a-z-]+: /)`).ReplaceAllString(text, "$1")} {
		_, f := cloudCommand(&cli.App{})
		c, err := parseConfig("cloud.yaml", []byte(all), f.operate.set)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, len(c.Values), 5)
		_, err = adminAddress(f.operate.admin)
		require.NoError(t, err)
	}
}

// TestDeployUnit: the unit reloads with the right signal, and allows enough time for a drain.
func TestDeployUnit(t *testing.T) {
	unit := map[string]string{}
	for _, line := range strings.Split(deployed(t, "pilotfish-cloud.service"), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && line[0] != '#' {
			unit[key] = value
		}
	}
	start := unit["ExecStart"]
	assert.Equal(t, start+" --check-config", unit["ExecStartPre"])
	assert.Equal(t, "/bin/kill -HUP $MAINPID", unit["ExecReload"])
	assert.Equal(t, "SIGTERM", unit["KillSignal"])
	stop, err := time.ParseDuration(unit["TimeoutStopSec"] + "s")
	require.NoError(t, err)
	total, err := cloudFlags(t).Lookup("limit").Value.(*cli.OptionsFlag).GetDuration("total")
	require.NoError(t, err)
	assert.Greater(t, stop, total/6+5*time.Second)
	assert.Equal(t, "XDG_CONFIG_HOME=/var/lib", unit["Environment"])
	assert.Equal(t, "pilotfish", unit["StateDirectory"], "the folder for generated files")
	assert.Equal(t, "yes", unit["NoNewPrivileges"])
	assert.Equal(t, "0", unit["LimitCORE"], "a core dump would contain texts")
}

func cloudFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	_, f := cloudCommand(&cli.App{})
	return f.operate.set
}

// TestDeployCompose: the compose file is valid YAML, starts the gateway after a healthy engine, without privileges,
// with the right ports, and allows enough time for a drain.
func TestDeployCompose(t *testing.T) {
	type service struct {
		Image, User string
		Command     []string
		Ports       []string
		Volumes     []string
		Secrets     []string
		Build       struct{ Context, Dockerfile string }
		ReadOnly    bool     `yaml:"read_only"`
		Drop        []string `yaml:"cap_drop"`
		Grace       string   `yaml:"stop_grace_period"`
		Health      struct {
			Test []string
		} `yaml:"healthcheck"`
		Needs map[string]struct{ Condition string } `yaml:"depends_on"`
	}
	var file struct {
		Services map[string]service
		Secrets  map[string]struct{ File string }
		Volumes  map[string]any
	}
	require.NoError(t, yaml.Unmarshal([]byte(deployed(t, "compose.yaml")), &file))
	require.Len(t, file.Services, 2)
	g := file.Services["gateway"]
	assert.Equal(t, "cloud", g.Command[0])
	assert.Equal(t, "service_healthy", g.Needs["sglang"].Condition)
	assert.NotEmpty(t, file.Services["sglang"].Health.Test)
	assert.Equal(t, []string{"4433:4433/udp"}, g.Ports)
	assert.Equal(t, ":4433", cloudFlags(t).Lookup("listen").DefValue)
	assert.Contains(t, g.Command, "--admin=0.0.0.0:9433")
	assert.Equal(t, []string{"CMD", "/pilotfish", "cloud", "ready"}, g.Health.Test)
	assert.True(t, g.ReadOnly)
	assert.Equal(t, []string{"ALL"}, g.Drop)
	grace, err := time.ParseDuration(g.Grace)
	require.NoError(t, err)
	total, err := cloudFlags(t).Lookup("limit").Value.(*cli.OptionsFlag).GetDuration("total")
	require.NoError(t, err)
	assert.Greater(t, grace, total/6+5*time.Second)
	for _, name := range g.Secrets {
		assert.Contains(t, file.Secrets, name)
	}
	for _, v := range slices.Concat(g.Volumes, file.Services["sglang"].Volumes) {
		if name, _, _ := strings.Cut(v, ":"); name[0] != '$' {
			assert.Contains(t, file.Volumes, name)
		}
	}
	docker := filepath.Join(clitest.Root(), "docs", "deploy", g.Build.Context, g.Build.Dockerfile)
	assert.FileExists(t, docker)
	image := deployed(t, "Dockerfile")
	for _, line := range []string{"CGO_ENABLED=0 go build", "FROM scratch", "USER 65532:65532", "EXPOSE 4433/udp",
		`ENTRYPOINT ["/pilotfish"]`} {
		assert.Contains(t, image, line)
	}
}

// TestDeployMetrics: every metric in the page for operators exists.
func TestDeployMetrics(t *testing.T) {
	to := prometheus.NewRegistry()
	metrics.NewEvents(to)
	up := func() error { return nil }
	to.MustRegister(metrics.State(func() gateway.Stats { return gateway.Stats{} }), cli.BuildMetric(),
		newServiceMetrics(func() engine.ServiceStats { return engine.ServiceStats{} }),
		group.NewUpstreamMetrics(func() engine.UpstreamStats { return engine.UpstreamStats{} }),
		metrics.Health("ready", "-", up), metrics.Health("upstream_up", "-", up))
	descriptions := make(chan *prometheus.Desc, 1000)
	to.Describe(descriptions)
	close(descriptions)
	var known []string
	for d := range descriptions {
		known = append(known, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	b, err := os.ReadFile(filepath.Join(clitest.Root(), "docs", "operating.md"))
	require.NoError(t, err)
	named := regexp.MustCompile(`pilotfish_(?:gateway|engine|upstream|build)_\w+`).FindAllString(string(b), -1)
	assert.Greater(t, len(named), 10)
	for _, name := range named {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		assert.Contains(t, known, name)
	}
}
