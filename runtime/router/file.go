package router

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// The tap points, where the hidden state of a network is taken.
const (
	// TapFinalNorm is that of a router: the small model's state after the final norm, the input of its output matrix.
	TapFinalNorm = "final-norm"
	// TapMismatch is that of a judge: the large model's states after the final norm, where it chooses another token
	// than the small model, before that token and after it.
	TapMismatch = "large-final-norm-mismatch"
)

// File is a router file: the network of the policy learned, its origin, a judge, and a certificate.
type File struct {
	Net         *Net // nil if it has only a judge
	About       About
	Judge       *Judge       // nil if there is none
	Certificate *Certificate // nil if there is none
	// Confidences is a sample of the router's confidences for the tokens that it was trained or calibrated on, as
	// [Calibration] returns it: ascending, within 0 to 1, at most [maxConfidences]. A budget starts from it. nil if
	// there is none.
	Confidences []float32
}

// Policy returns the policy that the file is for: that of its certificate, or learned, or without a network judge.
func (f *File) Policy() Policy {
	if f.Certificate != nil {
		return f.Certificate.Policy
	}
	return f.networkPolicy()
}

func (f *File) networkPolicy() Policy {
	if f.Net == nil {
		return Judged
	}
	return Learned
}

// Options returns the networks of the file for the policy p, and what is known of its confidences. The error says what
// the file lacks.
func (f *File) Options(p Policy) (o Options, err error) {
	o.Policy = p
	if p == f.Policy() {
		o.Calibration = f.Confidences
	}
	switch {
	case p == Learned && f.Net == nil:
		return o, errors.New("it has no router for the policy learned, only a judge")
	case p == Judged && f.Judge == nil:
		return o, errors.New("it has no judge")
	case p == Learned:
		o.Net = f.Net
	case p == Judged:
		o.Judge = f.Judge.Fingerprint()
	}
	return o, nil
}

// Watched returns the budget of the certificate if a router by it can notice that it does not apply: see
// [Options.Fallback]; else 0.
func (f *File) Watched() float64 {
	if f.Certificate == nil || len(f.Confidences) == 0 || f.Certificate.Policy == Never {
		return 0
	}
	return f.Certificate.Budget
}

const keyConfidences = architecture + ".confidences" // array of F32

// About describes how a router was made. Unknown fields are empty or 0.
type About struct {
	Version     string  `json:"version,omitempty"`           // of the program
	Model       string  `json:"model,omitempty"`             // [gguf.File.Fingerprint] of the small model
	ModelName   string  `json:"model_name,omitempty"`        // its general.name
	Large       string  `json:"large,omitempty"`             // fingerprint; empty if behind a gateway
	LargeName   string  `json:"large_name,omitempty"`        // its name, as its file or its gateway gives it
	Tap         string  `json:"tap,omitempty"`               // where the hidden state is taken: [TapFinalNorm]
	Data        string  `json:"data,omitempty"`              // SHA-256 of its traces, in hexadecimal
	Label       string  `json:"label,omitempty"`             // the rule that said which tokens may stand
	Prompts     int     `json:"prompts,omitempty"`           // texts it learnt from
	Positions   int     `json:"positions,omitempty"`         // tokens of these
	Seed        int     `json:"seed"`                        // of all draws of training
	Escalate    float64 `json:"escalate_share,omitempty"`    // share of the positions with the label escalate
	Calibration float64 `json:"calibration_error,omitempty"` // on the prompts held back, ten bins
	// chance that a token of these that may stand has more confidence than one that may not (the area under the
	// receiver operating curve)
	AUC float64 `json:"auc,omitempty"`
}

