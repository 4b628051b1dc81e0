package request

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// Limits of requests.
const (
	maxChoices  = 16  // answers to one prompt
	maxAnswers  = 128 // answers of one request
	maxStops    = 64  // editors send all their marks; OpenAI allows 4
	maxBiases   = 1024
	maxTop      = 20 // best tokens of a chat
	maxTopText  = 5  // best tokens of a completion
	maxMessages = 4096
	maxTools    = 128
)

// Defaults apply where a request has no value.
type Defaults struct {
	Temperature float64 // 0 is greedy
	Provenance  bool    // report which model chose each token
	Thinks      bool    // the model may think before it answers
}

// Request has the fields that chats and completions share.
type Request struct {
	Model       string
	Settings    answer.Settings
	Seeded      bool // the request gave the seed
	N           int
	Stream      bool
	Usage       bool     // send a last chunk with the usage
	WantOrigins bool     // report which model chose each token
	formatAt    string   // path of the field that requests a format
	schemaAt    string   // path of its schema
	ignored     []string // paths of keywords of schemas without effect
}

// common parses the fields that chats and completions share.
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

// numbers parses the numbers of settings. Some clients use other values for two of them: a top_k of -1 for all tokens,
// and a top_p of 0 for only the best token.
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

// seed parses the seed: any 64-bit integer.
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

func (f *fields) streamOptions(r *Request) {
	f.object("stream_options", func(o *fields) {
		o.flag("include_usage", &r.Usage)
		o.harmless("include_obfuscation")
	})
}

// stop parses one text or a list of at most maxStops.
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

// bias parses additions to logits, by token.
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
	for _, name := range slices.Sorted(maps.Keys(all)) { // sorted, so that the error is reproducible
		value := all[name]
		id, _ := strconv.ParseInt(name, 10, 32) // after an error it has another name
		switch {
		case id < 0 || name != strconv.FormatInt(id, 10): // with "01" and "1" a token could occur twice
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

// extension parses this server's additions to OpenAI's API.
func (f *fields) extension(r *Request) {
	f.object(OwnName, func(o *fields) {
		o.flag("provenance", &r.WantOrigins)
		o.flag("complete", &r.Settings.Complete)
		o.flag("local", &r.Settings.Local)
	})
}

// OwnName is the name of the field with this server's additions, in requests and responses.
const OwnName = "pilotfish"

func (f *fields) responseFormat(r *Request) {
	f.object("response_format", func(o *fields) {
		o.format(r, o.jsonSchema)
		o.refuse("schema", "give type json_schema, and the schema as json_schema.schema")
	})
}

// format parses the format of an answer. schema parses the fields of the type json_schema.
func (o *fields) format(r *Request, schema func(*Request)) {
	r.formatAt = o.at
	kind := ""
	o.text("type", &kind)
	switch kind {
	case "text":
	case "json_object":
		r.Settings.JSON = true
	case "json_schema":
		schema(r)
	default:
		o.fail("type", "give text, json_object or json_schema")
	}
}

// jsonSchema parses the schema of an answer. Answers follow it whether strict or not; OpenAI's strict mode only has
// closed objects.
func (f *fields) jsonSchema(r *Request) {
	if !f.object("json_schema", func(o *fields) { o.schema(r) }) {
		f.missing("json_schema", "give the schema: {\"name\": …, \"schema\": {…}}")
	}
}

func (f *fields) schema(r *Request) {
	name, ok := "", false
	f.text("name", &name)
	f.flag("strict", &r.Settings.Closed)
	f.harmless("description")
	r.schemaAt = f.path("schema")
	if r.Settings.Schema, ok = f.take("schema"); !ok {
		f.missing("schema", "give a JSON schema")
	}
}

// maxIgnored is the maximum number of listed keywords without effect.
const maxIgnored = 100

// ignores records keywords without effect of a schema at a place in the request.
func (r *Request) ignores(where string, paths []string) {
	for _, path := range paths[:min(len(paths), maxIgnored-len(r.ignored))] {
		r.ignored = append(r.ignored, where+path)
	}
}

// Possible refuses settings that the model does not support.
func (r *Request) Possible(ctx context.Context, m answer.Model) error {
	ignored, err := m.Check(ctx, r.Settings)
	r.ignores(r.schemaAt, ignored)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case r.Settings.Structured():
		return Invalid(r.formatAt, "%s: %v", r.formatAt, err)
	}
	return Invalid("", "%v", err)
}
