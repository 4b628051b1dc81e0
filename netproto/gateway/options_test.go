package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stated is an upstream with given properties.
type stated Info

func (s stated) Info() Info                                        { return Info(s) }
func (stated) Ask(context.Context, terms.Job) (terms.Reply, error) { return terms.Reply{}, nil }
func (stated) Forget(uint64)                                       {}

func good() stated { return stated{Identity: netproto.Identity{Vocab: 10}} }

const secretA, secretB = netproto.Secret("0123456789abcdef"), netproto.Secret("fedcba9876543210")

// TestOptions: invalid options are refused by name.
func TestOptions(t *testing.T) {
	for part, c := range map[string]struct {
		o    Options
		info func(*stated)
	}{
		"Info.MaxContext":     {Options{}, func(s *stated) { s.MaxContext = -1 }},
		"the protocol allows": {Options{}, func(s *stated) { s.MaxContext = netproto.MaxPosition + 1 }},
		"MaxTokens":           {Options{MaxTokens: -1}, nil},
		"MaxConns ":           {Options{MaxConns: -1}, nil},
		"DeviceRate":          {Options{DeviceRate: math.NaN()}, nil},
		"DeviceRate is -1":    {Options{DeviceRate: -1}, nil},
		"DeviceRate is +Inf":  {Options{DeviceRate: math.Inf(1)}, nil},
		"have the name": {
			Options{Tokens: []Token{{Name: "a", Secret: secretA}, {Name: "a", Secret: secretB}}}, nil,
		},
		"the same secret": {
			Options{Tokens: []Token{{Name: "a", Secret: secretA}, {Name: "b", Secret: secretA}}}, nil,
		},
		"\"rate\" has a limit": {Options{Tokens: []Token{{Name: "rate", Secret: secretA, AskRate: -1}}}, nil},
		"\"many\" has a limit": {Options{Tokens: []Token{{Name: "many", Secret: secretA, MaxDevices: -1}}}, nil},
		"at least 0":           {Options{Tokens: []Token{{Name: "a", Secret: secretA, AskRate: math.Inf(1)}}}, nil},
		"IdleTimeout":          {Options{IdleTimeout: -1}, nil},
		"MessageTimeout":       {Options{MessageTimeout: -1}, nil},
		"AskTimeout":           {Options{AskTimeout: -1}, nil},
		"fewer than 16 bytes":  {Options{Tokens: []Token{{Name: "a", Secret: secretA[:15]}}}, nil},
		"Info.Parallel":        {Options{}, func(s *stated) { s.Parallel = -1 }},
		"a vocabulary of 0":    {Options{}, func(s *stated) { s.Identity.Vocab = 0 }},
		"a vocabulary of 1677": {Options{}, func(s *stated) { s.Identity.Vocab = netproto.MaxVocab + 1 }},
		"dictionary 3":         {Options{Dictionary: netproto.Dictionary{ID: 3, Bytes: []byte("none")}}, nil},
	} {
		t.Run(part, func(t *testing.T) {
			up := good()
			if c.info != nil {
				c.info(&up)
			}
			_, err := New(c.o, up)
			require.ErrorContains(t, err, part)
		})
	}
}

// TestDefaults: unset options get their defaults; others do not change.
func TestDefaults(t *testing.T) {
	o, err := Options{}.withDefaults(Info(good()))
	require.NoError(t, err)
	assert.Equal(t, Options{
		MaxTokens: 16 << 20, MaxConns: 8192,
		IdleTimeout: 30 * time.Second, MessageTimeout: 5 * time.Second, AskTimeout: time.Minute,
		derived: derivedLimits{
			MaxContext: 32768, MaxSessions: 65536, MaxSessionsPerDevice: 64, MaxSessionTokens: 4 * 32768,
			MaxConnsPerAddress: 4096, MaxConnsPerDevice: 8, MaxAsks: 4096, MaxAsksPerDevice: 256, MaxStreams: 128,
			SessionIdle: 15 * time.Minute, DrainTimeout: 10 * time.Second,
		},
	}, o)
	assert.Equal(t, 3*32768+256, o.maxMessageBytes())
	twenty := Info{MaxContext: 20, Identity: netproto.Identity{Vocab: 1}}
	o, err = Options{MaxConns: 1 << 14}.withDefaults(twenty)
	require.NoError(t, err)
	assert.Equal(t, []int{20, 80, 8192, 16}, []int{o.derived.MaxContext, o.derived.MaxSessionTokens,
		o.derived.MaxConnsPerAddress, o.derived.MaxConnsPerDevice})
	o, err = Options{MaxConns: 1}.withDefaults(twenty)
	require.NoError(t, err)
	assert.Equal(t, 1, o.derived.MaxConnsPerAddress)
	o, err = Options{}.withDefaults(Info{MaxContext: netproto.MaxPosition,
		Identity: netproto.Identity{Vocab: netproto.MaxVocab}})
	require.NoError(t, err)
	assert.Equal(t, netproto.MaxPosition, o.derived.MaxContext)
	assert.Equal(t, netproto.MaxMessage, o.maxMessageBytes())
}

