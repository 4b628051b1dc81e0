package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/bench/speed"
)

// engineReport returns a report with different values for all figures.
func engineReport() speed.Report {
	return speed.Report{
		PromptTPS: 120, GenerationTPS: 30, PromptTokens: 512, DecodedTokens: 64, LoadMS: 7.25,
		FirstTokenMS: 80.5, PeakRSS: 3e9, HugeBytes: 490e6,
		KVBytes: 12e6, TokenBytes: 400e6, DepthBytes: 2e6, Bandwidth: 20,
		Share: new(0.603), PromptBound: 480, Device: "a device", Threads: 2,
	}
}

// TestEngineNote: what all tests after a load have in common is below their table.
func TestEngineNote(t *testing.T) {
	r := engineReport()
	assert.Equal(t, `memory   20.0 GB/s can be read; a token reads 400 MB of weights, 2.0 MB of keys and values
weights  490 MB of 500 MB in huge pages
load     7.2 ms, first token after 80.5 ms
peak     3.0 GB (keys and values of a full context: 12 MB)
`, memoryNote(&r, 500e6))
	r.PeakRSS, r.WeightsStay = 0, "there is no room"
	assert.Regexp(t, "huge pages: there is no room\nload .*\n$", memoryNote(&r, 500e6))
}

// TestDecodeRemark: a generation is compared with what bounds it.
func TestDecodeRemark(t *testing.T) {
	r := engineReport()
	assert.Equal(t, "60% of the 49.8 that reading memory allows", decodeRemark(&r))
	r.Share = nil
	assert.Empty(t, decodeRemark(&r))
	r.FitsCache = true
	assert.Contains(t, decodeRemark(&r), "fits in the CPU's cache")
}
