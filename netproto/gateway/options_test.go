package gateway

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stated is an upstream that states something.
type stated Info

func (s stated) Info() Info                                  { return Info(s) }
func (stated) Ask(context.Context, Question) (Answer, error) { return Answer{}, nil }
func (stated) Forget(uint64)                                 {}
func good() stated                                           { return stated{Identity: netproto.Identity{Vocab: 10}} }

const secretA, secretB = netproto.Secret("0123456789abcdef"), netproto.Secret("fedcba9876543210")

// What makes no sense is refused by name; what is not stated has its default, and the Welcome says what holds.
func TestOptions(t *testing.T) {
	for part, c := range map[string]struct {
		o    Options
		info func(*stated)
	}{
		"MaxContext":           {Options{MaxContext: -1}, nil},
		"the protocol allows":  {Options{MaxContext: netproto.MaxPosition + 1}, nil},
		"MaxSessions":          {Options{MaxSessions: -1}, nil},
		"MaxSessionTokens":     {Options{MaxSessionTokens: -1}, nil},
		"MaxTokens":            {Options{MaxTokens: -1}, nil},
		"MaxConns ":            {Options{MaxConns: -1}, nil},
		"MaxConnsPerAddress":   {Options{MaxConnsPerAddress: -1}, nil},
		"MaxConnsPerDevice":    {Options{MaxConnsPerDevice: -1}, nil},
		"MaxSessionsPerDevice": {Options{MaxSessionsPerDevice: -1}, nil},
		"MaxAsks ":             {Options{MaxAsks: -1}, nil},
		"MaxAsksPerDevice":     {Options{MaxAsksPerDevice: -1}, nil},
		"DeviceRate":           {Options{DeviceRate: math.NaN()}, nil},
		"DeviceBurst":          {Options{DeviceBurst: -1}, nil},
		"have the name":        {Options{Tokens: []Token{{Name: "a", Secret: secretA}, {Name: "a", Secret: secretB}}}, nil},
		"the same secret":      {Options{Tokens: []Token{{Name: "a", Secret: secretA}, {Name: "b", Secret: secretA}}}, nil},
		"at least 0":           {Options{Tokens: []Token{{Name: "a", Secret: secretA, AskRate: math.Inf(1)}}}, nil},
		"MaxStreams":           {Options{MaxStreams: -1}, nil},
		"SessionIdle":          {Options{SessionIdle: -1}, nil},
		"IdleTimeout":          {Options{IdleTimeout: -1}, nil},
		"MessageTimeout":       {Options{MessageTimeout: -1}, nil},
		"AskTimeout":           {Options{AskTimeout: -1}, nil},
		"DrainTimeout":         {Options{DrainTimeout: -1}, nil},
		"fewer than 16 bytes":  {Options{Tokens: []Token{{Name: "a", Secret: "short"}}}, nil},
		"Info.Parallel":        {Options{}, func(s *stated) { s.Parallel = -1 }},
		"a vocabulary of 0":    {Options{}, func(s *stated) { s.Identity.Vocab = 0 }},
		"dictionary 3":         {Options{Dictionaries: []netproto.Dictionary{{ID: 3, Bytes: []byte("none")}}}, nil},
	} {
		up := good()
		if c.info != nil {
			c.info(&up)
		}
		_, err := New(c.o, up)
		require.ErrorContains(t, err, part)
	}
	g, err := New(Options{MaxStreams: 7}, good())
	require.NoError(t, err)
	assert.Equal(t, netproto.Limits{Context: 32768, Sessions: 64, Asks: 7, Message: 3*32768 + 256}, g.opt.limits())
	assert.Equal(t, 10*time.Second, g.opt.DrainTimeout)
	assert.Equal(t, 32, g.turns.free)
	up := good()
	up.Parallel = 1
	g, err = New(Options{}, up)
	require.NoError(t, err)
	assert.Equal(t, 1, g.turns.free)
}