// TestResetKey: the key of stateless resets is derived from the certificate: the same after a restart, and different
// for another certificate.
func TestResetKey(t *testing.T) {
	one, err := Options{}.certificateOrNew()
	require.NoError(t, err)
	other, err := Options{}.certificateOrNew()
	require.NoError(t, err)
	var keys []quic.StatelessResetKey
	for _, c := range []tls.Certificate{one, one, other} {
		g, err := New(Options{Certificate: c}, good())
		require.NoError(t, err)
		keys = append(keys, g.resetKey)
		assert.Equal(t, netproto.Digest(sha256.Sum256(c.Certificate[0])), g.Fingerprint())
	}
	assert.Equal(t, keys[0], keys[1])
	assert.NotEqual(t, keys[0], keys[2])
	assert.NotEqual(t, keys[0], quic.StatelessResetKey{})
	one.PrivateKey = "none"
	_, err = New(Options{Certificate: one}, good())
	require.ErrorContains(t, err, "gateway: private key: ")
}

// TestNewCertificate: a new certificate is for the given hosts, valid for 20 years and from an hour before now, because
// clocks differ; each one is different.
func TestNewCertificate(t *testing.T) {
	var serials []string
	for range 2 {
		certificate, key, err := NewCertificate("example.org", "10.0.0.1", "::1")
		require.NoError(t, err)
		pair, err := tls.X509KeyPair(certificate, key)
		require.NoError(t, err)
		c, err := x509.ParseCertificate(pair.Certificate[0])
		require.NoError(t, err)
		for _, host := range []string{"example.org", "10.0.0.1", "::1"} {
			assert.NoError(t, c.VerifyHostname(host))
		}
		for _, host := range []string{"example.com", "10.0.0.2"} {
			assert.Error(t, c.VerifyHostname(host))
		}
		assert.InDelta(t, -1, time.Until(c.NotBefore).Hours(), 0.1)
		assert.InDelta(t, 20*365.25, time.Until(c.NotAfter).Hours()/24, 0.1)
		roots := x509.NewCertPool()
		roots.AddCert(c)
		_, err = c.Verify(x509.VerifyOptions{DNSName: "example.org", Roots: roots,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		assert.NoError(t, err)
		assert.Equal(t, x509.KeyUsageDigitalSignature, c.KeyUsage)
		assert.True(t, c.BasicConstraintsValid)
		assert.False(t, c.IsCA)
		assert.Equal(t, "pilotfish gateway", c.Subject.CommonName)
		serials = append(serials, c.SerialNumber.String())
	}
	assert.NotEqual(t, serials[0], serials[1])
	_, err := Fingerprint(tls.Certificate{})
	require.Error(t, err)
	for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
		c, err := Options{}.certificateOrNew()
		require.NoError(t, err)
		parsed, err := x509.ParseCertificate(c.Certificate[0])
		require.NoError(t, err)
		assert.NoError(t, parsed.VerifyHostname(host))
	}
}

// TestCodes: the code of an error is the one that it wraps; a deadline is TooLate, and any other error is a failure of
// the model. The client gets only what a refusal contains.
func TestCodes(t *testing.T) {
	refusal := netproto.Refusal{Code: netproto.Busy, RetryAfter: time.Second, Detail: "full"}
	for _, c := range []struct {
		name string
		err  error
		want netproto.Refusal
	}{
		{"another error", errors.New("x"), netproto.Refusal{Code: netproto.Failed}},
		{"a code", fmt.Errorf("x: %w", netproto.TooFast), netproto.Refusal{Code: netproto.TooFast}},
		{"a refusal", fmt.Errorf("x: %w", refusal), refusal},
		{"a deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), netproto.Refusal{Code: netproto.TooLate}},
		{"cancelled", context.Canceled, netproto.Refusal{Code: netproto.Failed}},
		{"malformed", malformedError(nil), netproto.Refusal{Code: netproto.Malformed}},
		{"truncated", malformedError(io.EOF), netproto.Refusal{Code: netproto.Malformed}},
		{"too long", malformedError(netproto.ErrTooLong), netproto.Refusal{Code: netproto.TooLarge}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, refusalOf(c.err))
			assert.Equal(t, c.want.Code, errorCode(c.err))
		})
	}
	assert.Equal(t, netproto.Malformed, malformedError(nil))
	assert.ErrorIs(t, malformedError(io.EOF), io.EOF)
	assert.ErrorIs(t, malformedError(netproto.ErrTooLong), netproto.ErrTooLong)
}
