// Package selfcheck checks a GPU and the kernels on it, from inside an installed program: it compiles every kernel,
// runs them beside the exact CPU, decodes the same texts on both, provokes a fault, decodes for a minute, and measures
// speed beside the prediction for the chip. It needs no test data: weights are random, or the program's own models.
package selfcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/metalplan"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// Options say what is checked. Device and Models are required.
type Options struct {
	Device metal.Device
	// Models decode texts on the GPU and on the CPU. The last one also decodes for Minute, and is measured.
	Models []Model
	Minute time.Duration // how long the last model decodes
	Tokens int           // and at most so many tokens; 0: no limit
	Types  []string      // of weights; empty: all for which there are kernels
	// Wild lets a kernel read far beyond its buffer, which a GPU survives. The software device survives it only if it
	// checks accesses.
	Wild     bool
	Progress func(step string) // nil: nobody is told
}

// Model is an open file.
type Model struct {
	Name string
	File *gguf.File
}

// Report is what came, for a page of text ([Report.Write]) and as JSON. Times are in milliseconds.
type Report struct {
	Machine    record.Machine `json:"machine"`
	GPU        string         `json:"gpu"` // its own name
	Kernels    []Kernel       `json:"kernels"`
	Checks     []Check        `json:"checks"`
	Texts      []Text         `json:"texts"`
	Faults     []Fault        `json:"faults"`
	Minute     Minute         `json:"minute"`
	Speed      []Speed        `json:"speed"`
	Dispatches []Dispatch     `json:"dispatches"` // of a token of the last model
	Step       float64        `json:"step_us"`    // of a dispatch that does nothing but wait for the one before
	// TimingError says why dispatches were not measured.
	TimingError string `json:"timing_error,omitempty"`
	Failures    int    `json:"failures"` // of all parts
}

// Kernel is a source that was compiled for one type of weights, or a pipeline that was made of it.
type Kernel struct {
	Weights string        `json:"weights,omitempty"` // type of the weights that it reads
	Name    string        `json:"name,omitempty"`    // of the pipeline; empty: the source
	Took    time.Duration `json:"ms"`
	Error   string        `json:"error,omitempty"`   // of the compiler
	Refused string        `json:"refused,omitempty"` // the same of a form before the one that was compiled
	Runs    int           `json:"runs"`              // how often it was set for a dispatch
}

// Fault is an error of a command buffer that was provoked, and what came after it.
type Fault struct {
	Kind      string `json:"kind"`
	Seen      string `json:"seen"`            // the error; empty: the device did not report any
	Recovered bool   `json:"recovered"`       // the next pass had the right results
	Error     string `json:"error,omitempty"` // why it had not
}

// Minute is what decoding for a while left behind.
type Minute struct {
	Tokens        int           `json:"tokens"`
	Took          time.Duration `json:"ms"`
	BuffersBefore int64         `json:"buffer_bytes_before"` // memory of the GPU after the first tokens
	BuffersAfter  int64         `json:"buffer_bytes_after"`  // and at the end
	HeapBefore    int64         `json:"heap_bytes_before"`   // of Go, after a collection
	HeapAfter     int64         `json:"heap_bytes_after"`
	Error         string        `json:"error,omitempty"`
}

// Speed is the speed of a model, beside what was predicted for the chip.
type Speed struct {
	Model     string  `json:"model"`
	Rows      int     `json:"rows"` // tokens of a pass: 1 when decoding
	Tokens    float64 `json:"tokens_per_s"`
	Predicted float64 `json:"predicted_tokens_per_s,omitempty"` // where the chip is known; of a prompt at most
	Bandwidth float64 `json:"gb_per_s"`                         // at which weights were read
	Levels    int     `json:"levels"`                           // of kernels that wait for each other
	Level     float64 `json:"us_per_level"`                     // the time of a pass over its levels
	Error     string  `json:"error,omitempty"`
}

// checker is a check in progress.
type checker struct {
	o Options
	p *probe
	r Report
}

// Run checks the device. Errors of kernels are in the report; its error is one of ctx or of the models.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	c := &checker{o: o, p: newProbe(o.Device), r: Report{Machine: record.ThisMachine(), GPU: o.Device.Name()}}
	for _, part := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"kernels of every type of weights beside the CPU", c.compareOperations},
		{"texts of whole models on the GPU and on the CPU", c.checkTexts},
		{"a fault, and what comes after it", c.checkFaults},
		{fmt.Sprintf("decoding for %v", o.Minute), c.decodeOn},
		{"speed", c.measureSpeed},
		{"the time of each kind of dispatch", c.measureDispatches},
	} {
		o.Progress(part.what)
		if err := part.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", part.what, err)
		}
	}
	c.r.Kernels = c.p.listKernels()
	c.r.Failures = c.countFailures()
	return &c.r, nil
}

func (c *checker) countFailures() (n int) {
	for _, k := range c.r.Kernels {
		n += failed(k.Error != "")
	}
	for _, k := range c.r.Checks {
		n += failed(k.Failed())
	}
	for _, t := range c.r.Texts {
		n += failed(t.Failed())
	}
	for _, f := range c.r.Faults {
		n += failed(!f.Recovered)
	}
	for _, s := range c.r.Speed {
		n += failed(s.Error != "")
	}
	return n + failed(c.r.Minute.Failed()) + failed(c.r.TimingError != "")
}

func failed(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Failed reports whether decoding failed, or left memory behind: buffers at all, or more heap than an answer needs.
func (m Minute) Failed() bool {
	const slack = 8 << 20
	return m.Error != "" || m.BuffersAfter > m.BuffersBefore || m.HeapAfter > m.HeapBefore+slack
}

// findGPU returns the figures of the chip, if they are known: those of the variant with the most cores.
func findGPU(name string) (found metalplan.GPU, ok bool) {
	for _, g := range metalplan.GPUs() {
		if name == "Apple "+g.Chip {
			found, ok = g, true
		}
	}
	return found, ok
}

// errorText returns the text of an error, "" for none. The end of ctx is no result but the end of the check.
func errorText(ctx context.Context, err error) (string, error) {
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return "", err
	}
	return err.Error(), nil
}
