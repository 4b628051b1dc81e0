package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The published names of the files of the real pair.
const (
	realSmall = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
	realLarge = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
)

// realTask is a benchmark for the real pair. Its training split is cut into disjoint parts: for traces of the small
// model's own answers, for traces of routed ones, and for the certificate.
type realTask struct {
	name                     string // in eval; with -train it is the name of the training split
	traced, tokens           int    // maximum number of tokens of an answer in traces, and in the evaluation
	own, routed, certificate int    // questions of the training split
	judged                   int    // questions of the test split, which routers are evaluated on
	run                      string // additional flags of commands that grade
	split                    string // --task of the training split, if that differs from the name
	before                   int    // lines of the fetched file before the training split
}

// realTasks returns the tasks of the published table. Their sizes are estimated for a few hours on two cores.
func realTasks() []realTask {
	return []realTask{
		{name: "csqa", traced: 96, tokens: 64, own: 320, routed: 160, certificate: 400, judged: 200},
		{name: "arc", traced: 96, tokens: 64, own: 320, routed: 160, certificate: 400, judged: 200},
		{name: "gsm8k", traced: 320, tokens: 320, own: 96, routed: 48, certificate: 120, judged: 150},
		{name: "mbpp", traced: 256, tokens: 256, own: 96, routed: 48, certificate: 230, judged: 150,
			run: " --run-code", split: "mbpp-train", before: 600},
	}
}

// realStep makes a file or folder that later steps need. It is skipped if that exists already.
type realStep struct {
	outcome string // in the folder of the study
	args    string // of a command; SMALL, LARGE and OUT/ are replaced by paths
	part    *part  // instead of a command
}

// part is a range of lines, counted from 1, of a file that eval fetch downloads.
type part struct {
	of          string
	from, lines int
}

// Beginnings of the commands of the steps.
const (
	realModels  = " -m SMALL --large LARGE"
	realCollect = "router collect --label disagreement,consequence" + realModels
	realTrain   = "router train --label consequence --training hidden=16"
)

// realThresholds are the thresholds to test. In answers of some 30 tokens, of which few matter, confidences are high.
const realThresholds = "0.8,0.9,0.93,0.95,0.97,0.98"

// realTimed are the settings for measuring times: a device with forward passes of 1/60 s, and 8% of that for each
// further token, like two otherwise idle cores; and a large model at least as slow as on those.
const realTimed = " --modes local,cloud,serial,pipelined-auto --edge-tps 60 --edge-row-cost 0.08 --cloud-ms 40" +
	" --deadline off"

// realSteps returns the steps of all tasks, and the recording.
func realSteps() (all []realStep) {
	for _, t := range realTasks() {
		all = append(all, t.steps()...)
	}
	return append(all, realRecording)
}

// realRecording is made for the times: the answers of all modes, one at a time, to be replayed over other links.
var realRecording = realStep{outcome: "times.recording", args: "bench routing" + realModels +
	" --workload OUT/csqa-certificate.jsonl --questions 100 -n 64 --router OUT/csqa.gguf --parallel 1" +
	realTimed + " --record OUT/times.recording"}

// steps returns the steps that make parts of the questions, traces, the router and its certificate. The router is
// trained with the effects of single questions to the large model, first in the small model's own answers and then in
// the answers with such a router.
func (t realTask) steps() (all []realStep) {
	traces, next := "", 1+t.before
	add := func(outcome, args string) { all = append(all, realStep{outcome: outcome, args: args}) }
	questions := func(kind string, lines, tokens int) string {
		file := t.name + "-" + kind + ".jsonl"
		all = append(all, realStep{outcome: file, part: &part{t.name + "-train", next, lines}})
		next += lines
		return fmt.Sprintf(" --task %s -n %d --data OUT/%s", cmp.Or(t.split, t.name), tokens, file)
	}
	gather := func(kind string, lines int, reference string) {
		folder := t.name + "-" + kind
		add(folder, realCollect+questions(kind, lines, t.traced)+" --reference "+reference+t.run+" -o OUT/"+folder)
		traces += " OUT/" + folder
	}
	learn := func(router string) { add(router, realTrain+traces+" -o OUT/"+router) }
	first, second, certified := t.name+"-first.gguf", t.name+"-second.gguf", t.name+".gguf"
	gather("own", t.own, "small")
	learn(first)
	gather("routed", t.routed, "routed --router OUT/"+first+" --threshold 0.97")
	learn(second)
	add(certified, "router calibrate"+realModels+questions("certificate", t.certificate, t.tokens)+
		" --threshold "+realThresholds+t.run+" --router OUT/"+second+" -o OUT/"+certified)
	return all
}

// experiment returns the evaluation of a task.
func (t realTask) experiment() experiment {
	return experiment{name: "real-" + t.name, args: fmt.Sprintf("eval %s%s --router OUT/%[1]s.gguf "+
		"--budget 0.03,0.05,0.07 --questions %[3]d -n %d%s -o OUT/%[1]s-answers.jsonl --json",
		t.name, realModels, t.judged, t.tokens, t.run)}
}

