package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDump: values are formatted as by Python 3.12, json.dumps(json.loads(x), ensure_ascii=False).
func TestDump(t *testing.T) {
	for raw, want := range map[string]string{
		` {"a":1,"b" :[ ] , "c":{}}`:              `{"a": 1, "b": [], "c": {}}`,
		`[1,2.50,1e2,1E-5,0.0001,1e16,-0.0,-0]`:   `[1, 2.5, 100.0, 1e-05, 0.0001, 1e+16, -0.0, 0]`,
		`"\u00e9\u0007\n\/\\\"\u007f"`:            "\"é\\u0007\\n/\\\\\\\"\x7f\"",
		`"\u001f\u0020"`:                          `"\u001f "`,
		`[true,null,false,12345678901234567890]`:  `[true, null, false, 12345678901234567890]`,
		`[123456789012345.6,1234567890123456789]`: `[123456789012345.6, 1234567890123456789]`,
	} {
		got, err := dumpJSON([]byte(raw))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, raw := range []string{"", "[1", `{"a":`, `{"a" 1}`, "[1,"} {
		_, err := dumpJSON([]byte(raw))
		assert.Error(t, err, raw)
	}
}
