package group

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// AnswerFlags has the flags for the generation of an answer.
type AnswerFlags struct {
	terms.Settings          // complete after [AnswerFlags.Parse]
	stop, bias     []string // as given on the command line
	schema         string
}

// Register adds the flags of all commands with answers.
func (f *AnswerFlags) Register(p *pflag.FlagSet, repeats string) {
	for _, n := range f.Numbers() {
		switch to := n.To.(type) {
		case *float64:
			cli.Add(p, n.Flag, to, n.Off)
		case *int:
			cli.Add(p, n.Flag, to, int(n.Off))
		}
	}
	cli.Add(p, "seed", &f.Seed, 0)
	cli.Add(p, "stop", &f.stop, nil)
	cli.Add(p, "logit-bias", &f.bias, nil)
	cli.Add(p, "json-schema", &f.schema, "")
}

// Parse completes the settings with flags that contain texts or name files. Without --seed it draws a seed.
func (f *AnswerFlags) Parse(set *pflag.FlagSet) (err error) {
	if f.Temperature > 0 && !set.Changed("seed") {
		f.Seed = DrawSeed()
	}
	for _, text := range f.stop {
		stop, err := unescapeStop(text)
		if err != nil {
			return err
		}
		f.Stop = append(f.Stop, stop)
	}
	for _, text := range f.bias {
		id, bias, err := parseLogitBias(text)
		if err != nil {
			return err
		}
		if f.LogitBias == nil {
			f.LogitBias = map[int32]float32{}
		}
		f.LogitBias[id] = bias
	}
	f.IgnoreEnd = f.IgnoreEnd && f.schema == "" // the end of the value ends the answer

	f.Complete = f.schema != "" // a reader of JSON needs a complete value; the output says if the model did not end it
	switch {
	case f.schema == "":
	case strings.HasPrefix(strings.TrimSpace(f.schema), "{"):
		f.Schema = []byte(f.schema)
	default:
		f.Schema, err = cli.ReadSmall(f.schema, 4<<20) // as long as a request to serve
		if err != nil {
			return fmt.Errorf("--json-schema: %w", err)
		}
	}
	return nil
}

func unescapeStop(text string) (string, error) {
	var b strings.Builder
	for rest := text; rest != ""; {
		r, multibyte, tail, err := strconv.UnquoteChar(rest, 0)
		if err != nil {
			return "", cli.Usagef("--stop %s has an escape that Go does not have: write \\\\ for a backslash",
				strconv.Quote(text))
		}
		if rest = tail; multibyte || r < 0x80 {
			b.WriteRune(r)
		} else {
			b.WriteByte(byte(r))
		}
	}
	return b.String(), nil
}

func parseLogitBias(text string) (id int32, bias float32, err error) {
	left, right, _ := strings.Cut(text, "=")
	n, err1 := strconv.ParseInt(left, 10, 32)
	v, err2 := strconv.ParseFloat(right, 32)
	if err1 != nil || err2 != nil || n < 0 || !(v >= -100 && v <= 100) {
		return 0, 0, cli.Usagef("--logit-bias %s is not a token id and a bias of -100 to 100, such as 1234=-5", text)
	}
	return int32(n), float32(v), nil
}

// TellIgnored prints the keywords of a schema that have no effect, if any.
func TellIgnored(w io.Writer, paths []string) {
	if len(paths) > 0 {
		fmt.Fprintf(w, "--json-schema: these have no effect: %s\n", strings.Join(paths, ", "))
	}
}

// DrawSeed draws a seed. It has at most ten digits, so that it is easy to type.
func DrawSeed() uint64 { return uint64(rand.Uint32()) }

// ThinkingValues returns the values of a chat template for --think. It says so if the model does not think.
func ThinkingValues(a *cli.App, m *pilotfish.Model, think string) []pilotfish.TemplateValue {
	if think != "on" && think != "off" {
		return nil
	}
	if thinks, err := m.Thinks(nil); err == nil && !thinks {
		fmt.Fprintln(a.Stderr, "--think: no effect, as this model does not think before it answers")
		return nil
	}
	return []pilotfish.TemplateValue{pilotfish.Thinking(think == "on")}
}
