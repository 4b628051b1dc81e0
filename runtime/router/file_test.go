package router

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// everyField returns a file with a different value in every field.
func everyField(t *testing.T) *File {
	n, err := NewNet([]Layer{{In: 3, Out: 1, Weight: []float32{1, 2, 3}, Bias: []float32{4}}}, true)
	require.NoError(t, err)
	j, err := NewNet([]Layer{{In: 6, Out: 1, Weight: []float32{1, 2, 3, 4, 5, 6}, Bias: []float32{7}}}, true)
	require.NoError(t, err)
	r := &File{Net: n, Judge: &Judge{Net: j}, Certificate: new(Certificate), Confidences: []float32{0, 0.25, 0.25, 1}}
	next := 0
	for _, of := range []any{&r.About, &r.Judge.About, r.Certificate} {
		fields := reflect.ValueOf(of).Elem()
		for i := range fields.NumField() {
			next++
			switch f := fields.Field(i); f.Kind() {
			case reflect.String:
				f.SetString(fields.Type().Field(i).Name)
			case reflect.Int:
				f.SetInt(int64(next))
			case reflect.Float64:
				f.SetFloat(float64(next) / 100)
			default:
				t.Fatalf("field %s has a kind that a file cannot store", fields.Type().Field(i).Name)
			}
		}
	}
	r.Certificate.Policy = Verify
	return r
}

// begin and end write a file with a network, and what is put between them.
func begin(w *gguf.Writer, n *Net) {
	gguf.Put(w, "general.architecture", architecture)
	n.writeKeys(w, prefixRouter)
}

func end(w *gguf.Writer, n *Net) error {
	n.declareTensors(w, prefixRouter)
	return errors.Join(n.writeTensors(w), w.Close())
}

func stored(t *testing.T, r *File) *gguf.File {
	var b bytes.Buffer
	require.NoError(t, r.Write(gguf.NewWriter(&b)))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	return f
}

// TestFileKeepsAll: each field of a file is read as it was written; all fields are optional.
func TestFileKeepsAll(t *testing.T) {
	want := everyField(t)
	got, err := Read(stored(t, want))
	require.NoError(t, err)
	assert.Equal(t, want, got)
	c := want.Certificate
	c.Prompts, c.Tokens, c.MaxTokens = 1, 1, 1
	got, err = Read(stored(t, want))
	require.NoError(t, err, "the smallest counts")
	assert.Equal(t, want, got)
	bare := &File{Net: want.Net}
	got, err = Read(stored(t, bare))
	require.NoError(t, err)
	assert.Equal(t, bare, got)
	for _, e := range bare.About.aboutEntries("") {
		assert.NotContains(t, stored(t, bare).Keys(), e.key)
	}
}

// TestJudgeFile: a file may have a judge and no router, which then cannot be used; a judge of another shape is refused.
func TestJudgeFile(t *testing.T) {
	only := &File{Judge: everyField(t).Judge}
	got, err := Read(stored(t, only))
	require.NoError(t, err)
	assert.Equal(t, only, got)
	assert.Equal(t, Judged, got.Policy())
	o, err := got.Options(Judged)
	require.NoError(t, err)
	assert.Equal(t, only.Judge.Fingerprint(), o.Judge)
	_, err = got.Options(Learned)
	assert.ErrorContains(t, err, "no router")
	whole := everyField(t)
	o, err = whole.Options(Learned)
	require.NoError(t, err)
	assert.Equal(t, whole.Net, o.Net)
	_, err = (&File{Net: whole.Net}).Options(Judged)
	assert.ErrorContains(t, err, "no judge")
	_, err = Read(stored(t, &File{Judge: &Judge{Net: whole.Net}})) // of an odd number of inputs
	assert.ErrorContains(t, err, "two hidden states")
	_, err = Read(stored(t, &File{}))
	assert.ErrorContains(t, err, "without layers")

	assert.NoError(t, only.Judge.Fits(2))
	assert.ErrorContains(t, only.Judge.Fits(3), "another model")
	other, err := NewNet([]Layer{{In: 6, Out: 1, Weight: []float32{1, 2, 3, 4, 5, 5}, Bias: []float32{7}}}, true)
	require.NoError(t, err)
	assert.NotEqual(t, only.Judge.Fingerprint(), (&Judge{Net: other}).Fingerprint())
	before, after := []float32{0.1, -0.2}, []float32{0.3, -0.1}
	z := 0.1*1 - 0.2*2 + 0.3*3 - 0.1*4 + 0.5*5 + math.Exp(-2)*6 + 7
	assert.InDelta(t, 1/(1+math.Exp(-z)), only.Judge.Confidence(before, after, 0.5, 2), 1e-6)
}

