package bench

import (
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
)

// check returns an error for flags that are wrong for every model, and parses the lists.
func (f *benchEngineFlags) check() error {
	l := &f.lists
	f.m.Prompts, f.m.Decodes, f.m.Depths = l.prompt.Values, l.generate.Values, l.depth.Values
	f.m.Threads, f.m.Rows = l.threads.Values, l.rows.Values
	if err := f.checkNames(); err != nil {
		return err
	}
	return f.checkNumbers()
}

func (f *benchEngineFlags) checkNames() error {
	for _, name := range f.kv {
		f.m.KV = append(f.m.KV, group.ParseKV(name))
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
	return nil
}

// checkNumbers returns an error for numbers that contradict each other.
func (f *benchEngineFlags) checkNumbers() error {
	o := &f.m
	nothing := total(o.Prompts) == 0 && total(o.Decodes) == 0
	switch {
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
	for _, l := range []struct {
		flag, name  string
		list        *[]int
		room, after int
	}{{"-d", "depth", &o.Depths, most - 1, 0}, {"--rows", "rows", &o.Rows, limit - before, before},
		{"-p", "prompt", &o.Prompts, most - depth, depth}, {"-n", "generate", &o.Decodes, most - before, before}} {
		n, room := longest(*l.list), max(0, l.room)
		switch {
		case n <= room:
		case f.flags.Changed(l.name):
			return cli.Usagef("%s %d is too long: %s holds %d tokens, so give at most %d after a context of %d",
				l.flag, n, o.Model, limit, room, l.after)
		default:
			*l.list = []int{room}
		}
	}
	return nil
}

// longest returns the largest number of a list, or 0.
func longest(list []int) int { return slices.Max(append([]int{0}, list...)) }

func total(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}
