package kernels

import (
	"io/fs"
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
		assert.Equal(t, 1, strings.Count(Source(""), line), name)
		beside := 1
		if slices.Contains(weightless[:], name) {
			beside = 0
		}
		assert.Equal(t, beside, strings.Count(Source("Q8_0"), line), name)
	}
	assert.NotContains(t, Source(""), "#define WEIGHT ")
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
	for _, m := range structs.FindAllStringSubmatch(Source(""), -1) {
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
		GateUpArgs{}, HeadArgs{}, HeadSums{}, HeadDraw{}, MergeArgs{},
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
	for _, m := range numbers.FindAllStringSubmatch(Source(""), -1) {
		n, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		if _, twice := found[m[1]]; !twice {
			found[m[1]] = n
		}
	}
	for name, want := range map[string]int{
		"StepColumns": StepColumns, "TileRows": TileRows, "MaxSplits": MaxSplits,
		"WideRows": WideRows, "WideOuts": WideOuts, "WideStep": WideStep, "WideThreads": WideThreads,
		"AttendThreads": AttendThreads, "AttendSimds": AttendSimds, "MergeThreads": MergeThreads,
		"BlockSlots": BlockSlots, "BandRows": BandRows, "BandFloats": BandFloats,
		"MergeLists": MergeLists, "MergeWidth": MergeWidth, "MergeBest": MergeBest,
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
			return strings.Contains(Source(""), s)
		})
		assert.True(t, declared, name)
	}
}
