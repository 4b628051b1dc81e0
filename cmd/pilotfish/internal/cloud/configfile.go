package cloud

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// gatewayConfig is the configuration file of a gateway.
type gatewayConfig struct {
	cli.ConfigFile
	tokens  []engine.GatewayToken
	secrets []string // files with their secrets
}

// readConfig reads a configuration file. flags are the flags of `pilotfish cloud`, all unset; readConfig sets them.
// Errors do not contain secrets.
func readConfig(name string, flags *pflag.FlagSet) (*gatewayConfig, error) {
	b, err := cli.ReadConfigBytes(name)
	if err != nil {
		return nil, err
	}
	return parseConfig(name, b, flags)
}

func parseConfig(name string, b []byte, flags *pflag.FlagSet) (*gatewayConfig, error) {
	c := &gatewayConfig{ConfigFile: cli.ConfigFile{Name: name, Flags: flags,
		Names: "those of the flags in `pilotfish cloud --help`, and tokens"}}
	root, err := c.Document(b)
	if root == nil || err != nil {
		return c, err
	}
	seen := map[string]int{}
	err = c.Each(root, seen, func(key, value *yaml.Node) error {
		if key.Value == "tokens" {
			return c.readTokens(value)
		}
		return c.ReadFlag(key, value)
	})
	if err == nil && seen["tokens"] > 0 && seen["token-file"] > 0 {
		err = fmt.Errorf("%s:%d: tokens and token-file: keep one of them", name,
			max(seen["tokens"], seen["token-file"]))
	}
	return c, err
}

// readTokens reads the list of access tokens.
func (c *gatewayConfig) readTokens(list *yaml.Node) error {
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return c.At(list, "tokens: write a list, with a name and a secret, or a secret-file, for each")
	}
	names, secrets := map[string]bool{}, map[netproto.Secret]bool{}
	for _, n := range list.Content {
		t, err := c.readToken(n)
		if err != nil {
			return err
		}
		if names[t.Name] || secrets[t.Secret] {
			return c.At(n, "another token has the same name, or the same secret, as %q", t.Name)
		}
		names[t.Name], secrets[t.Secret] = true, true
		c.tokens = append(c.tokens, t)
	}
	return nil
}

func (c *gatewayConfig) readToken(n *yaml.Node) (t engine.GatewayToken, err error) {
	seen := map[string]int{}
	err = c.Each(n, seen, func(key, value *yaml.Node) error {
		if value.Kind != yaml.ScalarNode || cli.IsNull(value) {
			return c.At(value, "write one value here")
		}
		switch key.Value {
		case "name":
			t.Name = value.Value
		case "secret":
			t.Secret = netproto.Secret(value.Value)
			c.secrets = append(c.secrets, c.Name)
		case "secret-file":
			b, err := cli.ReadSmall(value.Value, cli.MaxSecrets)
			if err != nil {
				return c.At(value, "secret-file: %w", err)
			}
			t.Secret = netproto.Secret(strings.TrimSpace(string(b)))
			c.secrets = append(c.secrets, value.Value)
		case "private":
			if err := value.Decode(&t.Private); err != nil {
				return c.At(value, "private: write true or false")
			}
		default:
			if err := parseLimit(&t, key.Value+"="+value.Value); err != nil {
				return c.At(key, "a token has name, secret or secret-file, and limits: %w", err)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return t, err
	case !namedToken.MatchString(t.Name + ":"):
		return t, c.At(n, "give the token a name of letters, digits, dots, dashes and underscores")
	case (seen["secret"] > 0) == (seen["secret-file"] > 0):
		return t, c.At(n, "the token %q needs a secret or a secret-file, and not both", t.Name)
	case len(t.Secret) < minToken || strings.ContainsAny(string(t.Secret), "\r\n"):
		return t, c.At(n, "the secret of %q must be one line of at least %d bytes", t.Name, minToken)
	}
	return t, nil
}
