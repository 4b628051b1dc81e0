package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// experiment is a command with a file for its lines.
type experiment struct {
	name string // of the file, without its extension
	args string
	pair bool // needs the pair of stories models: the folder for PAIR
}

// experiments returns all experiments of the pages. bench synth writes the model of the engine first.
func experiments() []experiment {
	const modes = "local,cloud,paper,speculative-8,overlapped-8,serial,pipelined-2,pipelined-4,pipelined-8," +
		"pipelined-auto,verified"
	return []experiment{
		{name: "demo", args: "demo --json"},
		{name: "rtt", args: "bench routing --rtt 50ms,100ms,200ms,300ms --cloud-ms 40 --edge-tps 60 --ahead 8 " +
			"--questions 24 --modes " +
			modes + " --json"},
		{name: "stories", pair: true, args: "bench routing --workload docs/results/beginnings.jsonl --raw -n 64 " +
			"-m PAIR/stories-weak-qwen2-f32.gguf --large PAIR/stories260k-qwen2-f32.gguf --threshold 0.012 " +
			"--verify-every 8 --ahead 17 --cloud-ms 40 --edge-tps 60 --rtt 100ms " +
			"--modes local,cloud,speculative-8,overlapped-8,serial,pipelined-auto,verified --json"},
		{name: "engine", args: "bench engine -m random.gguf -p 128 -n 32 -r 3 --json"},
		{name: "gateway", args: "bench gateway --devices 200 --rate 2 --model-ms 5 --seconds 20 --sessions 500 --json"},
		{name: "link", args: "bench link --rtt 100ms --tokens 8 --asks 100 --connects 5 --outages 0 --json"},
	}
}

// allExperiments returns these and those of the real pair.
func allExperiments() []experiment { return append(experiments(), realExperiments()...) }

// study measures the experiments with these names, or all, into the files of a folder, and compares them with the
// stored ones. Existing files are not measured again, so that a stopped study can be continued.
func study(ctx context.Context, root, dir string, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(experiments(), func(e experiment) bool { return e.name == name }) {
			return fmt.Errorf("unknown experiment %q", name)
		}
	}
	dir, program, err := prepare(ctx, root, dir)
	if err != nil {
		return err
	}
	p := paths{dir: dir, pair: os.Getenv("PAIR")}
	for _, e := range experiments() {
		if len(names) > 0 && !slices.Contains(names, e.name) {
			continue
		}
		if e.pair && p.pair == "" {
			fmt.Printf("*** LEFT OUT: %s, which needs the folder of the models that write stories: PAIR=FOLDER ***\n",
				e.name)
			continue
		}
		if err := e.measure(ctx, root, program, p); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// prepare makes the folder and builds the program into it. It returns the paths of both.
func prepare(ctx context.Context, root, folder string) (dir, program string, err error) {
	if dir, err = filepath.Abs(folder); err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	program = filepath.Join(dir, "pilotfish")
	return dir, program, command(ctx, root, os.Stdout, "go", "build", "-o", program, "./cmd/pilotfish")
}

// measure runs an experiment, and compares its results.
func (e *experiment) measure(ctx context.Context, root, program string, p paths) error {
	path := filepath.Join(p.dir, e.name+".jsonl")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := e.run(ctx, root, program, p, path); err != nil {
			return err
		}
	}
	before := keptFile(root, e.name)
	if _, err := os.Stat(before); err != nil {
		return nil
	}
	fmt.Printf("\n%s: as kept, and now\n", e.name)
	return command(ctx, root, os.Stdout, program, "bench", "compare", before, path)
}

// run writes the lines of an experiment to a file, with the hashes of the measured packages. The file is created only
// when all lines are complete.
func (e *experiment) run(ctx context.Context, root, program string, p paths, path string) error {
	args := p.fill(e.args)
	if i := slices.Index(args, "random.gguf"); i >= 0 {
		args[i] = filepath.Join(p.dir, args[i])
		if _, err := os.Stat(args[i]); err != nil {
			if err := command(ctx, root, os.Stdout, program, "bench", "synth", args[i]); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n%s: pilotfish %s\n", e.name, strings.Join(args, " "))
	began := time.Now()
	var out bytes.Buffer
	if err := command(ctx, root, &out, program, args...); err != nil {
		return err
	}
	fmt.Printf("%s: %v\n", e.name, time.Since(began).Round(time.Second))
	hashes, err := sources(root)
	if err != nil {
		return err
	}
	records, err := result.Read(&out, e.name)
	if err != nil {
		return err
	}
	var lines []byte
	revision := checkedOut(ctx, root)
	for _, r := range records {
		if r.Run.Sources = hashes; r.Run.Version == "unknown" {
			r.Run.Version = revision
		}
		line, err := rewritten(r)
		if err != nil {
			return err
		}
		lines = append(lines, line...)
	}
	return os.WriteFile(path, lines, 0o644)
}

// checkedOut returns the revision of a checkout, for programs without a version set by the linker.
func checkedOut(ctx context.Context, root string) string {
	var revision, changes bytes.Buffer
	if err := errors.Join(command(ctx, root, &revision, "git", "rev-parse", "HEAD"),
		command(ctx, root, &changes, "git", "status", "--porcelain", "--untracked-files=no")); err != nil {
		return "unknown"
	}
	if changes.Len() > 0 {
		return strings.TrimSpace(revision.String()) + "+dirty"
	}
	return strings.TrimSpace(revision.String())
}

// command runs a program in a folder.
func command(ctx context.Context, dir string, out io.Writer, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, out, os.Stderr
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return nil
}

// rewritten returns the line of a record with the current run.
func rewritten(r result.Record) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := r.Into(&fields); err != nil {
		return nil, err
	}
	delete(fields, "run")
	return result.Line(fields, r.Run)
}

// adopt copies the measurements of a study to the checkout, compressed, without paths of the machine.
func adopt(root, dir string) error {
	for _, e := range allExperiments() {
		records, err := result.ReadFile(filepath.Join(dir, e.name+".jsonl"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		for _, r := range records {
			r.Run.Command = "pilotfish " + e.args
			r.Run.Flags = withoutPaths(r.Run.Flags)
			line, err := rewritten(r)
			if err != nil {
				return err
			}
			if _, err := z.Write(line); err != nil {
				return err
			}
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(keptFile(root, e.name), packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return adoptRouters(root, dir)
}

// keptFile returns the committed file of an experiment.
func keptFile(root, name string) string { return filepath.Join(root, kept, name+".jsonl.gz") }

// withoutPaths removes the folders from the names of files in flags.
func withoutPaths(flags map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range flags {
		if filepath.IsAbs(value) {
			value = filepath.Base(value)
		}
		all[name] = value
	}
	return all
}
