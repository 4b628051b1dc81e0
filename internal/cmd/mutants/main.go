// Command mutants plants small mistakes in packages, one after the other, and prints those that no test of the package
// finds. All mistakes of a package are compiled into one test binary, in which an environment variable switches one of
// them on, and each is tried with the tests that reach it: minutes for a package, where a build for each mistake takes
// hours (mutant schemata; Untch, Offutt and Harrold 1993).
//
// A mistake is a statement that is dropped; a condition, or an operand of && and ||, that is always false or true; a
// comparison that is off by one; a sign or an operand of arithmetic; min or max of one argument; a field of a struct
// literal that is not set; two arguments of a type exchanged; an error that is not returned.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := scorePackages(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

type options struct {
	sample int
	short  bool
	matrix bool
}

func scorePackages(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.IntVar(&o.sample, "n", 60, "mutants of each package, chosen at random; 0: all")
	flags.BoolVar(&o.short, "short", false, "short tests only")
	flags.BoolVar(&o.matrix, "matrix", false,
		"try each test by itself, and print how many mutants it kills, and alone kills")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := packages.Load(&packages.Config{Context: ctx, Mode: packages.LoadSyntax}, flags.Args()...)
	if err != nil {
		return err
	}
	for _, p := range all {
		if len(p.Errors) > 0 {
			return p.Errors[0]
		}
		if err := o.scorePackage(ctx, p, out); err != nil {
			return fmt.Errorf("%s: %w", p.PkgPath, err)
		}
	}
	return nil
}

func (o options) scorePackage(ctx context.Context, p *packages.Package, out io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	mutants, replace, err := plantMutants(p, folder)
	if err != nil {
		return err
	}
	t, err := buildTests(ctx, p.Dir, folder, replace)
	if err != nil {
		return err
	}
	if t == nil {
		fmt.Fprintf(out, "%s: %d mutants, and no tests\n", p.PkgPath, len(mutants))
		return nil
	}
	t.short = o.short
	failing, err := t.measureTests(ctx, folder, len(mutants))
	if err != nil {
		return err
	}
	if len(failing) > 0 {
		fmt.Fprintf(out, "%s: left out, as they fail by themselves: %s\n", p.PkgPath, strings.Join(failing, ", "))
	}
	if o.matrix {
		return t.printMatrix(ctx, p.PkgPath, o.sampleMutants(mutants), out)
	}
	count := map[mutantStatus]int{}
	for _, m := range o.sampleMutants(mutants) {
		f := t.tryMutant(ctx, m)
		if err := ctx.Err(); err != nil {
			return err
		}
		count[f]++
		if f != killed {
			fmt.Fprintf(out, "%s: %s: %s\n", p.PkgPath, f, m)
		}
	}
	fmt.Fprintf(out, "%s: %d mutants, tried: %d killed, %d lived, %d not reached\n", p.PkgPath, len(mutants),
		count[killed], count[lived], count[notReached])
	return nil
}

// sampleMutants returns the mutants to try, in order: in each call the same.
func (o options) sampleMutants(all []mutant) []mutant {
	order := rand.New(rand.NewPCG(1, 0)).Perm(len(all))
	if o.sample > 0 && o.sample < len(order) {
		order = order[:o.sample]
	}
	slices.Sort(order)
	var some []mutant
	for _, i := range order {
		some = append(some, all[i])
	}
	return some
}
