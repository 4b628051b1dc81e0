package group

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestGatewayOptions: each option of the root package reaches the engine's option of the same name.
func TestGatewayOptions(t *testing.T) {
	pin := strings.Repeat("ab", 32)
	e, err := new(GatewayFlags).Engine(pilotfish.DialOptions{
		Lazy: true, Token: "secret", Pin: pin, TicketFolder: "tickets", Device: netproto.Device{7},
	})
	require.NoError(t, err)
	want, err := ParsePin(pin)
	require.NoError(t, err)
	assert.Equal(t, engine.DialOptions{Lazy: true, Secret: "secret", Pin: want, TicketFolder: "tickets",
		Device: netproto.Device{7}}, e)
}

// TestModelOptions: each option of a model reaches the root package under its name.
func TestModelOptions(t *testing.T) {
	for _, m := range []ModelFlags{
		{Threads: 3, Context: 70, Kv: "f16", Backend: "soft:check", huge: "off"},
		{Threads: 2, Context: 9, Kv: "f32", Backend: "cpu", huge: "on", Exact: true},
	} {
		engine, err := m.Options()
		require.NoError(t, err)
		public, err := m.Public()
		require.NoError(t, err)
		from, to := reflect.ValueOf(engine), reflect.ValueOf(public)
		for i := range to.NumField() {
			name := to.Type().Field(i).Name
			if f := from.FieldByName(name); f.IsValid() && name != "Notice" { // functions cannot be compared
				assert.Equal(t, f.Convert(to.Field(i).Type()).Interface(), to.Field(i).Interface(), name)
			}
		}
		want := public
		want.Threads, want.Context, want.KV = m.Threads, m.Context, m.Kv
		want.Backend, want.HugePages, want.Exact = m.Backend, m.huge, m.Exact
		assert.Equal(t, want, public)
	}
}

// TestFilesAreBounded: a schema of another size than any has is refused by its flag, and not read.
func TestFilesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 64<<20+1))
	var f AnswerFlags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.Register(set, "")
	require.NoError(t, set.Parse([]string{"--json-schema", path}))
	assert.ErrorContains(t, f.Parse(set), "--json-schema: "+path+" has more than 4194304 bytes")
}

// TestExplain: an error of connecting has the flag or the command that gave the address, the cause, and what to do.
func TestExplain(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string // the cause and the advice
	}{
		"pin": {&engine.PinError{Want: netproto.Digest{1}}, "the gateway's certificate has the fingerprint " +
			strings.Repeat("00", 32) + ", pinned is 01" + strings.Repeat("00", 31) +
			" (if the gateway has a new certificate, give its new fingerprint PIN; FINGERPRINT)"},
		"no pin": {&tls.CertificateVerificationError{Err: errors.New("unknown authority")},
			"tls: failed to verify certificate: unknown authority " +
				"(give the certificate's fingerprint PIN; FINGERPRINT)"},
		"host": {&net.DNSError{Err: "no such host", Name: "h"},
			"lookup h: no such host (check the name of the host)"},
		"secret": {netproto.WrongSecret, netproto.WrongSecret.Error() + " (TOKEN)"},
		"tokenizer": {netproto.WrongTokenizer, netproto.WrongTokenizer.Error() +
			" (use a small model (-m) of the same family as the gateway's)"},
		"version": {netproto.WrongVersion, netproto.WrongVersion.Error() +
			" (use the same version of pilotfish here and there)"},
		"other": {io.ErrUnexpectedEOF, "unexpected EOF (check the address, and that `pilotfish cloud` is running " +
			"there)"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, by := range []string{"", "--cloud", "/cloud"} {
				for token, advice := range map[string]string{
					"":               "give the gateway's access token with --token-file or in PILOTFISH_TOKEN",
					"--token-file=f": "put the gateway's access token into the file of --token-file",
				} {
					set := pflag.NewFlagSet("", pflag.ContinueOnError)
					var f GatewayFlags
					f.Register(set)
					require.NoError(t, set.Parse([]string{"--cloud", "h:1", token}))
					f.By = by
					pin := "with --pin"
					if by == "/cloud" {
						pin = "after the address, as in /cloud h:1 FINGERPRINT"
					}
					want := strings.NewReplacer("PIN;", pin+";", "TOKEN", advice, "FINGERPRINT)",
						"`pilotfish cloud` prints it where the gateway runs)").Replace(c.want)
					err := f.Explain(&engine.ConnectError{Addr: "i:2", Err: c.err})
					assert.EqualError(t, err, cmp.Or(by, "--cloud")+" h:1: "+want)
					assert.ErrorIs(t, err, c.err)
				}
			}
		})
	}
}

// TestCheckAddress: an address has a host and a port of 1 to 65535.
func TestCheckAddress(t *testing.T) {
	for address, want := range map[string]string{
		"h:1": "", "h:65535": "", "[::1]:4433": "", "10.0.0.1:4433": "",
		"h:0": "out of range", "h:65536": "port 65536 is out of range: it must be 1 to 65535", "h:": `port "" is not`,
		":1": "there is no host", "h": "missing port in address: give host:port", "::1:4": "too many colons",
	} {
		if err := CheckAddress(address); want == "" {
			assert.NoError(t, err, address)
		} else {
			assert.ErrorContains(t, err, want, address)
		}
	}
}

