package selfcheck

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
)

// quickOptions returns options to check kernels of one type of weights on the software device, with the demo's small
// model.
func quickOptions(t *testing.T, variant soft.Variant) Options {
	t.Helper()
	d, err := soft.Open(soft.Options{Variant: variant})
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	f, err := gguf.Parse(demo.Small())
	require.NoError(t, err)
	return Options{
		Device: d, Models: []Model{{"small", f}}, Minute: time.Hour, Tokens: 1, Types: []string{"Q4_0"},
		Wild: variant == soft.Check,
	}
}

func runCheck(t *testing.T, o Options) (*Report, string) {
	t.Helper()
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, r.Write(&page))
	return r, page.String()
}

// TestSound: a device that is right passes, every kernel is run, and the report says what came.
func TestSound(t *testing.T) {
	o := quickOptions(t, soft.Fast)
	var steps []string
	o.Progress = func(step string) { steps = append(steps, step) }
	r, page := runCheck(t, o)
	assert.Zero(t, r.Failures, page)
	assert.Len(t, steps, 6)
	for _, k := range r.Kernels {
		if k.Name != "" && k.Weights == "Q4_0" {
			assert.Positive(t, k.Runs, k.Name)
		}
	}
	assert.Len(t, r.Checks, (len(operations)+1)*len(rowCounts))
	assert.Equal(t, Text{Model: "small", Tokens: textLength, Off: r.Texts[0].Off}, r.Texts[0])
	assert.Positive(t, r.Texts[0].Off)
	assert.Equal(t, 2*textLength, r.Minute.Tokens)
	assert.Positive(t, r.Minute.BuffersAfter)
	assert.Len(t, r.Speed, 2)
	assert.NotEmpty(t, r.Dispatches)
	assert.Positive(t, r.Step)
	for _, line := range []string{"ok  32 passes through parts of a layer", "ok  64 tokens of small: 0 differ",
		"planted by the self-check): the next pass is right", "decoding with small: ",
		"1 × embed_f16 of 1 threadgroups: ", "everything is right"} {
		assert.Contains(t, page, line)
	}
	b, err := record.Marshal(r)
	require.NoError(t, err)
	var again Report
	require.NoError(t, record.Unmarshal(b, &again))
	assert.Equal(t, r.Checks, again.Checks)
	assert.Equal(t, r.Minute.Took.Round(time.Microsecond), again.Minute.Took)
}

// TestPredicted: on a chip that is known, speeds and dispatches stand beside their predictions.
func TestPredicted(t *testing.T) {
	o := quickOptions(t, soft.Fast)
	c := &checker{o: o, r: Report{GPU: "Apple M4 Pro"}}
	require.NoError(t, c.measureSpeed(t.Context()))
	require.NoError(t, c.measureDispatches(t.Context()))
	var page bytes.Buffer
	require.NoError(t, c.r.Write(&page))
	require.Len(t, c.r.Speed, 2)
	for _, s := range c.r.Speed {
		assert.Positive(t, s.Predicted, s.Rows)
	}
	for _, d := range c.r.Dispatches {
		assert.Positive(t, d.Predicted, d.Kernel)
	}
	assert.Contains(t, page.String(), " tokens/s (predicted ")
	assert.Contains(t, page.String(), " tokens/s (at most ")
}

// TestWild: a kernel that reads where no memory is fails, and the next pass is right.
func TestWild(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute: make long")
	}
	r, page := runCheck(t, quickOptions(t, soft.Check))
	assert.Zero(t, r.Failures, page)
	require.Len(t, r.Faults, 2)
	assert.Contains(t, r.Faults[1].Seen, "kernel wild: out of bounds")
}

// spoiled is a device with a fault that the check has to find.
type spoiled struct {
	metal.Device
	old, new string // an edit of the kernels' source
	refuses  string // a kernel that is not compiled
	mixed    bool   // not even with matrix products of equal operands
	ignores  bool   // its command buffers fail for good once one has failed
	dead     *bool
}

