package hub

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestManyParts: names that claim many parts cost no more than others: none of 300 such files is complete. A number of
// parts larger than in any model is ignored.
func TestManyParts(t *testing.T) {
	var listed []remoteFile
	for i := range 300 {
		listed = append(listed, remoteFile{name: fmt.Sprintf("m%d-00001-of-04096.gguf", i)},
			remoteFile{name: fmt.Sprintf("n%d-00001-of-99999.gguf", i)})
	}
	allocated := testing.AllocsPerRun(1, func() {
		for _, m := range groupModels(listed) {
			assert.Len(t, m, 1)
			assert.Equal(t, "n", m[0].name[:1])
		}
	})
	assert.Less(t, allocated, 20_000., "one name for each part would be 30 million")
	assert.Len(t, groupModels(listed), 300)
	assert.Equal(t, 1, parseSplitName("m-00001-of-99999.gguf").count)
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name   string
		listed []string
		want   []string // nil: an error that lists the choices
	}{
		{"the only one", []string{"model-IQ2_XS.gguf"}, []string{"model-IQ2_XS.gguf"}},
		{"q8_0 before all", []string{"m-f16.gguf", "m-q4_0.gguf", "m-q4_k_m.gguf", "m-q8_0.gguf"},
			[]string{"m-q8_0.gguf"}},
		{"upper case", []string{"m.F16.gguf", "m.Q4_0.gguf", "m.Q4_K_M.gguf"}, []string{"m.Q4_K_M.gguf"}},
		{"q4_0", []string{"m-f16.gguf", "m-q4_0.gguf", "m-q4_1.gguf"}, []string{"m-q4_0.gguf"}},
		{"f16 last", []string{"m-f16.gguf", "m-q2_k.gguf"}, []string{"m-f16.gguf"}},
		{"bf16 is not f16, q4_k_m_l not q4_k_m", []string{"m-bf16.gguf", "m-q4_k_m_l.gguf"}, nil},
		{"a later word counts", []string{"q4_0x-q4_0.gguf", "m-q5_0.gguf"}, []string{"q4_0x-q4_0.gguf"}},
		{"two of the best kind", []string{"a-q8_0.gguf", "b-q8_0.gguf", "a-q4_0.gguf"}, nil},
		{"projectors do not count", []string{"mmproj-m-f16.gguf", "m-q3_k.gguf"}, []string{"m-q3_k.gguf"}},
		{"nor in capitals", []string{"sub/MMPROJ-m-f16.GGUF", "m-q3_k.GGUF"}, []string{"m-q3_k.GGUF"}},
		{"a split one in capitals", []string{"m-00002-of-00002.GGUF", "m-00001-of-00002.GGUF"},
			[]string{"m-00001-of-00002.GGUF", "m-00002-of-00002.GGUF"}},
		{"none", nil, nil},
		{"split", []string{"m-q8_0-00002-of-00002.gguf", "m-q8_0-00001-of-00002.gguf", "m-q4_0.gguf"},
			[]string{"m-q8_0-00001-of-00002.gguf", "m-q8_0-00002-of-00002.gguf"}},
		{"split with a part missing", []string{"m-q8_0-00001-of-00002.gguf", "m-q4_0.gguf", "m-q2_k.gguf"},
			[]string{"m-q4_0.gguf"}},
		{"no split", []string{"m-00003-of-00002.gguf", "m-00000-of-00001.gguf"}, nil},
		{"no first part", []string{"m-00000-of-00002.gguf", "x.gguf"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var listed []remoteFile
			for _, n := range c.listed {
				listed = append(listed, remoteFile{name: n, size: 123e6})
			}
			got, err := chooseModel(Ref{Owner: "o", Name: "n", Revision: "main"}, listed)
			if c.want == nil {
				require.Error(t, err)
				for _, n := range c.listed {
					assert.NotContains(t, err.Error(), "no GGUF models at all")
					assert.Contains(t, err.Error(), "\n  o/n:"+n+"  (123.0 MB)")
				}
				return
			}
			require.NoError(t, err)
			var names []string
			for _, g := range got {
				names = append(names, g.name)
			}
			assert.Equal(t, c.want, names)
		})
	}
}

// TestManyChoices: an error lists some of the choices.
func TestManyChoices(t *testing.T) {
	var listed []remoteFile
	for i := range 60 {
		listed = append(listed, remoteFile{name: fmt.Sprintf("m%02d-q8_0.gguf", i)})
	}
	_, err := chooseModel(Ref{Owner: "o", Name: "n", Revision: "main"}, listed)
	require.ErrorContains(t, err, "\n  o/n:m39-q8_0.gguf  (0.0 MB)\n  and 20 more")
	assert.NotContains(t, err.Error(), "m40")
	_, err = chooseModel(Ref{Owner: "o", Name: "n", Revision: "main"}, []remoteFile{
		{name: "a-q8_0-00002-of-00002.gguf", size: 1e6}, {name: "a-q8_0-00001-of-00002.gguf", size: 2e6},
		{name: "b-q8_0.gguf", size: 3e6},
	})
	require.ErrorContains(t, err, "\n  o/n:a-q8_0-00001-of-00002.gguf  (3.0 MB)\n  o/n:b-q8_0.gguf  (3.0 MB)",
		"a model in parts is one choice, by its first part")
}
