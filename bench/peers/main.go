// Peers measures pilotfish-bench engine and llama.cpp on the same model files, in turns, on a quiet machine and beside
// other processes that compute, and writes a table in Markdown. make peers builds and installs both.
//
//	go run ./bench/peers -ours ./pilotfish-bench -npm FOLDER FILE...
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// options are the flags.
type options struct {
	ours, script, npm               string
	busy                            string
	rounds, prompt, tokens, threads int
}

func main() {
	if os.Getenv(burning) != "" {
		burn()
	}
	var o options
	flag.StringVar(&o.ours, "ours", "./pilotfish-bench", "`program` to measure")
	flag.StringVar(&o.script, "script", "bench/peers/llama.mjs", "`file` that measures llama.cpp with node")
	flag.StringVar(&o.npm, "npm", "", "`folder` in which npm has installed node-llama-cpp")
	flag.StringVar(&o.busy, "busy", "0,2,4", "`numbers` of processes that compute beside")
	flag.IntVar(&o.rounds, "rounds", 5, "measurements of each")
	flag.IntVar(&o.prompt, "prompt", 512, "tokens of the prompt")
	flag.IntVar(&o.tokens, "tokens", 64, "tokens to generate")
	flag.IntVar(&o.threads, "threads", 2, "threads of each program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measureFiles(ctx, os.Stdout, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func measureFiles(ctx context.Context, out io.Writer, o options, files []string) error {
	if len(files) == 0 || o.rounds < 1 {
		return errors.New("name model files, and at least one round")
	}
	io.WriteString(out, header)
	for _, file := range files {
		path, err := filepath.Abs(file) // llama.cpp runs in another folder
		if err != nil {
			return err
		}
		for _, busy := range strings.Split(o.busy, ",") {
			n, err := strconv.Atoi(busy)
			if err != nil {
				return fmt.Errorf("-busy: %w", err)
			}
			ours, llama, err := o.measureBusy(ctx, path, n)
			if err != nil {
				return fmt.Errorf("%s beside %d: %w", file, n, err)
			}
			io.WriteString(out, tableRow(filepath.Base(file), n, ours, llama))
		}
	}
	return nil
}

// rates are what one run of a program measures.
type rates struct {
	Prompt     float64 `json:"prompt_tps"`
	Generation float64 `json:"generation_tps"`
}

// measureBusy measures both programs in turns, beside so many processes that compute.
func (o options) measureBusy(ctx context.Context, file string, busy int) (ours, llama []rates, err error) {
	ctx, stop := context.WithCancel(ctx)
	var burners []*exec.Cmd
	defer func() {
		stop()
		for _, b := range burners {
			_ = b.Wait() // it was killed
		}
	}()
	for range busy {
		b := exec.CommandContext(ctx, os.Args[0])
		b.Env = append(os.Environ(), burning+"=1")
		if err := b.Start(); err != nil {
			return nil, nil, err
		}
		burners = append(burners, b)
	}
	number := strconv.Itoa
	script, err := filepath.Abs(o.script)
	if err != nil {
		return nil, nil, err
	}
	for range o.rounds {
		mine := exec.CommandContext(ctx, o.ours, "engine", "-m", file, "-p", number(o.prompt), "-n", number(o.tokens),
			"-r", "1", "-t", number(o.threads), "--json")
		theirs := exec.CommandContext(ctx, "node", script, file, number(o.prompt), number(o.tokens), number(o.threads))
		theirs.Dir = o.npm
		for _, run := range []struct {
			program *exec.Cmd
			to      *[]rates
		}{{mine, &ours}, {theirs, &llama}} {
			r, err := measured(run.program)
			if err != nil {
				return nil, nil, err
			}
			*run.to = append(*run.to, r)
		}
	}
	return ours, llama, nil
}

// measured returns the rates in the last line that a program prints.
func measured(program *exec.Cmd) (r rates, err error) {
	var said bytes.Buffer
	program.Stderr = &said
	out, err := program.Output()
	if err != nil {
		return r, fmt.Errorf("%s: %w\n%s", program, err, said.Bytes())
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
		return r, fmt.Errorf("%s printed %q: %w", program, lines[len(lines)-1], err)
	}
	return r, nil
}

const header = `| file | beside | generation | llama.cpp | × | prompt | llama.cpp | × |
|---|---|---|---|---|---|---|---|
`

// tableRow has medians in tokens/s, with the least and the largest.
func tableRow(file string, busy int, ours, llama []rates) string {
	row := fmt.Sprintf("| %s | %d |", file, busy)
	for _, of := range []func(rates) float64{
		func(r rates) float64 { return r.Generation }, func(r rates) float64 { return r.Prompt },
	} {
		a, b := sorted(ours, of), sorted(llama, of)
		row += fmt.Sprintf(" %s | %s | %.2f |", spread(a), spread(b), median(a)/median(b))
	}
	return row + "\n"
}

func sorted(all []rates, of func(rates) float64) (v []float64) {
	for _, r := range all {
		v = append(v, of(r))
	}
	slices.SortFunc(v, cmp.Compare[float64])
	return v
}

func median(v []float64) float64 { return (v[(len(v)-1)/2] + v[len(v)/2]) / 2 }

func spread(v []float64) string {
	return fmt.Sprintf("%.1f (%.1f–%.1f)", median(v), v[0], v[len(v)-1])
}

// burning is set in the environment of a process that only computes.
const burning = "PILOTFISH_PEERS_BURN"

// burn computes until the process that has started this one is gone.
func burn() {
	parent, sum := os.Getppid(), 0
	for os.Getppid() == parent {
		for i := range 100_000_000 {
			sum += i
		}
	}
	runtime.KeepAlive(sum) // so that the loop is not left out
	os.Exit(0)
}
