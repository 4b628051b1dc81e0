package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

// configured parses a configuration file for some flags, and returns "FLAG=VALUE,VALUE:LINE" for each of its entries.
func configured(text string) (got string, err error) {
	p := pflag.NewFlagSet("", pflag.ContinueOnError)
	p.Int("threads", 0, "")
	p.Bool("check-config", false, "")
	p.StringArray("upstream", nil, "")
	p.Duration("drain", time.Second, "")
	AddOptions(p, "limit").Int("queue", 0, "")
	c := &ConfigFile{Name: "f", Flags: p, Names: "all"}
	err = c.Parse([]byte(text))
	var all []string
	for _, v := range c.Values {
		all = append(all, fmt.Sprintf("%s=%s:%d: ", v.Flag, strings.Join(v.Values, ","), v.Line))
	}
	return strings.Join(all, " "), err
}

// TestConfigEntries: the values of a configuration file with their lines, or the first error with its line and no
// value.
func TestConfigEntries(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "# nothing\n": "", "null": "", "~\n": "",
		"threads: 3": "threads=3:1: ", "\ndrain: 5s\n": "drain=5s:2: ",
		"upstream: a":                       "upstream=a:1: ",
		"upstream:\n- a\n- b\nthreads: 1":   "upstream=a,b:2:  threads=1:4: ",
		"limit: {queue: 7}":                 "limit=queue=7:1: ",
		"limit:\n  queue: 7\nthreads: 2":    "limit=queue=7:2:  threads=2:3: ",
		"limit: [queue=7]":                  "limit=queue=7:1: ",
		"threads: 1\n---\nthreads: 2":       "f:2: a second document: one file has one",
		"threads: 1\n  drain: secret: 2":    "f:2: this is not YAML: look at quotes, colons and indentation here",
		"[secret]":                          "f:1: write NAME: VALUE here",
		"? [secret]\n: 1":                   "f:1: write NAME: VALUE here",
		"threads: 1\ndrain: 1s\nthreads: 2": "f:3: threads is in line 1 already",
		"thread: 1":                         `f:1: "thread" is no setting: the names are all`,
		"check-config: true":                "f:1: check-config belongs on the command line",
		"threads: [1]":                      "f:1: threads has one value, this is a list",
		"threads: {a: 1}":                   "f:1: threads: write a value, or leave the line out",
		"threads:":                          "f:1: threads: write a value, or leave the line out",
		"upstream: [a, ~]":                  "f:1: upstream: write a value, or leave the line out",
		"\nthreads: x":                      `f:2: --threads "x" is not a whole number`,
		"limit:\n  queue: 1\n  que: 2":      `f:3: --limit: there is no "que": choose queue`,
	} {
		got, err := configured(text)
		if strings.HasPrefix(want, "f:") {
			assert.EqualError(t, err, want, text)
			continue
		}
		assert.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}
