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

// The files of the real pair, as they are called where they are published.
const (
	realSmall = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
	realLarge = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
)

// realTask is a benchmark on which the real pair is measured. Its training split is cut into parts that have no
// question in common: for traces of the small model's own answers, for traces of routed ones, and for the certificate.
type realTask struct {
	name                     string // of eval; its training split is called so with -train
	traced, tokens           int    // most tokens of an answer in traces, and where it is judged
	own, routed, certificate int    // questions of the training split
	judged                   int    // questions of the split that routers are judged by
	run                      string // more flags of commands that grade
	split                    string // --task of the training split, where that is not the name
	before                   int    // lines of the fetched file before the training split
}

// realTasks are those of the published table. Their sizes are an estimate of what two cores do in a few hours.
func realTasks() []realTask {
	return []realTask{
		{name: "csqa", traced: 96, tokens: 64, own: 320, routed: 160, certificate: 400, judged: 200},
		{name: "arc", traced: 96, tokens: 64, own: 320, routed: 160, certificate: 400, judged: 200},
		{name: "gsm8k", traced: 320, tokens: 320, own: 96, routed: 48, certificate: 120, judged: 150},
		{name: "mbpp", traced: 256, tokens: 256, own: 96, routed: 48, certificate: 120, judged: 150,
			run: " --run-code", split: "mbpp-train", before: 600},
	}
}

// realStep makes a file or folder that later steps need. It is left out where that is there already.
type realStep struct {
	outcome string // in the folder of the study
	args    string // of a command, in which SMALL, LARGE and OUT/ stand for paths
	part    *part  // in place of a command
}

// part is some lines, the first of which is 1, of a file that eval fetch fetches.
type part struct {
	of          string
	from, lines int
}

// What the commands of the steps begin with.
const (
	realModels  = " -m SMALL --large LARGE"
	realCollect = "router collect --label disagreement,consequence" + realModels
	realTrain   = "router train --label consequence --training hidden=16"
)

// realThresholds are those that are tried. On answers of some 30 tokens, of which few matter, confidences are high.
const realThresholds = "0.8,0.9,0.93,0.95,0.97,0.98"

// realTimed is what times are measured of: a device on which a forward pass takes 1/60 s, and 8% of that for each
// further token, as on two cores that nothing else uses; and a large model as fast as on those, where that is slower.
const realTimed = " --modes local,cloud,serial,pipelined-auto --edge-tps 60 --edge-row-cost 0.08 --cloud-ms 40" +
	" --deadline off"

// realSteps are the steps of all tasks, and the recording.
func realSteps() (all []realStep) {
	for _, t := range realTasks() {
		all = append(all, t.steps()...)
	}
	return append(all, realRecording)
}

// realRecording is made for the times: the answers of all modes, one at a time, to be decoded again over other links.
var realRecording = realStep{outcome: "times.recording", args: "bench routing" + realModels +
	" --workload OUT/csqa-certificate.jsonl --questions 100 -n 64 --router OUT/csqa.gguf --parallel 1" +
	realTimed + " --record OUT/times.recording"}

// steps make parts of the questions, traces, the router and its certificate. The router learns what single questions to
// the large model change, first on the small model's own answers and then on those that such a router leads to.
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

// experiment is what eval measures of a task.
func (t realTask) experiment() experiment {
	return experiment{name: "real-" + t.name, args: fmt.Sprintf("eval %s%s --router OUT/%[1]s.gguf "+
		"--budget 0.03,0.05,0.07 --questions %[3]d -n %d%s -o OUT/%[1]s-answers.jsonl --json",
		t.name, realModels, t.judged, t.tokens, t.run)}
}

// realExperiments are all that is measured of the pair.
func realExperiments() (all []experiment) {
	for _, t := range realTasks() {
		all = append(all, t.experiment())
	}
	return append(all,
		experiment{name: "real-times", args: "bench routing --replay OUT/times.recording --router OUT/csqa.gguf " +
			"--rtt 50ms,100ms,300ms --json" + realTimed},
		experiment{name: "real-capacity", args: "bench capacity -m LARGE --answers 0 --json"})
}

// realPair measures the real pair, whose files are in the folder models: for all tasks, or those of these names. What
// is in the folder dir already is not made again, so that a run that was stopped goes on.
func realPair(ctx context.Context, root, dir, models string, names []string) error {
	dir, program, err := prepare(ctx, root, dir)
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
	steps, measure, err := realChosen(names)
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

// realChosen are the steps and experiments of some tasks, times and capacity; of all without names.
func realChosen(names []string) (steps []realStep, measure []experiment, err error) {
	if len(names) == 0 {
		return realSteps(), realExperiments(), nil
	}
	all := realExperiments()
	for _, name := range names {
		i := slices.IndexFunc(all, func(e experiment) bool { return e.name == "real-"+name })
		if i < 0 {
			return nil, nil, fmt.Errorf("there is no %q: name tasks, times, or capacity", name)
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

// done reports whether the outcome is there, and whole. A folder of traces is when collect has ended, which a file
// beside it says; files are there when they are whole.
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

// paths are what stands for SMALL, LARGE, OUT/ and PAIR in the arguments of a command.
type paths struct{ dir, models, pair string }

// fill returns the arguments of a command with paths in them.
func (p paths) fill(args string) []string {
	return strings.Fields(strings.NewReplacer("SMALL", filepath.Join(p.models, realSmall),
		"LARGE", filepath.Join(p.models, realLarge), "OUT/", p.dir+string(filepath.Separator), "PAIR", p.pair).
		Replace(args))
}

// keptRouters is where the routers of the real pair are committed, with their certificates.
const keptRouters = kept + "/routers"

// adoptRouters puts the certified routers of a study of the real pair into the checkout.
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
