package wire

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJain(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{[]float64{3, 3, 3}, 1}, {[]float64{1, 0, 0, 0}, 0.25}, {[]float64{1, 2, 3}, 36. / 42}, {nil, 1},
		{[]float64{0, 0}, 1}} {
		assert.InDelta(t, c.want, jainIndex(c.x), 1e-12, "%v", c.x)
	}
}

// TestFairness: shares and times are compared among the devices that had a question due.
func TestFairness(t *testing.T) {
	device := func(asks int, took ...time.Duration) *loadDevice { return &loadDevice{asks: asks, took: took} }
	const ms = time.Millisecond
	l := newLoad(GatewayOptions{Devices: 4})
	l.devices = []*loadDevice{device(2, 10*ms, 20*ms), device(2, 40*ms),
		device(4), device(0)}
	var r GatewayReport
	l.reportFairness(&r)
	require.NotNil(t, r.AnswersJain)
	assert.InDelta(t, 1.5*1.5/(3*1.25), *r.AnswersJain, 1e-12, "one device had no question due")
	assert.InDelta(t, 0.9, *r.P99Jain, 1e-3)
	l.devices, r = l.devices[:1], GatewayReport{}
	l.reportFairness(&r)
	assert.Nil(t, r.AnswersJain, "not for a single device")
}

// TestOverload: the report of a gateway with more questions than its model can answer has all of them.
func TestOverload(t *testing.T) {
	o := GatewayOptions{Devices: 4, Rate: 50, Model: 20 * time.Millisecond, Abreast: 2,
		Duration: 500 * time.Millisecond}
	r, err := Gateway(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, 100, newLoad(o).expected)
	assert.Equal(t, 100, r.Asks)
	assert.Positive(t, *r.AnswersJain)
	assert.LessOrEqual(t, r.PerSecond, 101., "the model answers two questions in 20 ms")
	assert.GreaterOrEqual(t, r.Time.Max, 250., "a second of work in half of one")
	h, err := hdrhistogram.Decode([]byte(r.Histogram))
	require.NoError(t, err)
	assert.EqualValues(t, r.Answers, h.TotalCount())
	assert.InDelta(t, r.Time.P99, float64(h.ValueAtQuantile(99))/1e6, 1e-9)
	_, err = base64.StdEncoding.DecodeString(r.Histogram)
	assert.NoError(t, err)
}
