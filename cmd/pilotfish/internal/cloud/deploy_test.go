package cloud

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/metrics"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// deployed reads a file of docs/operate/deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(clitest.Root(), "docs", "operate", "deploy", name))
	require.NoError(t, err)
	return string(b)
}

// TestDeployConfig: the example of a configuration file is valid.
func TestDeployConfig(t *testing.T) {
	text := deployed(t, "cloud.yaml")
	for _, all := range []string{text, regexp.MustCompile(`(?m)^# ([a-z-]+: /)`).ReplaceAllString(text, "$1")} {
		_, f := newCloudCommand(&cli.App{})
		c := &cli.ConfigFile{Name: "cloud.yaml", Flags: f.operate.set}
		require.NoError(t, c.Parse([]byte(all)))
		assert.GreaterOrEqual(t, len(c.Values), 5)
		_, err := adminAddress(f.operate.admin)
		require.NoError(t, err)
	}
}

// cloudFlags returns the flags of pilotfish cloud.
func cloudFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	_, f := newCloudCommand(&cli.App{})
	return f.operate.set
}

// TestDeployStops: systemd and Docker allow enough time for a drain, systemd reloads with the right signal, and the
// image runs the gateway without privileges at its default port.
func TestDeployStops(t *testing.T) {
	total, err := cloudFlags(t).Lookup("limit").Value.(*cli.OptionsFlag).GetDuration("total")
	require.NoError(t, err)
	unit, compose, image := deployed(t, "pilotfish-cloud.service"), deployed(t, "compose.yaml"), deployed(t,
		"Dockerfile")
	for text, pattern := range map[string]string{unit: `(?m)^TimeoutStopSec=(\d+)$`,
		compose: `(?m)^ +stop_grace_period: (\d+)s$`} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		require.Len(t, found, 2, pattern)
		stop, err := time.ParseDuration(found[1] + "s")
		require.NoError(t, err)
		assert.Greater(t, stop, total/6+5*time.Second)
	}
	for _, line := range []string{"ExecReload=/bin/kill -HUP $MAINPID", "KillSignal=SIGTERM", "NoNewPrivileges=yes",
		"LimitCORE=0", "Environment=XDG_CONFIG_HOME=/var/lib", "StateDirectory=pilotfish"} {
		assert.Contains(t, unit, "\n"+line+"\n")
	}
	port := cloudFlags(t).Lookup("listen").DefValue
	assert.Contains(t, compose, port[1:]+port+"/udp")
	for _, line := range []string{"CGO_ENABLED=0 go build", "FROM scratch", "USER 65532:65532",
		"EXPOSE " + port[1:] + "/udp", `ENTRYPOINT ["/pilotfish"]`} {
		assert.Contains(t, image, line)
	}
	require.NoError(t, yaml.Unmarshal([]byte(compose), new(any)))
}

// TestDeployMetrics: every metric in the page for operators exists.
func TestDeployMetrics(t *testing.T) {
	to := prometheus.NewRegistry()
	metrics.NewEvents(to)
	up := func() error { return nil }
	metrics.State(to, func() gateway.Stats { return gateway.Stats{} })
	to.MustRegister(cli.BuildMetric(),
		group.NewServiceMetrics(func() engine.ServiceStats { return engine.ServiceStats{} }),
		metrics.Health("ready", "-", up), metrics.Health("upstream_up", "-", up))
	to.MustRegister(group.NewUpstreamMetrics(func() engine.UpstreamStats { return engine.UpstreamStats{} })...)
	descriptions := make(chan *prometheus.Desc, 1000)
	to.Describe(descriptions)
	close(descriptions)
	var known []string
	for d := range descriptions {
		known = append(known, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	b, err := os.ReadFile(filepath.Join(clitest.Root(), "docs", "operate", "gateway.md"))
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
