package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// ConfigFile parses a configuration file. The format is YAML: the tools around a gateway use it (compose, Kubernetes,
// Prometheus), and its nodes have line numbers for messages.
type ConfigFile struct {
	Values []configValue

	Name  string
	Flags *pflag.FlagSet // used to check the values
	Names string         // valid keys, for messages
}

type configValue struct {
	Flag   string
	Values []string
	Line   int
}

// Document returns the node of the only document of a file; nil if the file has nothing but comments.
func (c *ConfigFile) Document(b []byte) (*yaml.Node, error) {
	var first, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(b))
	err := d.Decode(&first)
	if errors.Is(err, io.EOF) { // nothing but comments
		return nil, nil
	}
	if err == nil {
		if err = d.Decode(&second); err == nil {
			return nil, c.At(&second, "a second document: one file has one")
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, c.noYAML(err)
	}
	if IsNull(first.Content[0]) {
		return nil, nil
	}
	return first.Content[0], nil
}

// noYAML returns the error for a file that is not YAML. It leaves out the message of the parser, which could contain a
// secret.
func (c *ConfigFile) noYAML(err error) error {
	line := "1"
	if found := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error()); found != nil {
		line = found[1]
	}
	return fmt.Errorf("%s:%s: this is not YAML: look at quotes, colons and indentation here", c.Name, line)
}

// At returns an error with the line of a node.
func (c *ConfigFile) At(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", c.Name, n.Line, fmt.Errorf(format, args...))
}

// IsNull reports whether a node has no value.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Each calls do for the entries of a mapping and refuses duplicate keys. seen has the lines of the keys.
func (c *ConfigFile) Each(n *yaml.Node, seen map[string]int, do func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return c.At(n, "write NAME: VALUE here")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return c.At(key, "write NAME: VALUE here")
		}
		if before := seen[key.Value]; before > 0 {
			return c.At(key, "%s is in line %d already", key.Value, before)
		}
		seen[key.Value] = key.Line
		if err := do(key, value); err != nil {
			return err
		}
	}
	return nil
}

// ReadFlag parses the value of a flag.
func (c *ConfigFile) ReadFlag(key, value *yaml.Node) error {
	flag := c.Flags.Lookup(key.Value)
	switch {
	case flag == nil:
		return c.At(key, "%q is no setting: the names are %s", key.Value, c.Names)
	case flag.Name == "help" || flag.Name == "config" || flag.Name == "check-config":
		return c.At(key, "%s belongs on the command line", flag.Name)
	}
	if _, ok := flag.Value.(*OptionsFlag); ok && value.Kind == yaml.MappingNode {
		value = asList(value)
	}
	nodes := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		if nodes = value.Content; !IsList(flag) {
			return c.At(value, "%s has one value, this is a list", flag.Name)
		}
	}
	v := configValue{Flag: flag.Name, Line: value.Line}
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || IsNull(n) {
			return c.At(n, "%s: write a value, or leave the line out", flag.Name)
		}
		if err := c.Flags.Set(flag.Name, n.Value); err != nil {
			return c.At(n, "%w", FlagFault(err))
		}
		v.Values = append(v.Values, n.Value)
	}
	c.Values = append(c.Values, v)
	return nil
}

// asList converts a mapping to a list of NAME=VALUE.
func asList(m *yaml.Node) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Line: m.Line}
	for i := 0; i+1 < len(m.Content); i += 2 {
		n := *m.Content[i+1]
		n.Value = m.Content[i].Value + "=" + n.Value
		list.Content = append(list.Content, &n)
	}
	return list
}

// IsList reports whether a flag accepts several values.
func IsList(flag *pflag.Flag) bool {
	_, list := flag.Value.(pflag.SliceValue)
	return list
}
