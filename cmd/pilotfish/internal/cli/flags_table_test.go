package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestDeclarations: which flags are in the short help, which are settings, which need or exclude other flags, and which
// are completed with files.
func TestDeclarations(t *testing.T) {
	all := map[string]string{}
	for _, d := range Declarations() {
		for group, in := range map[string]bool{"often": d.often, "env": d.env, "needs " + d.Needs: d.Needs != "",
			"unless " + d.Unless: d.Unless != "", "files " + d.files: d.files != ""} {
			if in {
				all[group] += d.Name + " "
			}
		}
	}
	assert.Equal(t, map[string]string{
		"often": "model threads ctx system raw max-tokens seed json-schema json load cloud pin local budget deadline " +
			"verify listen open log cert key parallel alias api-key-file cors-origin kv-folder cloud.token-file " +
			"slots admin upstream data questions out eval.policy eval.threshold eval.budget eval.verify temp ",
		"env": "model threads ctx kv backend huge-pages system max-tokens cloud pin token-file policy router " +
			"threshold budget deadline config temp top-k top-p ",
		"needs cloud": "pin token-file no-resume dictionary require-cloud mode policy router threshold budget " +
			"budget-state value costs branches window inflight deadline ahead no-audit no-warm verify explain price " +
			"qlog edge-tps ",
		"needs json": "logprobs ", "needs temp": "top-k top-p min-p ", "needs verify": "verify-every show-unverified ",
		"unless budget policy": "threshold ", "unless threshold policy": "budget ", "unless policy": "router ",
		"unless raw tokens load": "system ", "files gguf": "router ", "files html": "html ",
		"files json": "json-schema load ", "files yaml yml": "config ",
	}, all)
}
