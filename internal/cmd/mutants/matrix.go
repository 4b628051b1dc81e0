package main

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// printMatrix runs each test that reaches a mutant by itself, for some mutants of a package. It writes a line for each
// test: the mutants that it kills, and those that it alone kills. Tests marked spare can go together without a mutant
// of the sample coming to life: they are tried in turn, those with the fewest kills first.
func (t *testBinary) printMatrix(ctx context.Context, pkg string, mutants []mutant, out io.Writer) error {
	kills := make([][]int, len(t.tests)) // by test: the numbers of mutants
	left := map[int]int{}                // by the number of a mutant: the tests that kill it and are needed so far
	for _, m := range mutants {
		for i, one := range t.tests {
			if one.reaches[m.number] == 1 && t.killsMutant(ctx, one, m) {
				kills[i] = append(kills[i], m.number)
				left[m.number]++
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	alone, order := make([]int, len(t.tests)), make([]int, len(t.tests))
	for i, some := range kills {
		order[i] = i
		for _, n := range some {
			if left[n] == 1 {
				alone[i]++
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(kills[a]) - len(kills[b]) })
	for _, i := range order {
		spare := "spare"
		if slices.ContainsFunc(kills[i], func(n int) bool { return left[n] == 1 }) {
			spare = "needed"
		} else {
			for _, n := range kills[i] {
				left[n]--
			}
		}
		fmt.Fprintf(out, "%s: %-6s kills %3d, alone %3d, %6.2fs %s\n", pkg, spare, len(kills[i]), alone[i],
			t.tests[i].took.Seconds(), t.tests[i].name)
	}
	_, err := fmt.Fprintf(out, "%s: mutants tried: %d, killed: %d\n", pkg, len(mutants), len(left))
	return err
}
