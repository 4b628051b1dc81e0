package group

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestGatewayOptions: each option of the root package reaches the engine's option of the same name.
func TestGatewayOptions(t *testing.T) {
	pin := strings.Repeat("ab", 32)
	e, err := new(GatewayFlags).Engine(pilotfish.DialOptions{
		Lazy: true, Token: "secret", Pin: pin, TicketFolder: "tickets", Device: netproto.Device{7},
		Dictionaries: []netproto.Dictionary{{ID: 9}},
	})
	require.NoError(t, err)
	want, err := ParsePin(pin)
	require.NoError(t, err)
	assert.Equal(t, engine.DialOptions{Lazy: true, Secret: "secret", Pin: want, TicketFolder: "tickets",
		Device: netproto.Device{7}, Dictionaries: []netproto.Dictionary{{ID: 9}}}, e)
}

// TestModelOptions: each option of a model reaches the root package under its name.
func TestModelOptions(t *testing.T) {
	for _, m := range []ModelFlags{
		{Threads: 3, context: 70, Kv: "f16", Backend: "soft:check", huge: "off"},
		{Threads: 2, context: 9, Kv: "f32", Backend: "cpu", huge: "on", Exact: true},
	} {
		engine, err := m.Options()
		require.NoError(t, err)
		public, err := m.Public()
		require.NoError(t, err)
		from, to := reflect.ValueOf(engine), reflect.ValueOf(public)
		for i := range to.NumField() {
			name := to.Type().Field(i).Name
			if f := from.FieldByName(name); f.IsValid() {
				assert.Equal(t, f.Convert(to.Field(i).Type()).Interface(), to.Field(i).Interface(), name)
			}
		}
		assert.Equal(t, []any{m.Threads, m.context, m.Kv, m.Backend, m.huge, m.Exact}, []any{public.Threads,
			public.Context, public.KV, public.Backend, public.HugePages, public.Exact})
	}
}

// TestFilesAreBounded: a schema or a dictionary of another size than any has is refused by its flag, and not read.
func TestFilesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 64<<20+1))
	var f AnswerFlags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.Register(set, "")
	require.NoError(t, set.Parse([]string{"--json-schema", path}))
	assert.ErrorContains(t, f.Parse(set), "--json-schema: "+path+" has more than 4194304 bytes")
	_, err := ReadDictionaries([]string{"3:" + path})
	assert.ErrorContains(t, err, "--dictionary: "+path+" has more than 67108864 bytes")
}
