package bench

import (
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
)

// check returns an error for flags that are wrong for every model, and parses the lists.
func (f *benchEngineFlags) check() error {
	l := &f.lists
	for _, v := range []struct {
		flag   string
		values group.NumberList
		low    int
	}{{"-p", l.prompt, 0}, {"-n", l.generate, 0}, {"-d", l.depth, 0}, {"-t", l.threads, 0},
		{"-r", group.NumberList{f.m.Repeat}, 1}, {"--rows", l.rows, 1}} {
		if low := slices.Min(append(v.values, v.low)); low < v.low {
			return cli.Usagef("%s %d is too small: give %d or more", v.flag, low, v.low)
		}
	}
	f.m.Prompts, f.m.Decodes, f.m.Depths, f.m.Threads, f.m.Rows = l.prompt, l.generate, l.depth, l.threads, l.rows
	if err := f.checkNames(); err != nil {
		return err
	}
	return f.checkNumbers()
}

// checkNames parses the lists of names.
func (f *benchEngineFlags) checkNames() error {
	for name := range strings.SplitSeq(f.kv, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains([]string{"auto", "f16", "f32"}, name) {
			return cli.Usagef("--kv %.40q is not known: choose auto, f16, f32", name)
		}
		kv := group.ParseKV(name)
		if !slices.Contains(f.m.KV, kv) {
			f.m.KV = append(f.m.KV, kv)
		}
	}
	for name := range strings.SplitSeq(f.backend, ",") {
		b, err := group.ParseBackend(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		if !slices.Contains(f.m.Backends, b) {
			f.m.Backends = append(f.m.Backends, b)
		}
		f.m.Engine.HugePages = group.ParseHugePages(f.huge, b)
	}
	switch {
	case f.output != "text" && f.output != "jsonl":
		return cli.Usagef("-o %.40q is not a form of output: choose text or jsonl", f.output)
	case f.json && f.output != "text":
		return cli.Usagef("--json is a form of its own: leave out -o %s", f.output)
	case len(f.m.Rows) > 0 && f.output != "text":
		return cli.Usagef("llama-bench has no columns for --rows: use --json or text in place of -o %s", f.output)
	}
	return nil
}

// checkNumbers returns an error for numbers that contradict each other.
func (f *benchEngineFlags) checkNumbers() error {
	o := &f.m
	nothing := total(o.Prompts) == 0 && total(o.Decodes) == 0
	threads := slices.Max(o.Threads)
	switch {
	case threads > group.MaxThreads:
		return cli.Usagef("-t %d is too large: give at most %d", threads, group.MaxThreads)
	case len(o.Rows) > 0 && slices.Max(o.Rows) > speed.MostRows:
		return cli.Usagef("--rows %d is too large: give 1 to %d", slices.Max(o.Rows), speed.MostRows)
	case nothing && len(o.Rows) == 0:
		return cli.Usagef("-p 0 and -n 0 leave nothing to measure: give one of them a number of tokens")
	case slices.ContainsFunc(o.Depths, func(d int) bool { return d > 0 && d < 8 }):
		d := o.Depths[slices.IndexFunc(o.Depths, func(d int) bool { return d > 0 && d < 8 })]
		return cli.Usagef("-d %d is too short: give 8 or more", d)
	}
	return nil
}

// fit shortens defaults to the context of the model, which is limit tokens, and returns an error if a given number is
// too long.
func (f *benchEngineFlags) fit(limit int) error {
	o := &f.m
	depth := slices.Max(o.Depths)
	before := max(8, depth) // context before a generation, and before rows
	most := limit - 1       // one token follows
	if depth > most-1 {
		return cli.Usagef("-d %d is too long: %s holds %d tokens, so give at most %d", depth, o.Model, limit, most-1)
	}
	if n := longest(o.Rows); n > 0 && before+n > limit {
		return cli.Usagef("--rows %d is too much: %s holds %d tokens, so give at most %d after a context of %d",
			n, o.Model, limit, max(0, limit-before), before)
	}
	if n := longest(o.Prompts); n > most-depth {
		if f.flags.Changed("prompt") {
			return cli.Usagef("-p %d is too long: %s holds %d tokens, so give at most %d after a context of %d",
				n, o.Model, limit, most-depth, depth)
		}
		o.Prompts = []int{most - depth}
	}
	if n := longest(o.Decodes); n > most-before {
		if f.flags.Changed("generate") {
			return cli.Usagef("-n %d is too long: %s holds %d tokens, so give at most %d after a context of %d",
				n, o.Model, limit, max(0, most-before), before)
		}
		o.Decodes = []int{max(0, most-before)}
	}
	return nil
}

// longest returns the largest number of a list, or 0.
func longest(list []int) int { return slices.Max(append([]int{0}, list...)) }

// total returns the sum of a list.
func total(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}
