package request

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
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
	Thinks      bool    // the model may think before it answers
}

// Request has the fields that chats and completions share.
type Request struct {
	Model       string
	Settings    terms.Settings
	Seeded      bool // the request gave the seed
	N           int
	Stream      bool
	Usage       bool     // send a last chunk with the usage
	WantOrigins bool     // report which model chose each token
	formatAt    string   // path of the field that requests a format
	schemaAt    string   // path of its schema
	keywords    []string // paths of keywords of schemas without effect
	notes       *notes   // of its fields without effect
}

// Ignored returns the paths of the fields that have no effect on the answer, of elements of lists the first one.
func (r *Request) Ignored() []string { return r.notes.paths }

func (f *fields) parseCommonFields(r *Request, d Defaults) {
	f.applyAliases()
	r.notes = f.notes
	r.N, r.Settings.Temperature, r.Settings.TopP = 1, d.Temperature, 1
	s := &r.Settings
	f.parseString("model", &r.Model)
	f.parseBool("stream", &r.Stream)
	f.parseStreamOptions(r)
	f.parseInt("n", 0, maxChoices, &r.N)
	r.N = max(r.N, 1)
	f.parseTokenLimits(r)
	f.parseSamplingNumbers(s)
	f.parseBool("ignore_eos", &s.IgnoreEnd)
	f.parseSeed(r)
	f.parseStop("stop", s)
	f.parseLogitBias(s)
	f.parseOtherFormat(r)
	f.parseExtension(r)
	f.acceptForeignFields()
}

// parseTokenLimits parses the maximum number of tokens, which has many names: the smallest one counts. 0 and -1 are no
// limit.
func (f *fields) parseTokenLimits(r *Request) {
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens",
		"n_predict"} {
		n := 0
		if f.parseInt(name, -1, math.MaxInt32, &n); n > 0 && (r.Settings.MaxTokens == 0 || n < r.Settings.MaxTokens) {
			r.Settings.MaxTokens = n
		}
	}
}

// parseSamplingNumbers parses the numbers of settings. Some clients use other values for two of them: a top_k of -1 for
// all tokens, and a top_p of 0 for only the best token.
func (f *fields) parseSamplingNumbers(s *terms.Settings) {
	for _, n := range s.Numbers() {
		switch to := n.To.(type) {
		case *float64:
			f.parseFloat(n.Name, n.Low, n.High, to)
		case *int:
			f.parseInt(n.Name, -1, int(n.High), to)
			*to = max(*to, 0)
		}
	}
	if s.TopP == 0 {
		s.TopK, s.TopP = 1, 1
	}
}

// parseSeed parses any 64-bit integer, signed or not.
func (f *fields) parseSeed(r *Request) {
	n, err := strconv.ParseUint(string(f.all["seed"]), 10, 64)
	if r.Seeded = err == nil; r.Seeded {
		f.takeField("seed")
		r.Settings.Seed = n
		return
	}
	var signed wholeNumber
	r.Seeded = f.parseValue("seed", &signed, "give a whole number of at most 64 bits")
	r.Settings.Seed = uint64(signed)
}

func (f *fields) parseStreamOptions(r *Request) {
	f.parseObject("stream_options", func(o *fields) {
		o.parseBool("include_usage", &r.Usage)
		o.ignoreHarmless("include_obfuscation")
	})
}

// parseStop parses one text or a list of at most maxStops.
func (f *fields) parseStop(name string, s *terms.Settings) {
	var one string
	var all []string
	if json.Unmarshal(f.all[name], &one) == nil {
		f.takeField(name)
		all = []string{one}
	} else {
		f.parseValue(name, &all, "give a string, or a list of at most %d strings", maxStops)
	}
	if all = slices.DeleteFunc(all, func(text string) bool { return text == "" }); len(all) > maxStops {
		f.failField(name, "%d strings are too many: give at most %d", len(all), maxStops)
	}
	s.Stop = append(s.Stop, all...)
}

func (f *fields) parseLogitBias(s *terms.Settings) {
	var all map[string]float64
	f.parseValue("logit_bias", &all, "give an object of token ids and numbers, such as {\"42\": -100}")
	if len(all) == 0 || f.err != nil {
		return
	}
	if len(all) > maxBiases {
		f.failField("logit_bias", "%d tokens are too many: give at most %d", len(all), maxBiases)
		return
	}
	s.LogitBias = make(map[int32]float32, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) { // sorted, so that the error is reproducible
		value := all[name]
		id, _ := strconv.ParseInt(name, 10, 32) // after an error it has another name
		switch {
		case id < 0 || name != strconv.FormatInt(id, 10): // with "01" and "1" a token could occur twice
			f.failField("logit_bias", "%s is not a token id: give whole numbers from 0", Shown(name))
		case !(value >= -100 && value <= 100):
			f.failField("logit_bias", "the bias of token %d is out of range: give -100 to 100", id)
		}
		s.LogitBias[int32(id)] = float32(value)
	}
}

