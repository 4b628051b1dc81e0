package bench

import (
	"github.com/pilotfish-ai/pilotfish/bench/llamabench"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/gguf"
)

// printColumns prints one line for each test, in the columns of llama-bench.
func (f *benchEngineFlags) printColumns(a *cli.App, all []speed.Report, about result.Run) error {
	file, err := gguf.Open(f.m.Model)
	if err != nil {
		return err
	}
	defer file.Close()
	about.Machine.Bandwidth = all[0].Bandwidth
	base := llamabench.Test{Version: about.Version, CPU: about.Machine.CPU, File: f.m.Model, Began: about.Date,
		Batch: speed.MostBatch}
	base.Arch, _ = file.String("general.architecture") // cannot fail: it was read before
	most := int64(0)
	for _, t := range file.Tensors() {
		n := int64(1)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		base.Params += n
		base.Bytes += int64(len(t.Data))
	}
	for kind, bytes := range about.Model.Types {
		if bytes > most || bytes == most && kind < base.Type {
			base.Type, most = kind, bytes
		}
	}
	var tests []llamabench.Test
	for _, r := range all {
		tests = append(tests, columnsOf(base, r)...)
	}
	return llamabench.Write(a.Stdout, tests, about)
}

// columnsOf returns the tests of one report: its prompt and its generation.
func columnsOf(base llamabench.Test, r speed.Report) (tests []llamabench.Test) {
	base.Threads, base.KV, base.Depth, base.Backend = r.Threads, r.KV, r.Depth, "CPU"
	if r.Dispatches > 0 {
		base.Backend, base.GPU = "Metal", r.Device
	}
	prompt, decode := base, base
	prompt.Prompt, decode.Decode = r.PromptTokens, r.DecodedTokens
	for _, s := range r.Samples {
		prompt.SamplesNS, decode.SamplesNS = append(prompt.SamplesNS, s.PromptNS),
			append(decode.SamplesNS, s.GenerationNS)
	}
	if r.PromptTokens > 0 {
		tests = append(tests, prompt)
	}
	if r.DecodedTokens > 0 {
		tests = append(tests, decode)
	}
	return tests
}
