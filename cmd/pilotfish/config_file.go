package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// configFile is what a configuration file says. It is YAML: that is what the tools around a gateway speak (compose,
// Kubernetes, Prometheus), and its nodes know their lines, which messages name.
type configFile struct {
	values []configValue

	name  string
	flags *pflag.FlagSet // takes every value, to see whether it is right
	names string         // what a key can be, for messages
}

type configValue struct {
	flag   string
	values []string
	line   int
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

func isList(flag *pflag.Flag) bool {
	_, list := flag.Value.(pflag.SliceValue)
	return list
}