// Certificate is what was proven about a policy at one threshold: with probability Confidence over the draw of the
// calibration prompts, the large model chooses at most the share Budget of the tokens, on prompts like those, with this
// pair of models, greedily decoded to at most MaxTokens per answer. The policy is the one with the most right answers
// to them of those that were tested. The names in JSON are a contract.
type Certificate struct {
	Policy     Policy  `json:"policy"`
	Budget     float64 `json:"budget"`          // share of tokens
	Confidence float64 `json:"confidence"`      // 1 - δ
	Threshold  float64 `json:"threshold"`       // escalate below this confidence
	Share      float64 `json:"escalated_share"` // of the tokens decoded for the test
	Prompts    int     `json:"prompts"`         // that were decoded for it: the unit of the test
	Tokens     int     `json:"tokens"`          // of their answers
	MaxTokens  int     `json:"max_tokens"`      // maximum tokens of an answer
	PValue     float64 `json:"p_value"`         // that the share is above the budget; at most 1-Confidence
	Method     string  `json:"method"`          // such as "learn-then-test, betting"
	Data       string  `json:"data"`            // SHA-256 of the prompts, in hexadecimal digits
	Prompt     string  `json:"prompt"`          // how they were given: [Chat] or [Raw]
	Model      string  `json:"model"`           // fingerprint of the small model
	Large      string  `json:"large"`           // fingerprint of the large model; "" if it was behind a gateway
	LargeName  string  `json:"large_name"`      // its name, as its file or its gateway gives it
}

// How prompts are given to a model.
const (
	Chat = "chat" // as the question of a chat
	Raw  = "raw"  // as the beginning of a text
)

// metadataEntry is one metadata pair of a file: its key, and where its value is.
type metadataEntry struct {
	key   string
	value any // *string, *int or *float64
}

func (a *About) aboutEntries(prefix string) []metadataEntry {
	return newEntries(prefix,
		"version", &a.Version, "model", &a.Model, "model_name", &a.ModelName, "large", &a.Large,
		"large_name", &a.LargeName, "tap", &a.Tap, "data", &a.Data, "label", &a.Label,
		"prompts", &a.Prompts, "positions", &a.Positions, "seed", &a.Seed,
		"escalate_share", &a.Escalate, "auc", &a.AUC, "calibration_error", &a.Calibration,
	)
}

func (c *Certificate) certificateEntries() []metadataEntry {
	return newEntries("",
		"certificate.policy", (*string)(&c.Policy),
		"certificate.budget", &c.Budget, "certificate.confidence", &c.Confidence,
		"certificate.threshold", &c.Threshold, "certificate.share", &c.Share, "certificate.prompts", &c.Prompts,
		"certificate.tokens", &c.Tokens, "certificate.max_tokens", &c.MaxTokens, "certificate.p_value", &c.PValue,
		"certificate.method", &c.Method, "certificate.data", &c.Data, "certificate.prompt", &c.Prompt,
		"certificate.model", &c.Model, "certificate.large", &c.Large, "certificate.large_name", &c.LargeName,
	)
}

func newEntries(prefix string, pairs ...any) (all []metadataEntry) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, metadataEntry{architecture + "." + prefix + pairs[i].(string), pairs[i+1]})
	}
	return all
}

// Read reads a router file. The result does not refer to f.
func Read(f *gguf.File) (*File, error) {
	n, err := ReadNet(f)
	if err != nil {
		return nil, err
	}
	r := &File{Net: n}
	if r.Judge, err = readJudge(f); err != nil {
		return nil, err
	}
	if n == nil && r.Judge == nil {
		return nil, errors.New("a router without layers")
	}
	if last := 2 * (len(n.layersOrNone()) + len(r.Judge.netOrNil().layersOrNone())); len(f.Tensors()) != last {
		return nil, fmt.Errorf("a router of %d layers has %d tensors, the file has %d", last/2, last,
			len(f.Tensors()))
	}
	for _, e := range r.About.aboutEntries("") {
		if err := e.readValue(f); err != nil && !errors.Is(err, gguf.ErrAbsent) {
			return nil, err
		}
	}
	if err := r.About.validateShares(""); err != nil {
		return nil, err
	}
	if r.Certificate, err = readCertificate(f); err != nil {
		return nil, err
	}
	r.Confidences, err = f.Floats(keyConfidences)
	if err != nil && !errors.Is(err, gguf.ErrAbsent) {
		return nil, err
	}
	if err := validateCalibration(r.Confidences); err != nil {
		return nil, fmt.Errorf("%s: %w", architecture, err)
	}
	return r, nil
}

