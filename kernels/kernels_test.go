package kernels

import (
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOrder: every file is part of the source once, and the source of a weight type has only the kernels that use it.
func TestOrder(t *testing.T) {
	names, err := fs.Glob(files, "*.metal")
	require.NoError(t, err)
	assert.ElementsMatch(t, names, order[:])
	for _, name := range names {
		line := "#line 1 " + strconv.Quote(name) + "\n"
		assert.Equal(t, 1, strings.Count(Source("", false), line), name)
		beside := 1
		if slices.Contains(weightless[:], name) {
			beside = 0
		}
		assert.Equal(t, beside, strings.Count(Source("Q8_0", true), line), name)
	}
	assert.NotContains(t, Source("", false), "#define WEIGHT ")
}

var (
	structs = regexp.MustCompile(`(?s)\nstruct (\w+) \{\n(.*?)\n\};`)
	field   = regexp.MustCompile(`^  (uint|float) ([^;]+);`)
	numbers = regexp.MustCompile(`(\w+) = (\d+)\b`)
)

// TestArguments: each struct that both sides share has the same fields in the same order, all of four bytes, so that
// its layout is the same.
func TestArguments(t *testing.T) {
	found := map[string][]string{}
	for _, m := range structs.FindAllStringSubmatch(Source("", false), -1) {
		for _, line := range strings.Split(m[2], "\n") {
			if f := field.FindStringSubmatch(line); f != nil {
				for _, name := range strings.Split(f[2], ", ") {
					found[m[1]] = append(found[m[1]], f[1]+" "+name)
				}
			}
		}
	}
	for _, args := range []any{
		EmbedArgs{}, NormArgs{}, QKVArgs{}, AttendArgs{}, AttendRow{}, AttendWideArgs{}, AttendBlock{}, AddArgs{},
		GateUpArgs{}, HeadArgs{}, HeadSums{}, HeadDraw{}, MergeArgs{}, ProjectArgs{}, ConvArgs{}, ConvRow{},
		ConvSource{}, DeltaArgs{}, DeltaStep{},
	} {
		of := reflect.TypeOf(args)
		var want []string
		offset := uintptr(0)
		for i := range of.NumField() {
			f := of.Field(i)
			assert.Equal(t, offset, f.Offset, "%s.%s", of.Name(), f.Name)
			offset += f.Type.Size()
			suffix, element := "", f.Type
			if element.Kind() == reflect.Array {
				suffix, element = "["+strconv.Itoa(element.Len())+"]", element.Elem()
			}
			kind := map[reflect.Kind]string{reflect.Uint32: "uint ", reflect.Float32: "float "}[element.Kind()]
			want = append(want, kind+snake(f.Name)+suffix)
		}
		assert.Equal(t, want, found[of.Name()], of.Name())
		assert.Equal(t, offset, of.Size())
		assert.LessOrEqual(t, of.Size(), uintptr(4096), "the max for data in a command buffer")
	}
}

// snake converts a Go name to the spelling of the kernels.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}

// TestConstants: shared constants are equal on both sides.
func TestConstants(t *testing.T) {
	found := map[string]int{}
	for _, m := range numbers.FindAllStringSubmatch(Source("", false), -1) {
		n, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		if _, twice := found[m[1]]; !twice {
			found[m[1]] = n
		}
	}
	for name, want := range map[string]int{
		"StepColumns": StepColumns, "TailColumns": TailColumns, "TileRows": TileRows, "MaxSplits": MaxSplits,
		"WideRows": WideRows, "WideOuts": WideOuts, "WideStep": WideStep, "WideThreads": WideThreads,
		"AttendThreads": AttendThreads, "AttendSimds": AttendSimds, "MergeThreads": MergeThreads,
		"BlockSlots": BlockSlots, "BandRows": BandRows, "BandFloats": BandFloats,
		"MergeLists": MergeLists, "MergeWidth": MergeWidth, "MergeBest": MergeBest,
		"FromUpdate": FromUpdate, "FromCheckpoint": FromCheckpoint, "FromRow": FromRow, "DeltaSize": DeltaSize,
		"DeltaThreads": DeltaThreads, "DeltaSimds": DeltaSimds, "ChunkTokens": ChunkTokens,
	} {
		assert.Equal(t, want, found[name], name)
	}
	widths, _ := reflect.TypeFor[MergeArgs]().FieldByName("Widths")
	assert.Equal(t, MergeLayers+1, widths.Type.Len())
}

// TestTypes: every type has its struct.
func TestTypes(t *testing.T) {
	for _, name := range Types() {
		declared := slices.ContainsFunc([]string{"struct " + name + " {", " " + name + ";"}, func(s string) bool {
			return strings.Contains(Source("", false), s)
		})
		assert.True(t, declared, name)
	}
}

var (
	comments   = regexp.MustCompile(`//.*|\\\n`)
	directives = regexp.MustCompile(`(?m)^#(?:include|pragma).*`)
	attributes = regexp.MustCompile(`\[\[\w+\(?`)
	called     = regexp.MustCompile(`((?:precise::)?\b[a-z]\w*)(?:<[^<>();]*>)?\(`)
	families   = regexp.MustCompile(`\b(?:packed_|simdgroup_)\w+`)
	declared   = regexp.MustCompile(`(?:\b\w+>? \*?|#define )(\w+)\([^;{}]*\)(?: const)?(?: \{|\s)|struct (\w+)`)
	ordinary   = regexp.MustCompile(`^(?:(?:u?(?:char|short|int|long)|float|half|bool)[234]?|if|for|while|sizeof)$`)
)

// used returns what a source uses of the Metal language, beyond numbers, vectors and statements.
func used(source string) map[string]bool {
	source = comments.ReplaceAllString(source, "")
	own, all := map[string]bool{}, map[string]bool{}
	for _, m := range declared.FindAllStringSubmatch(source, -1) {
		own[m[1]], own[m[2]] = true, true
	}
	for _, m := range called.FindAllStringSubmatch(source, -1) {
		if !own[m[1]] && !ordinary.MatchString(m[1]) {
			all[m[1]] = true
		}
	}
	for _, form := range []*regexp.Regexp{directives, attributes, families} {
		for _, text := range form.FindAllString(source, -1) {
			all[strings.TrimSpace(text)] = true
		}
	}
	return all
}

// TestIdioms: idioms.txt has a witness for all that the kernels use of the Metal language, and for nothing else.
func TestIdioms(t *testing.T) {
	text, err := os.ReadFile("idioms.txt")
	require.NoError(t, err)
	source := Source("Q8_0", false) + Source("", true)
	var idioms []string
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Split(line, "\t"); len(f) > 1 {
			require.Len(t, f, 3, line)
			assert.Regexp(t, `^[\w.-]+/[\w.-]+$`, f[1], line)
			assert.Contains(t, source, f[0], "no kernel uses this any more")
			idioms = append(idioms, f[0])
		}
	}
	for use := range used(source) {
		whole := regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(use) + `($|\W)`)
		assert.True(t, slices.ContainsFunc(idioms, whole.MatchString),
			"idioms.txt has no witness for %s: find a public kernel that uses it, or do without", use)
	}
	for _, fresh := range []string{"simd_shuffle_rotate_up(v, 1)", "popcount(x)", "packed_half2", "[[grid_size]]",
		"#pragma METAL fp math_mode(fast)", "fast::exp(x)"} {
		assert.Len(t, used("inline float f(float x) {\n"+fresh+"\n}"), 1, fresh)
	}
}