// TestRouterOfFlags: the router of a chat or a server is the one of its flags.
func TestRouterOfFlags(t *testing.T) {
	net := clitest.DemoFile("router.gguf")
	for line, want := range map[string]pilotfish.RouterOptions{
		"":                                   {},
		"--budget 0.3":                       {Budget: 0.3},
		"--threshold 0.4":                    {Threshold: new(0.4)},
		"--policy entropy":                   {Policy: "entropy"},
		"--policy entropy --budget 0.3":      {Policy: "entropy", Budget: 0.3},
		"--policy never":                     {Policy: "never"},
		"--router " + net:                    {File: net},
		"--router " + net + " --threshold 0": {File: net, Threshold: new(0.)},
		"--router " + net + " --budget 0.2":  {File: net, Budget: 0.2},
		"--policy learned --router " + net:   {Policy: "learned", File: net},
		"--policy always --deadline off":     {Policy: "always"},
	} {
		var f RouteFlags
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Register(set)
		f.RegisterVerify(set)
		require.NoError(t, set.Parse(strings.Fields(line)))
		got, err := f.NewRouter()
		require.NoError(t, err)
		made, err := pilotfish.NewRouter(want)
		require.NoError(t, err)
		assert.Equal(t, made, got, line)
	}
}

// fingerprinted is a model with a fingerprint.
type fingerprinted struct {
	of  string
	err error
}

func (f fingerprinted) Fingerprint() (string, error) { return f.of, f.err }

// TestWarnForeign: only a router that is known to be another model's gets a warning, with the name of that model, which
// cannot control the terminal.
func TestWarnForeign(t *testing.T) {
	for _, c := range []struct {
		name, model, called string
		own                 fingerprinted
		want                string
	}{
		{"its model", "a", "n", fingerprinted{of: "a"}, ""},
		{"an unknown model", "", "n", fingerprinted{of: "a"}, ""},
		{"no fingerprint", "b", "n", fingerprinted{err: io.EOF}, ""},
		{"another without a name", "b", "", fingerprinted{of: "a"}, "another model: what"},
		{"another with a hostile name", "b", "n\x1b[2J日", fingerprinted{of: "a"}, `another model (n\x1b[2J日): what`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			WarnForeign(&cli.App{Stderr: &out}, "router", router.About{Model: c.model, ModelName: c.called}, c.own)
			assert.Contains(t, out.String(), c.want)
			assert.Equal(t, c.want == "", out.Len() == 0, out.String())
		})
	}
}

// TestCompute: the settings that may change results are those that differ from the defaults, each by its name.
func TestCompute(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "--backend cpu --kv auto": "", "--backend soft": "backend soft", "--kv f32": "kv f32",
		"--exact": "exact true", "--kv f32 --exact --backend cpu": "kv f32, exact true", "--threads 3 --ctx 9": "",
	} {
		var m ModelFlags
		c := new(cobra.Command)
		m.RegisterOptional(c)
		require.NoError(t, c.ParseFlags(strings.Fields(line)))
		assert.Equal(t, want, m.Compute(), line)
	}
}

// TestNumbersOfTokens: the bounds of token ids and biases.
func TestNumbersOfTokens(t *testing.T) {
	for text, want := range map[string]bool{"0=100": true, "2147483647=-100": true, "2147483648=1": false,
		"5=100.1": false, "5=-100.1": false, "=1": false, "5=": false, "-1=1": false, "5=1=1": false} {
		_, _, err := parseLogitBias(text)
		assert.Equal(t, want, err == nil, text)
	}
	ids, err := ParseIDs(" 1, 2147483647 ,0")
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 2147483647, 0}, ids)
	for _, wrong := range []string{"", "1,", "-1", "2147483648", "1 2"} {
		_, err = ParseIDs(wrong)
		assert.Error(t, err, wrong)
	}
}

// TestMeasured: the description of a measurement has the command, the values of its flags, and the time in UTC, but no
// text of the user.
func TestMeasured(t *testing.T) {
	root, c, leaf := &cobra.Command{Use: "pilotfish"}, &cobra.Command{Use: "bench"}, &cobra.Command{Use: "routing"}
	root.AddCommand(c)
	c.AddCommand(leaf)
	p := leaf.Flags()
	var f AnswerFlags
	f.Register(p, "")
	p.String("system", "", "")
	p.String("tokens", "", "")
	p.String("data", "d", "")
	p.Bool("help", false, "")
	const line = "--system secret --tokens 12 --stop secret --json-schema {} --temp 2 --data e"
	require.NoError(t, p.Parse(strings.Fields(line)))
	r := Measured(&cli.App{Command: leaf}, "a name")
	assert.Equal(t, "a name", r.Measurement)
	assert.Equal(t, "pilotfish bench routing --data=e --json-schema=… --stop=… --system=… --temp=2 --tokens=…",
		r.Command)
	assert.Equal(t, []string{"e", "…", "…", "…", "2", "…", "0"}, []string{r.Flags["data"], r.Flags["json-schema"],
		r.Flags["stop"], r.Flags["system"], r.Flags["temp"], r.Flags["tokens"], r.Flags["top-k"]})
	assert.NotContains(t, r.Flags, "help")
	assert.Equal(t, time.UTC, r.Date.Location())
	assert.Zero(t, r.Date.Nanosecond())
	assert.Equal(t, cli.BuildVersion(), r.Version)
	assert.Equal(t, runtime.Version(), r.Go)
	number := pflag.NewFlagSet("", pflag.ContinueOnError)
	number.Int("tokens", 0, "")
	require.NoError(t, number.Parse([]string{"--tokens", "12"}))
	assert.Equal(t, "12", flagValue(number.Lookup("tokens")), "a number is no text")
}

// TestUnknownContext: an engine that does not say how long its contexts are.
func TestUnknownContext(t *testing.T) {
	assert.Equal(t, []string{"an unknown number of", "512"}, []string{formatContextLimit(0), formatContextLimit(512)})
}