// parseExtension parses this server's additions to OpenAI's API. They are never ignored: local text could leave the
// device.
func (f *fields) parseExtension(r *Request) {
	f.parseObject(OwnName, func(o *fields) {
		o.notes = &notes{strict: true}
		o.parseBool("provenance", &r.WantOrigins)
		o.parseBool("complete", &r.Settings.Complete)
		o.parseBool("local", &r.Settings.Local)
	})
}

// OwnName is the name of the field with this server's additions, in requests and responses.
const OwnName = "pilotfish"

func (f *fields) parseResponseFormat(r *Request) {
	f.parseObject("response_format", func(o *fields) { o.parseFormat(r) })
}

// parseOtherFormat parses the fields of other servers with a schema, or with the word json: llama-server, vLLM and
// Ollama.
func (f *fields) parseOtherFormat(r *Request) {
	f.parseObject("structured_outputs", func(o *fields) {
		o.parseOtherSchema("json", r)
		for _, name := range o.remainingNames() {
			o.checkUnsupported(name, unsupported{hint: hintSchema, alters: name != "whitespace_pattern"})
		}
	})
	for _, name := range []string{"json_schema", "guided_json", "format"} {
		f.parseOtherSchema(name, r)
	}
}

func (f *fields) parseOtherSchema(name string, r *Request) {
	raw, ok := f.all[name]
	text := ""
	if json.Unmarshal(raw, &text) == nil && isObject([]byte(text)) {
		raw = json.RawMessage(text)
	}
	switch {
	case !ok || isEmpty(raw) && !isObject(raw):
		return
	case r.Settings.Structured():
		f.ignoreField(name) // the answer has a format already
		return
	case text == "json" && name == "format":
		r.Settings.JSON = true
	case isObject(raw):
		r.Settings.Schema = raw
	default:
		f.failField(name, "give a JSON schema")
	}
	f.takeField(name)
	r.formatAt, r.schemaAt = f.fieldPath(name), f.fieldPath(name)
}

// parseFormat parses the format of an answer. Its schema stands in an object of its own, or beside the type.
func (f *fields) parseFormat(r *Request) {
	r.formatAt = f.at
	kind := ""
	f.parseString("type", &kind)
	schema := f.all["schema"]
	switch {
	case kind == "text":
	case kind == "json_object" && isEmpty(schema):
		r.Settings.JSON = true
	case kind == "json_object", kind == "json_schema" && schema != nil:
		f.parseSchema(r)
	case kind == "json_schema":
		if !f.parseObject(kind, func(o *fields) { o.parseSchema(r) }) {
			f.failMissing(kind, "give the schema: {\"name\": …, \"schema\": {…}}")
		}
	default:
		f.failField("type", "give text, json_object or json_schema")
	}
}

// parseSchema parses the schema of an answer. Answers follow it whether strict or not; OpenAI's strict mode only has
// closed objects.
func (f *fields) parseSchema(r *Request) {
	name, ok := "", false
	f.parseString("name", &name)
	f.parseBool("strict", &r.Settings.Closed)
	f.ignoreHarmless("description")
	r.schemaAt = f.fieldPath("schema")
	if r.Settings.Schema, ok = f.takeField("schema"); !ok {
		f.failMissing("schema", "give a JSON schema")
	}
}

func (r *Request) addIgnoredKeywords(where string, paths []string) {
	for _, path := range paths[:min(len(paths), maxIgnored-len(r.keywords))] {
		r.keywords = append(r.keywords, where+path)
	}
}

// Model is what requests need of a [pilotfish.Model].
type Model interface {
	Templated
	Tokenize(text string, special bool) ([]int32, error)
	// Check is CheckContext, with the server's large model.
	Check(ctx context.Context, s terms.Settings) (ignored []string, err error)
}

// Possible refuses settings that the model does not support.
func (r *Request) Possible(ctx context.Context, m Model) error {
	ignored, err := m.Check(ctx, r.Settings)
	r.addIgnoredKeywords(r.schemaAt, ignored)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case r.Settings.Structured():
		return Invalid(r.formatAt, "%s: %v", r.formatAt, err)
	}
	return Invalid("", "%v", err)
}