// realExperiments returns all measurements of the pair.
func realExperiments() (all []experiment) {
	for _, t := range realTasks() {
		all = append(all, t.experiment())
	}
	return append(all,
		experiment{name: "real-times", args: "bench routing --replay OUT/times.recording --router OUT/csqa.gguf " +
			"--rtt 50ms,100ms,300ms --json" + realTimed})
}

// realPair measures the real pair, with its files in the folder models: for all tasks, or those with these names.
// Existing files in the folder dir are not made again, so that a stopped run can be continued.
func realPair(ctx context.Context, root, dir, models string, names []string) error {
	steps, measure, err := realChosen(names)
	if err != nil {
		return err
	}
	if models, err = filepath.Abs(models); err != nil {
		return err
	}
	for _, name := range []string{realSmall, realLarge} {
		if _, err := os.Stat(filepath.Join(models, name)); err != nil {
			return fmt.Errorf("the folder of the models: %w", err)
		}
	}
	dir, program, err := prepare(ctx, root, dir)
	if err != nil {
		return err
	}
	p := paths{dir: dir, models: models}
	for _, s := range steps {
		if s.done(dir) {
			continue
		}
		if err := s.make(ctx, program, p); err != nil {
			return fmt.Errorf("%s: %w", s.outcome, err)
		}
	}
	for _, e := range measure {
		if err := e.measure(ctx, root, program, p); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// realChosen returns the steps and experiments of some tasks and times; of all without names.
func realChosen(names []string) (steps []realStep, measure []experiment, err error) {
	if len(names) == 0 {
		return realSteps(), realExperiments(), nil
	}
	all := realExperiments()
	for _, name := range names {
		i := slices.IndexFunc(all, func(e experiment) bool { return e.name == "real-"+name })
		if i < 0 {
			return nil, nil, fmt.Errorf("unknown name %q: give tasks or times", name)
		}
		measure = append(measure, all[i])
		if name == "times" {
			steps = append(steps, realRecording)
		}
		for _, t := range realTasks() {
			if t.name == name {
				steps = append(steps, t.steps()...)
			}
		}
	}
	return steps, measure, nil
}

// done reports whether the outcome exists and is complete. A folder of traces is complete when collect has ended, as a
// file beside it shows; other files are created only when they are complete.
func (s *realStep) done(dir string) bool {
	mark := filepath.Join(dir, s.outcome)
	if strings.HasPrefix(s.args, "router collect") {
		mark += ".done"
	}
	_, err := os.Stat(mark)
	return err == nil
}

// make runs the step.
func (s *realStep) make(ctx context.Context, program string, p paths) error {
	began := time.Now()
	if s.part != nil {
		return s.part.cut(ctx, program, filepath.Join(p.dir, s.outcome))
	}
	fmt.Printf("\n%s: pilotfish %s\n", s.outcome, s.args)
	args := p.fill(s.args)
	if err := command(ctx, p.dir, os.Stdout, program, args...); err != nil {
		return err
	}
	fmt.Printf("%s: %v\n", s.outcome, time.Since(began).Round(time.Second))
	if strings.HasPrefix(s.args, "router collect") {
		return os.WriteFile(filepath.Join(p.dir, s.outcome+".done"), nil, 0o644)
	}
	return nil
}

// cut writes the lines of the part to a file.
func (q *part) cut(ctx context.Context, program, path string) error {
	var out bytes.Buffer
	if err := command(ctx, filepath.Dir(path), &out, program, "eval", "fetch", q.of); err != nil {
		return err
	}
	b, err := os.ReadFile(strings.TrimSpace(out.String()))
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if len(lines) < q.from-1+q.lines {
		return errors.New(q.of + " has too few questions")
	}
	return os.WriteFile(path, bytes.Join(lines[q.from-1:q.from-1+q.lines], nil), 0o644)
}

// paths are the replacements of SMALL, LARGE, OUT/ and PAIR in the arguments of a command.
type paths struct{ dir, models, pair string }

// fill returns the arguments of a command with the paths inserted.
func (p paths) fill(args string) []string {
	return strings.Fields(strings.NewReplacer("SMALL", filepath.Join(p.models, realSmall),
		"LARGE", filepath.Join(p.models, realLarge), "OUT/", p.dir+string(filepath.Separator), "PAIR", p.pair).
		Replace(args))
}

// keptRouters is the folder of the committed routers of the real pair, with their certificates.
const keptRouters = kept + "/routers"

// adoptRouters copies the certified routers of a study of the real pair to the checkout.
func adoptRouters(root, dir string) error {
	for _, t := range realTasks() {
		b, err := os.ReadFile(filepath.Join(dir, t.name+".gguf"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Join(root, keptRouters), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, keptRouters, t.name+".gguf"), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
