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

// Parse reads a file: a mapping of flags to values. It sets the flags.
func (c *ConfigFile) Parse(b []byte) error {
	root, err := c.parseDocument(b)
	if root == nil || err != nil {
		return err
	}
	if root.Kind != yaml.MappingNode {
		return c.errorAt(root, "write NAME: VALUE here")
	}
	seen := map[string]int{} // lines of keys
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := root.Content[i]
		if key.Kind != yaml.ScalarNode {
			return c.errorAt(key, "write NAME: VALUE here")
		}
		if before := seen[key.Value]; before > 0 {
			return c.errorAt(key, "%s is in line %d already", key.Value, before)
		}
		seen[key.Value] = key.Line
		if err := c.readFlag(key, root.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// parseDocument returns the node of the only document of a file; nil if the file has nothing but comments.
func (c *ConfigFile) parseDocument(b []byte) (*yaml.Node, error) {
	var first, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(b))
	err := d.Decode(&first)
	if errors.Is(err, io.EOF) { // nothing but comments
		return nil, nil
	}
	if err == nil {
		if err = d.Decode(&second); err == nil {
			return nil, c.errorAt(&second, "a second document: one file has one")
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, c.yamlSyntaxError(err)
	}
	if isNullNode(first.Content[0]) {
		return nil, nil
	}
	return first.Content[0], nil
}

// yamlSyntaxError returns the error for a file that is not YAML. It leaves out the message of the parser, which could
// contain a secret.
func (c *ConfigFile) yamlSyntaxError(err error) error {
	line := "1"
	if found := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error()); found != nil {
		line = found[1]
	}
	return fmt.Errorf("%s:%s: this is not YAML: look at quotes, colons and indentation here", c.Name, line)
}

func (c *ConfigFile) errorAt(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", c.Name, n.Line, fmt.Errorf(format, args...))
}

func isNullNode(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (c *ConfigFile) readFlag(key, value *yaml.Node) error {
	flag := c.Flags.Lookup(key.Value)
	switch {
	case flag == nil:
		return c.errorAt(key, "%q is no setting: the names are %s", key.Value, c.Names)
	case flag.Name == "help" || flag.Name == "config" || flag.Name == "check-config":
		return c.errorAt(key, "%s belongs on the command line", flag.Name)
	}
	if _, ok := flag.Value.(*OptionsFlag); ok && value.Kind == yaml.MappingNode {
		value = mappingToList(value)
	}
	nodes := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		if nodes = value.Content; !IsList(flag) {
			return c.errorAt(value, "%s has one value, this is a list", flag.Name)
		}
	}
	v := configValue{Flag: flag.Name, Line: value.Line}
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || isNullNode(n) {
			return c.errorAt(n, "%s: write a value, or leave the line out", flag.Name)
		}
		if err := c.Flags.Set(flag.Name, n.Value); err != nil {
			return c.errorAt(n, "%w", FlagFault(err))
		}
		v.Values = append(v.Values, n.Value)
	}
	c.Values = append(c.Values, v)
	return nil
}

func mappingToList(m *yaml.Node) *yaml.Node {
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