// TestFileKeys: a field is stored under its name, in lower case with underscores, except for a few.
func TestFileKeys(t *testing.T) {
	r := everyField(t)
	f := stored(t, r)
	others := map[string]string{"escalate": "escalate_share",
		"calibration": "calibration_error"}
	for prefix, of := range map[string]any{"": r.About, "judge.": r.Judge.About, "certificate.": *r.Certificate} {
		fields := reflect.ValueOf(of)
		for i := range fields.NumField() {
			name := fields.Type().Field(i).Name
			key := strings.ToLower(regexp.MustCompile("([a-z]|P)([A-Z])").ReplaceAllString(name, "${1}_$2"))
			key = architecture + "." + prefix + cmp.Or(others[key], key)
			var got any
			var err error
			switch v := fields.Field(i); v.Kind() {
			case reflect.String:
				got, err = f.String(key)
			case reflect.Float64:
				got, err = f.Float(key)
			default:
				var n int64
				n, err = f.Int(key)
				got = int(n)
			}
			require.NoError(t, err)
			assert.EqualValues(t, fmt.Sprint(fields.Field(i)), fmt.Sprint(got), key)
		}
	}
}

// TestCertificateRefused: an incomplete or impossible certificate is refused.
func TestCertificateRefused(t *testing.T) {
	for part, change := range map[string]func(*Certificate){
		"no such":    func(c *Certificate) { c.Policy = "no such" },
		"budget":     func(c *Certificate) { c.Budget = 1.5 },
		"confidence": func(c *Certificate) { c.Confidence = -0.1 },
		"threshold":  func(c *Certificate) { c.Threshold = math.NaN() },
		"share":      func(c *Certificate) { c.Share = 2 },
		"p-value":    func(c *Certificate) { c.PValue = math.Inf(1) },
		"0 prompts":  func(c *Certificate) { c.Prompts = 0 },
		"0 tokens":   func(c *Certificate) { c.Tokens = 0 },
		"at most 0":  func(c *Certificate) { c.MaxTokens = 0 },
		"negative":   func(c *Certificate) { c.Prompts = -1 },
	} {
		r := everyField(t)
		change(r.Certificate)
		_, err := Read(stored(t, r))
		assert.ErrorContains(t, err, part)
	}
	var b bytes.Buffer
	w := gguf.NewWriter(&b)
	r := everyField(t)
	begin(w, r.Net)
	gguf.Put(w, architecture+".certificate.budget", 0.07)
	require.NoError(t, end(w, r.Net))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	_, err = Read(f)
	assert.ErrorContains(t, err, "lacks 14 of its 15 fields")
	b.Reset()
	w = gguf.NewWriter(&b)
	begin(w, r.Net)
	gguf.Put(w, architecture+".label", uint32(3))
	require.NoError(t, end(w, r.Net))
	f, err = gguf.Parse(b.Bytes())
	require.NoError(t, err)
	_, err = Read(f)
	assert.ErrorContains(t, err, "label")
}

// TestAboutRefused: an error names the figure that is not a share.
func TestAboutRefused(t *testing.T) {
	for key, change := range map[string]func(*About){
		"escalate_share":    func(a *About) { a.Escalate = 1.5 },
		"auc":               func(a *About) { a.AUC = math.NaN() },
		"calibration_error": func(a *About) { a.Calibration = math.Inf(1) },
	} {
		r := everyField(t)
		change(&r.About)
		_, err := Read(stored(t, r))
		assert.ErrorContains(t, err, key)
	}
}

// TestFileConfidences: an invalid calibration is neither written nor read, and a file without one has none.
func TestFileConfidences(t *testing.T) {
	good := everyField(t)
	for part, all := range map[string][]float32{
		"there are 1025":         make([]float32, maxConfidences+1),
		"confidences[1]: NaN":    {0, float32(math.NaN())},
		"confidences[0]: -0.5":   {-0.5, 0},
		"confidences[2]: 1.5":    {0, 1, 1.5},
		"confidences[0]: +Inf":   {float32(math.Inf(1))},
		"not in ascending order": {0.5, 0.25},
	} {
		r := &File{Net: good.Net, Confidences: all}
		assert.ErrorContains(t, r.Write(gguf.NewWriter(new(bytes.Buffer))), part)
		var b bytes.Buffer
		w := gguf.NewWriter(&b)
		begin(w, r.Net)
		gguf.PutArray(w, keyConfidences, all)
		require.NoError(t, end(w, r.Net))
		f, err := gguf.Parse(b.Bytes())
		require.NoError(t, err)
		_, err = Read(f)
		assert.ErrorContains(t, err, part)
	}
	var b bytes.Buffer
	w := gguf.NewWriter(&b)
	begin(w, good.Net)
	gguf.Put(w, keyConfidences, "0.5")
	require.NoError(t, end(w, good.Net))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	_, err = Read(f)
	assert.ErrorContains(t, err, keyConfidences)
	for _, n := range []int{1, maxConfidences} {
		some := &File{Net: good.Net, Confidences: make([]float32, n)}
		got, err := Read(stored(t, some))
		require.NoError(t, err)
		assert.Equal(t, some, got)
	}
}