func (d spoiled) NewLibrary(source string) (metal.Library, error) {
	if d.old != "" {
		source = strings.ReplaceAll(source, d.old, d.new)
	}
	l, err := d.Device.NewLibrary(source)
	if d.mixed || !strings.Contains(source, "#define EQUAL_OPERANDS\n") {
		return spoiledLibrary{l, d.refuses}, err
	}
	return spoiledLibrary{l, ""}, err
}

type spoiledLibrary struct {
	metal.Library
	refuses string
}

func (l spoiledLibrary) NewPipeline(name string, constants ...metal.Constant) (metal.Pipeline, error) {
	if name == l.refuses {
		return nil, &metal.CompileError{Function: name, Log: "too many registers\nnote: 96"}
	}
	return l.Library.NewPipeline(name, constants...)
}

func (d spoiled) NewCommands() (metal.Commands, error) {
	c, err := d.Device.NewCommands()
	return spoiledCommands{c, d}, err
}

type spoiledCommands struct {
	metal.Commands
	d spoiled
}

func (c spoiledCommands) Wait() (metal.Timing, error) {
	timing, err := c.Commands.Wait()
	if *c.d.dead = *c.d.dead || err != nil && c.d.ignores; err == nil && *c.d.dead {
		err = metal.ErrFault
	}
	return timing, err
}

// TestSpoiled: wrong arithmetic, kernels that are not compiled, and a device that does not recover are found, and the
// page names them.
func TestSpoiled(t *testing.T) {
	for name, c := range map[string]struct {
		device spoiled
		checks bool // the software device checks accesses
		want   []string
	}{
		"activation": {device: spoiled{old: "1.0f + precise::exp(", new: "1.01f + precise::exp("},
			want: []string{"WRONG  feed-forward with Q4_0 weights", "WRONG  64 tokens of small"}},
		"one kernel": {device: spoiled{refuses: "head_q4_0_2", mixed: true},
			want: []string{"WRONG  head_q4_0_2: Metal function head_q4_0_2: too many registers\n",
				"WRONG  attention with Q4_0 weights, heads 4/2 of 64, keys in F16, 2 rows: Metal function head_q4"}},
		"every source": {device: spoiled{old: "kernel void", new: "kernel voyd"},
			want: []string{"WRONG  the source: ", "WRONG  0 tokens of small: "}},
		"recovery": {device: spoiled{ignores: true}, checks: true,
			want: []string{"WRONG  a kernel that reads where no memory is"}},
	} {
		t.Run(name, func(t *testing.T) {
			variant := soft.Fast
			if c.checks {
				if testing.Short() {
					t.Skip("takes a minute: make long")
				}
				variant = soft.Check
			}
			o := quickOptions(t, variant)
			c.device.Device, c.device.dead = o.Device, new(bool)
			o.Device = c.device
			r, page := runCheck(t, o)
			assert.Positive(t, r.Failures)
			for _, line := range c.want {
				assert.Contains(t, page, line)
			}
			assert.NotContains(t, page, "everything is right")
		})
	}
}

// TestSecondForm: kernels whose first form the compiler refuses are right in the other one, and the page says why.
func TestSecondForm(t *testing.T) {
	o := quickOptions(t, soft.Fast)
	o.Device = spoiled{Device: o.Device, refuses: "attend_wide_64", dead: new(bool)}
	r, page := runCheck(t, o)
	assert.Zero(t, r.Failures, page)
	assert.Contains(t, page, "ok  attend_wide_64, in another form than the first: Metal function attend_wide_64")
}

// TestCancelled: the end of the context ends the check, and is not a fault of the device.
func TestCancelled(t *testing.T) {
	o := quickOptions(t, soft.Fast)
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(step string) {
		if strings.HasPrefix(step, "texts") {
			cancel()
		}
	}
	_, err := Run(ctx, o)
	assert.ErrorIs(t, err, context.Canceled)
}
