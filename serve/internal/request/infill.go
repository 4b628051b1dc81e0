package request

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
)

// maxFiles is the maximum number of files besides the one with the gap.
const maxFiles = 256

// Infill is a request to fill a gap, in the form of llama-server.
type Infill struct {
	Request
	Gap   pilotfish.Infill
	None  bool // generate nothing: n_predict is 0
	Lines answer.Lines
}

// ReadInfill parses a request. Its defaults are those of llama-server.
func ReadInfill(body []byte, d Defaults) (*Infill, *Error) {
	r := &Infill{Gap: pilotfish.Infill{Repo: "myproject", Name: "filename"}}
	f := parseBody(body)
	s := &r.Settings
	start := ""
	f.parseRequired("input_prefix", &r.Gap.Prefix, "give a text")
	f.parseString("prompt", &start)
	f.parseRequired("input_suffix", &r.Gap.Suffix, "give a text")
	r.Gap.Prefix += start
	f.parseInputExtra(&r.Gap)
	r.None = matchesValue(f.all["n_predict"], "0")
	f.parseLineLimits(&r.Lines)
	if matchesValue(f.all["seed"], "-1") { // random
		f.takeField("seed")
	}
	samplers, _ := f.takeField("samplers")
	usual := func(name, value string) {
		if _, given := f.all[name]; !given && f.all != nil {
			f.all[name] = json.RawMessage(value)
		}
	}
	usual("temperature", "0.8")
	usual("top_k", "40")
	usual("top_p", "0.95")
	usual("min_p", "0.05")
	f.parseCommonFields(&r.Request, d)
	f.parseSamplers(samplers, s)
	if r.N != 1 {
		f.failField("n", "one answer is given: leave it out")
	}
	return r, f.finishParsing()
}

func (f *fields) parseInputExtra(to *pilotfish.Infill) {
	f.parseObjects("input_extra", maxFiles, func(o *fields) {
		file := struct{ Name, Text string }{Name: "tmp"}
		o.parseString("filename", &file.Name)
		o.parseRequired("text", &file.Text, "give a text")
		o.ignoreHarmless("time") // of llama.vim
		to.Files = append(to.Files, file)
	})
}

// parseSamplers disables the samplers that are not in a list. The order of samplers is fixed.
func (f *fields) parseSamplers(raw json.RawMessage, s *terms.Settings) {
	if raw == nil {
		return
	}
	var names []string
	if json.Unmarshal(raw, &names) != nil {
		f.failField("samplers", "give a list of names")
	}
	if len(names) == 0 {
		return
	}
	without := func(name string) bool { return !slices.Contains(names, name) }
	if without("temperature") {
		s.Temperature = 1
	}
	if without("top_k") {
		s.TopK = 0
	}
	if without("top_p") {
		s.TopP = 1
	}
	if without("min_p") {
		s.MinP = 0
	}
	if without("penalties") {
		s.RepeatPenalty, s.PresencePenalty, s.FrequencyPenalty = 0, 0, 0
	}
}

func (f *fields) parseLineLimits(l *answer.Lines) {
	f.parseInt("n_indent", 0, math.MaxInt32, &l.Indent)
	ms := int64(0)
	f.parseInteger("t_max_predict_ms", -1, math.MaxInt32, &ms)
	l.Time = time.Duration(max(ms, 0)) * time.Millisecond
}
