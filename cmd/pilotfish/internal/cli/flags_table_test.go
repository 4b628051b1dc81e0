package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestDeclarations: which flags are in the short help, which are settings, which have a letter, which need or exclude
// other flags, and which values, files and ranges they have.
func TestDeclarations(t *testing.T) {
	all := map[string]string{}
	for _, d := range Declarations() {
		for group, in := range map[string]bool{"often": d.often, "env": d.env, "needs " + d.Needs: d.Needs != "",
			"unless " + d.Unless: d.Unless != "", "files " + d.files: d.files != "", "-" + d.short: d.short != "",
			"values " + d.Values: d.Values != "", "span " + d.Span: d.Span != ""} {
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
			"budget-state branches window inflight deadline ahead no-audit no-warm verify explain " +
			"qlog edge-tps ",
		"needs json": "logprobs ", "needs temp": "top-k top-p min-p ", "needs verify": "verify-every show-unverified ",
		"unless budget policy": "threshold ", "unless threshold policy": "budget ", "unless policy": "router ",
		"unless raw tokens load": "system ", "files gguf": "router ", "files html": "html ",
		"files json": "json-schema load ", "files yaml yml": "config ",
		"-c": "ctx ", "-d": "depth ", "-f": "force ", "-m": "model ", "-n": "max-tokens generate ", "-o": "out output ",
		"-p": "prompt ", "-r": "repeat ", "-t": "threads ",
		"values auto": "branches ahead verify-every ", "values auto f16 f32": "kv ", "values auto off": "lookup ",
		"values auto on off":               "huge-pages ",
		"values cpu mem block mutex trace": "profile ", "values cpu metal soft": "backend ",
		"values local serial pipelined": "mode ", "values off 0": "verify ", "values off 800ms": "deadline ",
		"values never always random margin entropy learned": "policy ",
		"values texts debug info warn error":                "log-level ", "span -1": "with.elements ",
		"span -2 2": "presence-penalty frequency-penalty ", "span 0 10": "repeat-penalty ", "span 0 100": "temp ",
		"span 0": "ctx max-tokens slots edge-tps ", "span 0.001 1000000000": "limit.rate ",
		"span 1 1000000000": "limit.prompt limit.memory limit.devices limit.questions limit.rows ",
		"span 1ms":          "limit.idle limit.handshake limit.total ",
		"span 0 1": "threshold budget edge-row-cost top-p " +
			"min-p ", "span 0 1000": "with.warm-up ",
		"span 0 10000": "connects outages ", "span 0 1000000": "answers ", "span 0 1024": "threads ",
		"span 0 1099511627776": "link.rate ", "span 0 2147483647": "top-k ", "span 0 4": "shots ",
		"span 0 4096": "training.hidden ", "span 0 60000": "cloud-ms model-ms ", "span 0.001 1000000": "rate ",
		"span 0.1 86400": "seconds ", "span 0s 24h": "engine.wait ",
		"span 1 4096": "engine.parallel ", "span 0s 1h": "with.loopback ",
		"span 1": "window inflight ", "span 1 1000": "repeat ",
		"span 1 1000000": "asks ", "span 1 1024": "verify-every ",
		"span 1 20": "logprobs ", "span 1 64": "ahead ", "span 1 65536": "gateway.parallel ",
	}, all)
}
