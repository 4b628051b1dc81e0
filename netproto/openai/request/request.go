package request

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// Bounds of what a request may ask for.
const (
	maxChoices  = 16  // answers to one prompt
	maxAnswers  = 128 // answers of one request
	maxStops    = 64  // editors send all their marks; OpenAI takes 4
	maxBiases   = 1024
	maxTop      = 20 // best tokens of a chat
	maxTopText  = 5  // best tokens of a completion
	maxMessages = 4096
	maxTools    = 128
)

// Defaults are what holds where a request says nothing.
type Defaults struct {
	Temperature float64 // as it is: 0 is greedy
	Provenance  bool    // say of each token who chose it
}

// Request is what both kinds of requests have in common.
type Request struct {
	Model       string
	Settings    answer.Settings
	Seeded      bool // the request gave the seed
	N           int
	Stream      bool
	Usage       bool     // a last chunk with what it took
	WantOrigins bool     // say of each token who chose it
	formatAt    string   // path of the field that asks for a format
	ignored     []string // paths of keywords of schemas without effect
}

// common reads what both kinds of requests have in common.
func (f *fields) common(r *Request, d Defaults) {
	r.N, r.Settings.Temperature, r.Settings.TopP = 1, d.Temperature, 1
	r.WantOrigins = d.Provenance
	s := &r.Settings
	f.text("model", &r.Model)
	f.flag("stream", &r.Stream)
	f.streamOptions(r)
	f.count("n", 1, maxChoices, &r.N)
	f.numbers(s)
	f.seed(r)
	f.stop("stop", s)
	f.bias(s)
	f.extension(r)
	f.foreign()
}

// numbers reads the numbers of settings. Of them some clients send what has another name here: -1 for all of the
// top_k, and a top_p of 0, which only the best token reaches.
func (f *fields) numbers(s *answer.Settings) {
	for _, n := range s.Numbers() {
		switch to := n.To.(type) {
		case *float64:
			f.number(n.Name, n.Low, n.High, to)
		case *int:
			f.count(n.Name, -1, int(n.High), to)
			*to = max(*to, 0)
		}
	}
	if s.TopP == 0 {
		s.TopK, s.TopP = 1, 1
	}
}

// seed reads the seed: any whole number of 64 bits.
func (f *fields) seed(r *Request) {
	raw, ok := f.take("seed")
	if !ok {
		return
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		r.Settings.Seed, r.Seeded = uint64(n), true
	} else if n, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
		r.Settings.Seed, r.Seeded = n, true
	} else {
		f.fail("seed", "give a whole number of at most 64 bits")
	}
}

// streamOptions reads how an answer is streamed.
func (f *fields) streamOptions(r *Request) {
	f.object("stream_options", func(o *fields) {
		o.flag("include_usage", &r.Usage)
		o.harmless("include_obfuscation")
	})
}

// stop reads one text or a list of at most maxStops.
func (f *fields) stop(name string, s *answer.Settings) {
	raw, ok := f.take(name)
	if !ok {
		return
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		s.Stop = []string{one}
	} else if json.Unmarshal(raw, &s.Stop) != nil {
		f.fail(name, "give a string, or a list of at most %d strings", maxStops)
		return
	}
	if len(s.Stop) > maxStops {
		f.fail(name, "%d strings are too many: give at most %d", len(s.Stop), maxStops)
	}
	for i, text := range s.Stop {
		if text == "" {
			f.fail(name, "string %d is empty, and would end every answer: leave it out", i)
		}
	}
}

// bias reads additions to logits, by token.
func (f *fields) bias(s *answer.Settings) {
	raw, ok := f.take("logit_bias")
	if !ok {
		return
	}
	var all map[string]float64
	if json.Unmarshal(raw, &all) != nil {
		f.fail("logit_bias", "give an object of token ids and numbers, such as {\"42\": -100}")
		return
	}
	if len(all) > maxBiases {
		f.fail("logit_bias", "%d tokens are too many: give at most %d", len(all), maxBiases)
		return
	}
	s.LogitBias = make(map[int32]float32, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) { // the same error each time
		value := all[name]
		id, err := strconv.ParseInt(name, 10, 32)
		switch {
		case err != nil || id < 0 || name != strconv.FormatInt(id, 10): // "01" beside "1" would be two for one token
			f.fail("logit_bias", "%s is not a token id: give whole numbers from 0", Shown(name))
		case !(value >= -100 && value <= 100):
			f.fail("logit_bias", "the bias of token %d is out of range: give -100 to 100", id)
		}
		s.LogitBias[int32(id)] = float32(value)
	}
	if len(all) == 0 {
		s.LogitBias = nil
	}
}

// extension reads what this server knows beyond OpenAI's API.
func (f *fields) extension(r *Request) {
	f.object(OwnName, func(o *fields) {
		o.flag("provenance", &r.WantOrigins)
		o.flag("complete", &r.Settings.Complete)
		o.flag("local", &r.Settings.Local)
	})
}

// OwnName is the field of this server's own in requests and answers.
const OwnName = "pilotfish"

// responseFormat reads what form the answer is to have.
func (f *fields) responseFormat(r *Request) {
	f.object("response_format", func(o *fields) {
		o.format(r, o.jsonSchema)
		o.refuse("schema", "give type json_schema, and the schema as json_schema.schema")
	})
}

// format reads the form of an answer. schema reads the fields of the type json_schema.
func (o *fields) format(r *Request, schema func(*answer.Settings)) {
	r.formatAt = o.at
	kind := ""
	o.text("type", &kind)
	switch kind {
	case "text":
	case "json_object":
		r.Settings.JSON = true
	case "json_schema":
		schema(&r.Settings)
	default:
		o.fail("type", "give text, json_object or json_schema")
	}
}

// jsonSchema reads the schema of an answer. Answers follow it whether strict or not; OpenAI's strict mode has closed
// objects alone.
func (f *fields) jsonSchema(to *answer.Settings) {
	if !f.object("json_schema", func(o *fields) { o.schema(to) }) {
		f.missing("json_schema", "give the schema: {\"name\": …, \"schema\": {…}}")
	}
}

// schema reads a schema with its name.
func (f *fields) schema(to *answer.Settings) {
	name, ok := "", false
	f.text("name", &name)
	f.flag("strict", &to.Closed)
	f.harmless("description")
	if to.Schema, ok = f.take("schema"); !ok {
		f.missing("schema", "give a JSON schema")
	}
}

// maxIgnored limits the keywords without effect that are listed.
const maxIgnored = 100

// ignores notes keywords without effect of a schema that stands somewhere in the request.
func (r *Request) ignores(where string, paths []string) {
	for _, path := range paths[:min(len(paths), maxIgnored-len(r.ignored))] {
		r.ignored = append(r.ignored, where+path)
	}
}

// Possible refuses what the model cannot do.
func (r *Request) Possible(ctx context.Context, m answer.Model) error {
	ignored, err := m.Check(ctx, r.Settings)
	r.ignores("response_format.json_schema.schema", ignored)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case r.Settings.Structured():
		return Invalid(r.formatAt, "%s: %v", r.formatAt, err)
	}
	return Invalid("", "%v", err)
}
