package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// configFile is what a configuration file says. It is YAML: that is what the tools around a gateway speak (compose,
// Kubernetes, Prometheus), and its nodes know their lines, which messages name.
type configFile struct {
	values []configValue
	tokens []engine.GatewayToken

	name  string
	flags *pflag.FlagSet // takes every value, to see whether it is right
	names string         // what a key can be, for messages
}

type configValue struct {
	flag   string
	values []string
	line   int
}

// readConfig reads a configuration file. flags are those of `pilotfish cloud`, all unset; they are changed. No error
// repeats a secret.
func readConfig(name string, flags *pflag.FlagSet) (*configFile, error) {
	b, err := readConfigBytes(name)
	if err != nil {
		return nil, err
	}
	return parseConfig(name, b, flags)
}

// document returns the node of the only document of a file; nil where it holds nothing but comments.
func (c *configFile) document(b []byte) (*yaml.Node, error) {
	var first, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(b))
	err := d.Decode(&first)
	if errors.Is(err, io.EOF) { // nothing but comments
		return nil, nil
	}
	if err == nil {
		if err = d.Decode(&second); err == nil {
			return nil, c.at(&second, "a second document: one file has one")
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, c.noYAML(err)
	}
	if isNull(first.Content[0]) {
		return nil, nil
	}
	return first.Content[0], nil
}

func parseConfig(name string, b []byte, flags *pflag.FlagSet) (*configFile, error) {
	c := &configFile{name: name, flags: flags, names: "those of the flags in `pilotfish cloud --help`, and tokens"}
	root, err := c.document(b)
	if root == nil || err != nil {
		return c, err
	}
	seen := map[string]int{}
	err = c.each(root, seen, func(key, value *yaml.Node) error {
		if key.Value == "tokens" {
			return c.readTokens(value)
		}
		return c.readFlag(key, value)
	})
	if err == nil && seen["tokens"] > 0 && seen["token-file"] > 0 {
		err = fmt.Errorf("%s:%d: tokens and token-file: keep one of them", name,
			max(seen["tokens"], seen["token-file"]))
	}
	return c, err
}

// noYAML says where a file is no YAML. What the parser says of it could show a secret.
func (c *configFile) noYAML(err error) error {
	line := "1"
	if found := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error()); found != nil {
		line = found[1]
	}
	return fmt.Errorf("%s:%s: this is no YAML: look at quotes, colons and indentation here", c.name, line)
}

// at is an error at a node.
func (c *configFile) at(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", c.name, n.Line, fmt.Errorf(format, args...))
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// each calls do with the entries of a mapping, none of which may be there twice. seen is their lines.
func (c *configFile) each(n *yaml.Node, seen map[string]int, do func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return c.at(n, "write NAME: VALUE here")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return c.at(key, "write NAME: VALUE here")
		}
		if before := seen[key.Value]; before > 0 {
			return c.at(key, "%s is in line %d already", key.Value, before)
		}
		seen[key.Value] = key.Line
		if err := do(key, value); err != nil {
			return err
		}
	}
	return nil
}

// readFlag reads the value of a flag.
func (c *configFile) readFlag(key, value *yaml.Node) error {
	flag := c.flags.Lookup(key.Value)
	switch {
	case flag == nil:
		return c.at(key, "%q is no setting: the names are %s", key.Value, c.names)
	case flag.Name == "help" || flag.Name == "config" || flag.Name == "check-config":
		return c.at(key, "%s belongs on the command line", flag.Name)
	}
	if _, ok := flag.Value.(*optionsFlag); ok && value.Kind == yaml.MappingNode {
		value = asList(value)
	}
	nodes := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		if nodes = value.Content; !isList(flag) {
			return c.at(value, "%s has one value, this is a list", flag.Name)
		}
	}
	v := configValue{flag: flag.Name, line: value.Line}
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || isNull(n) {
			return c.at(n, "%s: write a value, or leave the line out", flag.Name)
		}
		if err := c.flags.Set(flag.Name, n.Value); err != nil {
			return c.at(n, "%w", flagFault(err))
		}
		v.values = append(v.values, n.Value)
	}
	c.values = append(c.values, v)
	return nil
}

// asList makes a list of NAME=VALUE of a mapping.
func asList(m *yaml.Node) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Line: m.Line}
	for i := 0; i+1 < len(m.Content); i += 2 {
		n := *m.Content[i+1]
		n.Value = m.Content[i].Value + "=" + n.Value
		list.Content = append(list.Content, &n)
	}
	return list
}

// readTokens reads the list of access tokens.
func (c *configFile) readTokens(list *yaml.Node) error {
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return c.at(list, "tokens: write a list, with a name and a secret, or a secret-file, for each")
	}
	names, secrets := map[string]bool{}, map[netproto.Secret]bool{}
	for _, n := range list.Content {
		t, err := c.readToken(n)
		if err != nil {
			return err
		}
		if names[t.Name] || secrets[t.Secret] {
			return c.at(n, "another token has the same name, or the same secret, as %q", t.Name)
		}
		names[t.Name], secrets[t.Secret] = true, true
		c.tokens = append(c.tokens, t)
	}
	return nil
}

func (c *configFile) readToken(n *yaml.Node) (t engine.GatewayToken, err error) {
	seen := map[string]int{}
	err = c.each(n, seen, func(key, value *yaml.Node) error {
		if value.Kind != yaml.ScalarNode || isNull(value) {
			return c.at(value, "write one value here")
		}
		switch key.Value {
		case "name":
			t.Name = value.Value
		case "secret":
			t.Secret = netproto.Secret(value.Value)
		case "secret-file":
			b, err := os.ReadFile(value.Value)
			if err != nil {
				return c.at(value, "secret-file: %w", err)
			}
			t.Secret = netproto.Secret(strings.TrimSpace(string(b)))
		case "private":
			if err := value.Decode(&t.Private); err != nil {
				return c.at(value, "private: write true or false")
			}
		default:
			if err := parseLimit(&t, key.Value+"="+value.Value); err != nil {
				return c.at(key, "a token has name, secret or secret-file, and limits: %w", err)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return t, err
	case !namedToken.MatchString(t.Name + ":"):
		return t, c.at(n, "give the token a name of letters, digits, dots, dashes and underscores")
	case (seen["secret"] > 0) == (seen["secret-file"] > 0):
		return t, c.at(n, "the token %q needs a secret or a secret-file, and not both", t.Name)
	case len(t.Secret) < minToken || strings.ContainsAny(string(t.Secret), "\r\n"):
		return t, c.at(n, "the secret of %q must be one line of at least %d bytes", t.Name, minToken)
	case t.AskBurst > 0 && t.AskRate == 0:
		return t, c.at(n, "the token %q has a burst without a rate", t.Name)
	}
	return t, nil
}
