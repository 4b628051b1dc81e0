package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
)

// testCase is one request of the list.
type testCase struct {
	Name   string          `json:"name"`   // of the transcript's file: lower-case letters, digits, hyphens
	Method string          `json:"method"` // "": GET without a body, else POST
	Path   string          `json:"path"`   // begins with a slash
	Body   json.RawMessage `json:"body"`   // JSON; absent: none
	Key    string          `json:"key"`    // sent instead of the engine's own key
	Status int             `json:"status"` // expected; 0: 200
	Keep   []string        `json:"keep"`   // fields of the reply to record; none: the whole reply
}

// readCases reads a list of cases, checks them and sets defaults.
func readCases(path string) ([]testCase, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var all []testCase
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	seen := map[string]bool{}
	for i := range all {
		c := &all[i]
		if err := c.complete(); err != nil {
			return nil, fmt.Errorf("%s: case %d: %w", path, i, err)
		}
		if seen[c.Name] {
			return nil, fmt.Errorf("%s: case %d: the name %q is used twice", path, i, c.Name)
		}
		seen[c.Name] = true
	}
	return all, nil
}

func (c *testCase) complete() error {
	if !regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(c.Name) {
		return fmt.Errorf("name %q: use small letters, digits and hyphens", c.Name)
	}
	if len(c.Path) == 0 || c.Path[0] != '/' {
		return fmt.Errorf("%s: path %q does not begin with a slash", c.Name, c.Path)
	}
	if c.Method == "" {
		c.Method = "POST"
		if c.Body == nil {
			c.Method = "GET"
		}
	}
	if c.Status == 0 {
		c.Status = 200
	}
	return nil
}