// validateCalibration returns an error for a list that [Calibration] cannot return.
func validateCalibration(all []float32) error {
	if err := validateConfidences(all); err != nil {
		return err
	}
	if !slices.IsSorted(all) {
		return errors.New("confidences: they are not in ascending order")
	}
	return nil
}

func (a *About) validateShares(prefix string) error {
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"escalate_share", a.Escalate}, {"auc", a.AUC},
		{"calibration_error", a.Calibration},
	} {
		if !(v.value >= 0 && v.value <= 1) {
			return fmt.Errorf("%s.%s%s is %v, not within 0 to 1", architecture, prefix, v.name, v.value)
		}
	}
	return nil
}

// readCertificate returns the certificate of a file, which has all of its fields or none; nil if none.
func readCertificate(f *gguf.File) (*Certificate, error) {
	c := new(Certificate)
	absent := 0
	all := c.certificateEntries()
	for _, e := range all {
		switch err := e.readValue(f); {
		case errors.Is(err, gguf.ErrAbsent):
			absent++
		case err != nil:
			return nil, err
		}
	}
	if absent == len(all) {
		return nil, nil
	}
	if absent > 0 {
		return nil, fmt.Errorf("the certificate lacks %d of its %d fields: calibrate the router again",
			absent, len(all))
	}
	return c, c.validateFields()
}

func (c *Certificate) validateFields() error {
	if _, err := ParsePolicy(string(c.Policy)); err != nil {
		return fmt.Errorf("the certificate: %w", err)
	}
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"budget", c.Budget}, {"confidence", c.Confidence}, {"threshold", c.Threshold}, {"share", c.Share},
		{"p-value", c.PValue},
	} {
		if !(v.value >= 0 && v.value <= 1) {
			return fmt.Errorf("the %s of the certificate is %v, not within 0 to 1", v.name, v.value)
		}
	}
	if c.Prompts < 1 || c.Tokens < 1 || c.MaxTokens < 1 {
		return fmt.Errorf("the certificate is of %d prompts, %d tokens and at most %d tokens an answer: "+
			"each must be at least 1", c.Prompts, c.Tokens, c.MaxTokens)
	}
	return nil
}

func (e metadataEntry) readValue(f *gguf.File) (err error) {
	switch v := e.value.(type) {
	case *string:
		*v, err = f.String(e.key)
	case *float64:
		*v, err = f.Float(e.key)
	case *int:
		var n int64
		if n, err = f.Int(e.key); err == nil && (n < 0 || n > math.MaxInt) {
			err = fmt.Errorf("%s is %d: it must not be negative", e.key, n)
		}
		*v = int(n)
	}
	return err
}

// Write stores a router file. Fields of About that are empty or 0 are left out. Confidences that [Read] would refuse
// are refused.
func (r *File) Write(w *gguf.Writer) error {
	if err := validateCalibration(r.Confidences); err != nil {
		return err
	}
	gguf.Put(w, "general.architecture", architecture)
	r.Net.writeKeys(w, prefixRouter)
	for _, e := range r.About.aboutEntries("") {
		e.writeValue(w, false)
	}
	if r.Judge != nil {
		r.Judge.Net.writeKeys(w, prefixJudge)
		for _, e := range r.Judge.About.aboutEntries(prefixJudge + ".") {
			e.writeValue(w, false)
		}
	}
	if r.Certificate != nil {
		for _, e := range r.Certificate.certificateEntries() {
			e.writeValue(w, true)
		}
	}
	if len(r.Confidences) > 0 {
		gguf.PutArray(w, keyConfidences, r.Confidences)
	}
	r.Net.declareTensors(w, prefixRouter)
	r.Judge.netOrNil().declareTensors(w, prefixJudge)
	if err := errors.Join(r.Net.writeTensors(w), r.Judge.netOrNil().writeTensors(w)); err != nil {
		return err
	}
	return w.Close()
}

func (e metadataEntry) writeValue(w *gguf.Writer, empty bool) {
	switch v := e.value.(type) {
	case *string:
		if empty || *v != "" {
			gguf.Put(w, e.key, *v)
		}
	case *float64:
		if empty || *v != 0 {
			gguf.Put(w, e.key, *v)
		}
	case *int:
		if empty || *v != 0 {
			gguf.Put(w, e.key, int64(*v))
		}
	}
}
