package cpu

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"
)

var update = flag.Bool("update", false, "write the table of microkernels and the files that they are in")

// TestMicrokernels: the table of this architecture equals the committed one, so that each change is visible; it has all
// types, and all numbers of tokens once for each.
func TestMicrokernels(t *testing.T) {
	table := Microkernels()
	var b strings.Builder
	for _, m := range table {
		fmt.Fprintf(&b, "%-10s %-6s %2d to %-2d %s", m.Set, m.Type, m.From, m.To, m.Kernel)
		if m.Pack != "" {
			fmt.Fprintf(&b, " after %s", m.Pack)
		}
		b.WriteByte('\n')
		assert.NotEmpty(t, files()[m.Kernel], m.Kernel)
	}
	for _, set := range isa.All() {
		k := newKernels(set)
		for _, w := range block.Types() {
			next := 1
			for _, m := range table {
				if m.Set == k.name && m.Type == w {
					require.Equal(t, next, m.From, "%s %s", k.name, w)
					next = m.To + 1
				}
			}
			require.Equal(t, 1, next, "%s %s has no open end", k.name, w)
		}
	}
	if noAssembly() {
		return // fewer instruction sets
	}
	golden := filepath.Join("testdata", "microkernels_"+runtime.GOARCH+".txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), b.String(),
		"to accept the change, run go test ./kernels/cpu -run Microkernels -update")
}

// noAssembly reports whether this build has only plain Go.
func noAssembly() bool { return len(isa.All()) == 1 }

// TestTableIsRight: the functions in the table are called, and no others except those that the table has for fewer
// tokens.
func TestTableIsRight(t *testing.T) {
	racing.Spare(t)
	k := offeredKernels()[len(offeredKernels())-1]
	for _, w := range block.Types() {
		may := map[string]bool{functionName(k.gemvF32): formatOf(w) < 0} // also for a last token of converted weights
		for tokens := 1; tokens <= 20; tokens++ {
			line := k.microkernelFor(w, tokens)
			for _, name := range []string{line.Kernel, line.Pack} {
				may[name] = true
			}
			if f := formatOf(w); f >= 0 && tokens > tileTokens {
				// with AMX, packed weights and a few remaining tokens
				may[functionName(k.tileOf(f, tokens%tileTokens))] = true
			}
			called := map[string]bool{}
			var x Acts
			x.Resize(tokens, tableCols)
			m := Matrix{Type: w, Rows: 32, Cols: tableCols}
			m.Data = make([]byte, m.Rows*m.RowBytes())
			for i := range tokens {
				if m.Quantised() {
					x.Round(i)
				}
			}
			spied := spy(k, func(f any) { called[functionName(f)] = true })
			spied.matMul(make([]float32, tokens*m.Rows), m.Rows, m, 0, m.Rows, &x, false, new(Scratch))
			assert.True(t, called[line.Kernel], "%s, %d tokens: %s is not called", w, tokens, line.Kernel)
			assert.Equal(t, line.Pack != "" && line.Pack != dequantize, called[line.Pack], "%s, %d tokens", w, tokens)
			for name := range called {
				assert.True(t, may[name], "%s, %d tokens: %s is called", w, tokens, name)
			}
		}
	}
}

// TestFiles: files.txt lists the files of the functions in the table, for all architectures.
func TestFiles(t *testing.T) {
	text := regexp.MustCompile(`(?m)^TEXT ·(\w+?)(?:Args)?\(SB\)`)
	all := map[string]string{}
	sources, err := filepath.Glob("*.s")
	require.NoError(t, err)
	for _, file := range sources {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range text.FindAllSubmatch(b, -1) {
			all[string(m[1])] = file
		}
	}
	generic, err := filepath.Glob("generic*.go")
	require.NoError(t, err)
	for _, file := range generic {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				all[f.Name.Name] = file
			}
		}
	}
	var lines []string
	for name, file := range all {
		lines = append(lines, name+" "+file+"\n")
	}
	slices.Sort(lines)
	want := strings.Join(lines, "")
	if *update {
		require.NoError(t, os.WriteFile("files.txt", []byte(want), 0o644))
	}
	got, err := os.ReadFile("files.txt")
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "go test ./kernels/cpu -run Files -update")
}

// spy returns k with functions that call tell with the function of the table.
func spy(k *kernels, tell func(f any)) *kernels {
	s := *k
	for f := range formats {
		s.gemv[f], s.pack[f] = spied(k.gemv[f], tell), spied(k.pack[f], tell)
		s.tile[f], s.fewTile[f] = spied(k.tile[f], tell), spied(k.fewTile[f], tell)
		s.twoPanels[f] = spied(k.twoPanels[f], tell)
		s.smallGEMMs[f] = slices.Clone(k.smallGEMMs[f])
		for i := range s.smallGEMMs[f] {
			s.smallGEMMs[f][i].multiply = spied(s.smallGEMMs[f][i].multiply, tell)
		}
	}
	for _, f := range []*floatGEMM{
		&s.gemvF32, &s.gemvF16, &s.gemvBF16, &s.gemmF32, &s.gemmF16, &s.gemmBF16,
		&s.gemm8F32, &s.gemm8F16, &s.gemm8BF16,
	} {
		*f = spied(*f, tell)
	}
	return &s
}

// spied returns f, if it is not nil, as a function that calls tell first.
func spied[F ~func(*A), A any](f F, tell func(f any)) F {
	if f == nil {
		return nil
	}
	return func(a *A) {
		tell(f)
		f(a)
	}
}
