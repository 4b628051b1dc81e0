package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// killMatrix has for each test of a package the mutants that it kills when it is run by itself.
type killMatrix struct {
	tests []test
	kills [][]int // by test: the numbers of mutants, increasing
}

// killMatrix runs each test that reaches a mutant by itself, for each of the mutants.
func (t *trial) killMatrix(ctx context.Context, mutants []mutant) (killMatrix, error) {
	m := killMatrix{tests: t.tests, kills: make([][]int, len(t.tests))}
	for _, mut := range mutants {
		for i, one := range t.tests {
			if one.reaches[mut.number] == 0 {
				continue
			}
			if _, err := t.run(ctx, "MUTANT="+strconv.Itoa(mut.number), 4*one.took+15*time.Second,
				one.name); err != nil {
				m.kills[i] = append(m.kills[i], mut.number)
			}
			if err := ctx.Err(); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// printMatrix prints the kill matrix of some mutants of a package.
func (t *trial) printMatrix(ctx context.Context, pkg string, mutants []mutant, out io.Writer) error {
	m, err := t.killMatrix(ctx, mutants)
	if err != nil {
		return err
	}
	m.print(out, pkg)
	fmt.Fprintf(out, "%s: mutants tried: %d, killed: %d\n", pkg, len(mutants), len(m.killed()))
	return nil
}

// killed counts for each mutant that dies the tests that kill it.
func (m killMatrix) killed() map[int]int {
	count := map[int]int{}
	for _, kills := range m.kills {
		for _, n := range kills {
			count[n]++
		}
	}
	return count
}

// print writes a line for each test: the mutants that it kills, and those that it alone kills. Tests marked spare can
// go together without a mutant of the sample coming to life: they are tried in turn, those with the fewest kills first.
func (m killMatrix) print(out io.Writer, pkg string) {
	left := m.killed()
	alone := make([]int, len(m.tests))
	order := make([]int, len(m.tests))
	for i, kills := range m.kills {
		order[i] = i
		for _, n := range kills {
			if left[n] == 1 {
				alone[i]++
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(m.kills[a]) - len(m.kills[b]) })
	for _, i := range order {
		spare := "spare"
		if slices.ContainsFunc(m.kills[i], func(n int) bool { return left[n] == 1 }) {
			spare = "needed"
		} else {
			for _, n := range m.kills[i] {
				left[n]--
			}
		}
		fmt.Fprintf(out, "%s: %-6s kills %3d, alone %3d, %6.2fs %s\n", pkg, spare, len(m.kills[i]), alone[i],
			m.tests[i].took.Seconds(), m.tests[i].name)
	}
}
