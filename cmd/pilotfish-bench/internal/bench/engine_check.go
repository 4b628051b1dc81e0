package bench

import (
	"slices"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
)

// checkEngineFlags returns an error for flags that are wrong for every model, and sets the options.
func (f *benchEngineFlags) checkEngineFlags() (err error) {
	l, o := &f.lists, &f.m
	o.Prompts, o.Decodes, o.Depths, o.Rows = l.prompt.Values, l.generate.Values, l.depth.Values, l.rows.Values
	o.Engine.KV = group.ParseKV(f.kv)
	if o.Engine.Backend, err = group.ParseBackend(f.backend); err != nil {
		return err
	}
	o.Engine.HugePages = group.ParseHugePages(f.huge, o.Engine.Backend)
	if totalLength(o.Prompts) == 0 && totalLength(o.Decodes) == 0 && len(o.Rows) == 0 {
		return cli.Usagef("-p 0 and -n 0 leave nothing to measure: give one of them a number of tokens")
	}
	for _, d := range o.Depths {
		if d > 0 && d < 8 {
			return cli.Usagef("-d %d is too short: give 8 or more", d)
		}
	}
	return nil
}

// fitContext shortens defaults to the context of the model, which is limit tokens, and returns an error if a given
// number is too long.
func (f *benchEngineFlags) fitContext(limit int) error {
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
		n, room := longestLength(*l.list), max(0, l.room)
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

// longestLength returns the largest number of a list, or 0.
func longestLength(list []int) int { return slices.Max(append([]int{0}, list...)) }

func totalLength(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}
