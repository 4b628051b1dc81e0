package request

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// maxFiles is the maximum number of files besides the one with the gap.
const maxFiles = 256

// Infill is a request to fill a gap, in the form of llama-server.
type Infill struct {
	Request
	Gap   answer.Infill
	None  bool // generate nothing: n_predict is 0
	Lines answer.Lines
}

// ReadInfill parses a request. Its defaults are those of llama-server.
func ReadInfill(body []byte, d Defaults) (*Infill, *Error) {
	r := &Infill{Gap: answer.Infill{Repo: "myproject", Name: "filename"}}
	f := parseBody(body, d)
	s := &r.Settings
	start := ""
	f.needed("input_prefix", &r.Gap.Prefix, "give a text")
	f.text("prompt", &start)
	f.needed("input_suffix", &r.Gap.Suffix, "give a text")
	r.Gap.Prefix += start
	f.inputExtra(&r.Gap)
	r.None = means(f.all["n_predict"], "0")
	f.lines(&r.Lines)
	if means(f.all["seed"], "-1") { // random
		f.take("seed")
	}
	samplers, _ := f.take("samplers")
	usual := func(name, value string) {
		if _, given := f.all[name]; !given && f.all != nil {
			f.all[name] = json.RawMessage(value)
		}
	}
	usual("temperature", "0.8")
	usual("top_k", "40")
	usual("top_p", "0.95")
	usual("min_p", "0.05")
	f.common(&r.Request, d)
	f.samplers(samplers, s)
	if r.N != 1 {
		f.fail("n", "one answer is given: leave it out")
	}
	return r, f.end()
}

func (f *fields) inputExtra(to *answer.Infill) {
	f.objects("input_extra", maxFiles, func(o *fields) {
		file := struct{ Name, Text string }{Name: "tmp"}
		o.text("filename", &file.Name)
		o.needed("text", &file.Text, "give a text")
		o.harmless("time") // of llama.vim
		to.Files = append(to.Files, file)
	})
}

// samplers disables the samplers that are not in a list. The order of samplers is fixed.
func (f *fields) samplers(raw json.RawMessage, s *answer.Settings) {
	if raw == nil {
		return
	}
	var names []string
	if json.Unmarshal(raw, &names) != nil {
		f.fail("samplers", "give a list of names")
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

func (f *fields) lines(l *answer.Lines) {
	f.count("n_indent", 0, math.MaxInt32, &l.Indent)
	ms := int64(0)
	f.integer("t_max_predict_ms", -1, math.MaxInt32, &ms)
	l.Time = time.Duration(max(ms, 0)) * time.Millisecond
}
