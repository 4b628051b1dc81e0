package group

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// parsed returns a set of flags with the values of a command line.
func parsed(t *testing.T, line string, register ...func(*pflag.FlagSet)) *pflag.FlagSet {
	t.Helper()
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, r := range register {
		r(set)
	}
	require.NoError(t, set.Parse(strings.Fields(line)), line)
	return set
}

// written writes a file and returns its path.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestPoliciesOfFlags: the options of a router, without those that have no effect with the policy.
func TestPoliciesOfFlags(t *testing.T) {
	file, err := engine.ReadRouter(clitest.DemoFile("router.gguf"))
	require.NoError(t, err)
	file.Confidences = []float32{0.5}
	var own bytes.Buffer
	require.NoError(t, file.Write(gguf.NewWriter(&own)))
	for line, want := range map[string]string{
		"": "", "--policy learned": "", "--policy never": "", "--policy random --threshold 0": "",
		"--policy never --budget 0.1": "", "--policy always --threshold 0.1": "", "--policy margin --router x": "",
		"--policy learned --router /no/one": "/no/one",
	} {
		var f RouteFlags
		parsed(t, line, f.Register)
		o, err := f.Router(own.Bytes())
		if want != "" {
			assert.ErrorContains(t, err, want, line)
			continue
		}
		require.NoError(t, err, line)
		assert.Equal(t, f.Given("threshold") && o.Policy != router.Always, o.Threshold != nil, line)
		assert.Zero(t, o.Budget)
		assert.Equal(t, o.Policy == router.Learned, o.Net != nil && o.Calibration != nil, line)
		_, err = f.Router(nil)
		assert.Equal(t, o.Policy == router.Learned, err != nil, "%s: %v", line, err)
	}
}

// TestMeasuredVerify: commands that measure routing do not take the policy of answers.
func TestMeasuredVerify(t *testing.T) {
	var f RouteFlags
	parsed(t, "--policy verify --budget 0.1", f.Register)
	_, err := f.Router(nil)
	assert.ErrorContains(t, err, "give --modes verified:3")
}

// TestPolicyOfAnswers: without a policy the large model verifies, unless another flag says what decides.
func TestPolicyOfAnswers(t *testing.T) {
	for line, want := range map[string]router.Policy{
		"": router.Verify, "--budget 0.1": router.Verify, "--threshold 0.1": router.Margin,
		"--verify off": router.Margin, "--verify 2": router.Never, "--policy margin": router.Margin,
		"--policy margin --verify 2":      router.Margin,
		"--policy verify --threshold 0.1": router.Verify, "--threshold 0.1 --verify 0": router.Margin,
	} {
		var f RouteFlags
		parsed(t, line, func(p *pflag.FlagSet) { f.Register(p); f.RegisterVerify(p) })
		o, err := f.Router(nil)
		require.NoError(t, err, line)
		assert.Equal(t, want, o.Policy, line)
		assert.Equal(t, o.Policy != router.Never && o.Threshold == nil, o.Budget > 0, line)
		_, err = f.NewRouter()
		assert.NoError(t, err, line)
	}
}

