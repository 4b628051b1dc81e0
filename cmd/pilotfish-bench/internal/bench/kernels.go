package bench

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
)

// kernelsFlags has the flags of `pilotfish-bench kernels`.
type kernelsFlags struct {
	set, kind string
	json      bool
}

func newBenchKernelsCommand(a *cli.App) *cobra.Command {
	var f kernelsFlags
	c := &cobra.Command{
		Use:   "kernels [SET|all] [flags]",
		Short: "List which microkernel multiplies which weights, and where its source is",
		Long: `List which function multiplies weights of each type with some number of tokens (1 for decoding, more for
prompts and drafts), and the source file that it is in. Nothing is measured: the table comes from the code that chooses.

It is that of the instruction set that this program uses on this CPU, or of the named one, whether this CPU
has it or not. Where weights are packed or converted first, the function that does so is listed as well. Tokens and
outputs that do not fill a function's tile are left to those for fewer tokens. Names begin with the kind
of function: gemv (one token), gemv8 (one token, eight outputs at a time), gemm4 and gemm8 (several tokens,
four or eight outputs), tile (a register tile of packed weights); the comment of package kernels/cpu has a picture.`,
		Example: `  pilotfish-bench kernels
  pilotfish-bench kernels avx2 --type Q4_0`,
		Args: cobra.MatchAll(cli.UpToOneArg("the name of an instruction set"), func(c *cobra.Command,
			args []string) error {
			sets := []string{"all"}
			for _, m := range speed.Microkernels() {
				sets = append(sets, m.Set)
			}
			return cli.OneOf("an instruction set", uniqueTexts(sets))(c, args)
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			f.set = strings.Join(args, "")
			return f.listKernels(a)
		},
	}
	measure.Add(c.Flags(), "type", &f.kind, "")
	cli.Add(c.Flags(), "json", &f.json, false)
	return c
}

func (f *kernelsFlags) listKernels(a *cli.App) error {
	table := speed.Microkernels()
	var types []string
	for _, m := range table {
		types = append(types, m.Type)
	}
	types = uniqueTexts(types)
	kind := strings.ToUpper(f.kind)
	if f.kind != "" && !slices.Contains(types, kind) {
		return cli.Usagef("--type %.40q is not a type: choose one of %s", f.kind, strings.Join(types, ", "))
	}
	table = slices.DeleteFunc(table, func(m speed.Microkernel) bool {
		otherSet := f.set != "" && f.set != "all" && m.Set != f.set
		return f.set == "" && !m.InUse || otherSet || f.kind != "" && m.Type != kind
	})
	if f.json {
		for _, m := range table {
			if err := json.NewEncoder(a.Stdout).Encode(m); err != nil {
				return err
			}
		}
		return nil
	}
	return printKernels(a, table)
}

func uniqueTexts(all []string) (some []string) {
	for _, s := range all {
		if !slices.Contains(some, s) {
			some = append(some, s)
		}
	}
	return some
}

func printKernels(a *cli.App, table []speed.Microkernel) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SET\tTYPE\tTOKENS\tMICROKERNEL\tFILE\tAFTER")
	for _, m := range table {
		tokens := fmt.Sprintf("%d and more", m.From)
		switch {
		case m.To != nil && *m.To == m.From:
			tokens = fmt.Sprint(m.From)
		case m.To != nil:
			tokens = fmt.Sprintf("%d to %d", m.From, *m.To)
		}
		set, after := m.Set, m.Pack
		if m.InUse {
			set += "*"
		}
		if m.Pack != "" {
			after += ", " + m.PackFile
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", set, m.Type, tokens, m.Kernel, m.File, after)
	}
	fmt.Fprintln(a.Stderr, "* in use on this CPU")
	return w.Flush()
}
