package group

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzCosts: parsing any record does not panic, and an accepted one is unchanged.
func FuzzCosts(f *testing.F) {
	f.Add([]byte(`{"summary":{"costs":[{"pos":0,"cost":0.5},{"pos":32,"cost":0}]}}`))
	f.Add([]byte("{}\n{\"summary\":{\"costs\":[{\"pos\":-16,\"cost\":1e999}]}}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseCosts(b); err == nil {
			for _, one := range c.Record() {
				require.GreaterOrEqual(t, one.Cost, 0.0)
			}
		}
	})
}