// TestAnswersOfFlags: the settings of an answer that flags with texts give, and how wrong ones are refused.
func TestAnswersOfFlags(t *testing.T) {
	schema := written(t, `{"type":"null"}`)
	for line, want := range map[string]terms.Settings{
		"": {TopP: 1}, `--stop a\n --stop \x41\u00e9\\`: {TopP: 1, Stop: []string{"a\n", `Aé\`}},
		`--stop \xc3\xa9`:                             {TopP: 1, Stop: []string{"é"}},
		"--logit-bias 3=-5 --logit-bias 0=100":        {TopP: 1, LogitBias: map[int32]float32{3: -5, 0: 100}},
		`--json-schema {"type":"object"}`:             {TopP: 1, Schema: []byte(`{"type":"object"}`), Complete: true},
		"--json-schema " + schema:                     {TopP: 1, Schema: []byte(`{"type":"null"}`), Complete: true},
		"--temp 2 --seed 7 --top-k 3 --top-p 0.5":     {Temperature: 2, Seed: 7, TopK: 3, TopP: 0.5},
		"--presence-penalty 1 --frequency-penalty -1": {TopP: 1, PresencePenalty: 1, FrequencyPenalty: -1},
	} {
		var f AnswerFlags
		set := parsed(t, line, func(p *pflag.FlagSet) { f.Register(p, "") })
		require.NoError(t, f.Parse(set), line)
		f.RepeatPenalty = 0
		assert.Equal(t, want, f.Settings, line)
	}
	seeds := map[uint64]bool{}
	for range 3 {
		var f AnswerFlags
		set := parsed(t, "--temp 1", func(p *pflag.FlagSet) { f.Register(p, "") })
		require.NoError(t, f.Parse(set))
		seeds[f.Seed] = true
		assert.Less(t, f.Seed, uint64(1)<<32)
	}
	assert.Greater(t, len(seeds), 1, "a seed is drawn")
	for line, want := range map[string]string{`--stop \q`: "--stop", "--logit-bias 3": "--logit-bias 3",
		"--logit-bias 5=101": "--logit-bias 5=101", "--logit-bias -1=1": "--logit-bias -1=1",
		"--logit-bias 5=NaN": "--logit-bias 5=NaN", "--json-schema /nowhere/x": "--json-schema: open /nowhere/x"} {
		var f AnswerFlags
		assert.ErrorContains(t, f.Parse(parsed(t, line, func(p *pflag.FlagSet) { f.Register(p, "") })), want)
	}
	f := AnswerFlags{Settings: terms.Settings{IgnoreEnd: true}, schema: "{}"}
	require.NoError(t, f.Parse(parsed(t, "")))
	assert.False(t, f.IgnoreEnd, "the end of a value of the schema ends the answer")
}

// TestModelsOfFlags: the options of models, of which huge pages are for the CPU alone.
func TestModelsOfFlags(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "--exact --kv f32": "", "--backend soft --kv f16": "", "--huge-pages on": "",
		"--backend cuda": "--backend cuda is not a backend",
	} {
		var m ModelFlags
		c := new(cobra.Command)
		m.RegisterOptional(c)
		require.NoError(t, c.ParseFlags(strings.Fields(line)))
		_, err := m.Options()
		_, public := m.Public()
		assert.Equal(t, err, public)
		if want == "" {
			assert.NoError(t, err, line)
		} else {
			assert.ErrorContains(t, err, want, line)
		}
	}
	m := ModelFlags{Path: "small", Large: "large", Kv: "auto", Backend: "cpu", huge: "auto"}
	o, err := m.Public()
	require.NoError(t, err)
	assert.Equal(t, "small", o.Drafter)
	assert.Equal(t, "large", m.Answers())
	m.Large = ""
	o, err = m.Public()
	require.NoError(t, err)
	assert.Equal(t, "", o.Drafter)
	assert.Equal(t, "small", m.Answers())
	for huge, want := range map[string]engine.HugePages{"auto": engine.HugeAuto, "on": "on", "off": "off"} {
		assert.Equal(t, want, ParseHugePages(huge, engine.CPU))
		assert.Equal(t, huge == "off", ParseHugePages(huge, engine.Metal) == engine.HugeOff)
		assert.NotEqual(t, engine.HugeOn, ParseHugePages(huge, engine.Soft))
	}
}

// TestGatewaysOfFlags: what the flags of a gateway give, and how wrong ones are refused.
func TestGatewaysOfFlags(t *testing.T) {
	t.Setenv(cli.TokenVariable, clitest.SecretA)
	pin := clitest.OnePin(3)
	token := written(t, clitest.SecretB+"\n")
	for line, want := range map[string]pilotfish.DialOptions{
		"--cloud h:1": {Lazy: true, Token: clitest.SecretA},
		"--cloud h:1 --token-file " + token + " --pin " + pin: {Lazy: true, Pin: pin, Token: clitest.SecretB},
	} {
		var g GatewayFlags
		parsed(t, line, g.Register)
		o, err := g.Parse(new(cli.App))
		require.NoError(t, err)
		assert.Equal(t, want, o)
	}
	for line, want := range map[string]string{
		"--cloud h":            `--cloud "h": missing port`,
		"--cloud h:1 --pin 12": "--pin: ",
		"--cloud h:1 --pin=":   "--pin: ",
		"--cloud h:1 --pin " + strings.Repeat("0", 64): "--pin: no certificate has a fingerprint of zeros",
	} {
		var g GatewayFlags
		parsed(t, line, g.Register)
		_, err := g.Parse(new(cli.App))
		assert.ErrorContains(t, err, want, line)
	}
}

// TestEnginesOfFlags: the options of engines behind a gateway, and how wrong ones are refused.
func TestEnginesOfFlags(t *testing.T) {
	key := written(t, " secret \n")
	check := func(line string) (*UpstreamFlags, error) {
		u := new(UpstreamFlags)
		return u, u.Check(parsed(t, line, u.Register))
	}
	u, err := check("--upstream http://a --upstream http://b --tokenizer t --engine model=m --engine key-file=" + key)
	require.NoError(t, err)
	assert.Equal(t, engine.UpstreamOptions{URLs: []string{"http://a", "http://b"}, Model: "m",
		Patience: enginePatience, Key: "secret"}, u.O)
	_, err = check("")
	assert.NoError(t, err)
	const one = "--upstream http://a --tokenizer t "
	for line, want := range map[string]string{
		"--tokenizer t":                                   "--tokenizer is for engines: it needs --upstream URL",
		"--engine model=m":                                "--engine is for engines",
		"--upstream http://a":                             "an engine needs --tokenizer FILE",
		one + "--engine key-file=/no/k":                   "--engine key-file: open /no/k",
		one + "--engine key-file=" + written(t, " \n"):    "there must be one line with the key",
		one + "--engine key-file=" + written(t, "a\nb\n"): "there must be one line with the key",
	} {
		_, err := check(line)
		assert.ErrorContains(t, err, want, line)
	}
}

// TestTextsOfCertificates: what is said of a certificate and of shares, and nothing that controls a terminal.
func TestTextsOfCertificates(t *testing.T) {
	c := &router.Certificate{Policy: router.Learned, Budget: 0.07, Confidence: 0.995, Prompts: 400,
		Share: 0.0512, Tokens: 9000, Method: "m\x1b[2J", MaxTokens: 48, Threshold: 0.25}
	assert.Equal(t, `at most 7% of the tokens from the cloud with confidence 99.5%, shown on 400 prompts (5.1% of `+
		`9000 tokens; m\x1b[2J; at most 48 tokens an answer): policy learned, threshold 0.25`, CertificateText(c))
	assert.Equal(t, []string{"verify, margin 1.5 nats", "verify, margin 0 nats", "never, the small model alone"},
		[]string{PolicyText(router.Verify, math.Exp(-1.5)), PolicyText(router.Verify, 1), PolicyText(router.Never, 0)})
	assert.Equal(t, []string{"12.35%", "100%", "0%"}, []string{Share(0.123456), Share(1), Share(0)})
	assert.Equal(t, []string{router.Raw, router.Chat}, []string{PromptKind(true), PromptKind(false)})
	var out bytes.Buffer
	a := &cli.App{Stderr: &out}
	WarnTemplate(a, false, "x")
	TellIgnored(&out, nil)
	assert.Empty(t, out.String())
	WarnTemplate(a, true, "--large x")
	assert.Equal(t, "warning: --large x: "+OtherTemplateText+"\n", out.String())
	out.Reset()
	TellIgnored(&out, []string{"#/a", "#/b"})
	assert.Equal(t, "--json-schema: these have no effect: #/a, #/b\n", out.String())
}
