package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// chooseFlags say which tokens can be chosen, and what ends a text, besides the temperature and what belongs to it.
type chooseFlags struct {
	stop     []string
	bias     []string
	rules    engine.Rules
	logProbs int
	schema   string
}

func (f *chooseFlags) register(p *pflag.FlagSet) {
	p.StringArrayVar(&f.stop, "stop", nil, "stop before this `text`, which is not shown; \\n and other escapes are "+
		"interpreted as in Go; may be repeated")
	p.Float64Var(&f.rules.MinP, "min-p", 0, "with --temp: sample only from tokens with at least this share of the "+
		"most probable one's probability")
	p.Float64Var(&f.rules.RepeatPenalty, "repeat-penalty", 1, "divide the logits of the last 64 tokens by this, or "+
		"multiply them if they are negative; 1: no penalty")
	p.Float64Var(&f.rules.PresencePenalty, "presence-penalty", 0, "subtract this from the logits of tokens in the "+
		"answer")
	p.Float64Var(&f.rules.FrequencyPenalty, "frequency-penalty", 0,
		"subtract this from the logits of tokens for each time they are in the answer")
	p.StringArrayVar(&f.bias, "logit-bias", nil, "add to the logit of a token: `ID=BIAS`, -100 to 100; "+
		"may be repeated")
	p.IntVar(&f.logProbs, "logprobs", 0, "with --json: report the log-probability of each token and of this many "+
		"best ones, 1 to 20, by the model that chose it: before temperature, penalties, bias and schema")
	p.StringVar(&f.schema, "json-schema", "", "answer with JSON of this schema: a `file`, or the schema itself if it "+
		"begins with {. See docs/structured.md for supported schemas")
}

// check refuses wrong values, and flags that would have no effect. given tells which were given.
func (f *chooseFlags) check(given func(string) bool, temperature float64, json, ignoreEnd bool) error {
	switch {
	case given("min-p") && temperature == 0:
		return usagef("--min-p has no effect without a temperature: give --temp, such as --temp 0.7")
	case given("logprobs") && (f.logProbs < 1 || f.logProbs > engine.MostTop):
		return usagef("--logprobs %d is out of range: give 1 to %d", f.logProbs, engine.MostTop)
	case given("logprobs") && !json:
		return usagef("--logprobs has no effect without --json: add that")
	case given("json-schema") && ignoreEnd:
		return usagef("--json-schema ends with the value: leave --ignore-eos out")
	}
	if err := inRange("min-p", f.rules.MinP, 0, 1); err != nil {
		return err
	}
	if err := inRange("repeat-penalty", f.rules.RepeatPenalty, 0, math.MaxFloat64); err != nil {
		return err
	}
	for name, v := range map[string]float64{
		"presence-penalty": f.rules.PresencePenalty, "frequency-penalty": f.rules.FrequencyPenalty,
	} {
		if err := inRange(name, v, -100, 100); err != nil {
			return err
		}
	}
	return nil
}

// request puts what the flags say into a request.
func (f *chooseFlags) request(r *engine.Request) (err error) {
	r.Rules, r.Top = f.rules, f.logProbs
	for _, text := range f.stop {
		stop, err := unescape(text)
		if err != nil {
			return err
		}
		r.Stop = append(r.Stop, stop)
	}
	for _, text := range f.bias {
		id, bias, err := parseBias(text)
		if err != nil {
			return err
		}
		if r.Rules.Bias == nil {
			r.Rules.Bias = map[int32]float32{}
		}
		r.Rules.Bias[id] = bias
	}
	r.Complete = f.schema != "" // whoever reads the value wants a whole one, and is told where the model did not end it
	switch {
	case f.schema == "":
	case strings.HasPrefix(strings.TrimSpace(f.schema), "{"):
		r.Schema = []byte(f.schema)
	default:
		r.Schema, err = os.ReadFile(f.schema)
		if err != nil {
			return fmt.Errorf("--json-schema: %w", err)
		}
	}
	return nil
}

// unescape returns the text of --stop.
func unescape(text string) (string, error) {
	var b strings.Builder
	for rest := text; rest != ""; {
		r, multibyte, tail, err := strconv.UnquoteChar(rest, 0)
		if err != nil {
			return "", usagef("--stop %s has an escape that is none of Go's: write \\\\ for a backslash",
				strconv.Quote(text))
		}
		if rest = tail; multibyte || r < 0x80 {
			b.WriteRune(r)
		} else {
			b.WriteByte(byte(r))
		}
	}
	if b.Len() == 0 {
		return "", usagef("--stop is empty: give the text to end at")
	}
	return b.String(), nil
}

// parseBias reads a value of --logit-bias.
func parseBias(text string) (id int32, bias float32, err error) {
	left, right, _ := strings.Cut(text, "=")
	n, err1 := strconv.ParseInt(left, 10, 32)
	v, err2 := strconv.ParseFloat(right, 32)
	if err1 != nil || err2 != nil || n < 0 || !(v >= -100 && v <= 100) {
		return 0, 0, usagef("--logit-bias %s is not a token id and a bias of -100 to 100, such as 1234=-5", text)
	}
	return int32(n), float32(v), nil
}

// checkVocabulary refuses biases of tokens that a model of so many does not have.
func checkVocabulary(bias map[int32]float32, tokens int) error {
	for _, id := range slices.Sorted(maps.Keys(bias)) { // the same error each time
		if int(id) >= tokens {
			return usagef("--logit-bias %d=%v has no effect: the model's tokens are 0 to %d", id, bias[id], tokens-1)
		}
	}
	return nil
}

// LogProbs are what --logprobs adds to a token. (It has a capital because encoding/json sets only such embedded
// fields.)
type LogProbs struct {
	LogProb *float32     `json:"logprob"` // null where the cloud did not tell
	Top     []topLogProb `json:"top"`     // the best tokens, best first
}

// topLogProb is one of the best tokens.
type topLogProb struct {
	ID      int32   `json:"id"`
	Text    string  `json:"text"`
	LogProb float32 `json:"logprob"`
}

// logProbsOf returns what is told of a token with --logprobs; nil without.
func (o *runOutput) logProbsOf(t engine.Token) (*LogProbs, error) {
	if t.LogProbs == nil {
		return nil, nil
	}
	tokens, err := o.engine.Tokenizer()
	if err != nil {
		return nil, err
	}
	p := &LogProbs{Top: []topLogProb{}}
	if v := t.LogProbs.Token; !math.IsNaN(float64(v)) {
		p.LogProb = &v
	}
	for _, c := range t.LogProbs.Top {
		p.Top = append(p.Top, topLogProb{c.ID, tokens.Decode([]int32{c.ID}), c.LogProb})
	}
	return p, nil
}

// tellIgnored says which keywords of a schema have no effect, if any.
func tellIgnored(w io.Writer, paths []string) {
	if len(paths) > 0 {
		fmt.Fprintf(w, "--json-schema: no effect have %s\n", strings.Join(paths, ", "))
	}
}
