package report

import (
	"maps"
	"slices"

	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// modeColumns are the columns of demo and bench routing: a mode in a line.
func modeColumns() []column {
	return []column{
		{"mode", "mode", nil, ""},
		{"RTT", "cell.rtt_ms", chart.Number, "round trip, ms"},
		{"answers", "answers", nil, ""},
		{"right", "accuracy", formatPercent, "share of the questions with the right answer"},
		{"interval", "accuracy_low to accuracy_high", formatPercent, "of that share, at 95%"},
		{"cloud", "rates.escalated_share", formatPercent, "share of the generated tokens that the large model chose"},
		{"mean", "time_per_answer_ms.mean", chart.Number, "ms per answer"},
		{"p50", "time_per_answer_ms.p50", chart.Number, "ms per answer: half of them took no longer"},
		{"p90", "time_per_answer_ms.p90", chart.Number, "nine of ten took no longer"},
		{"p99", "time_per_answer_ms.p99", chart.Number, ""},
		{"bound", "bound_ms", chart.Number, "ms: least mean time by arithmetic"},
		{"first token", "first_token_ms.p50", chart.Number, "ms, p50"},
		{"between tokens", "between_tokens_ms.p99", chart.Number, "ms, p99"},
		{"exposed", "rates.exposed_ms", chart.Number, "ms of waiting per answer"},
		{"hidden", "rates.hidden_share", formatPercent, "share of the waiting that was spent on drafts that were kept"},
		{"hits", "rates.hit_rate", formatPercent, "answers of the large model that were guessed"},
		{"passes", "rates.passes", chart.Number, "of the small model per answer, after the prompt"},
		{"asks", "rates.asks", chart.Number, "sent, per answer"},
		{"wasted", "rates.wasted", chart.Number, "tokens drafted in vain, per answer"},
		{"timed out", "sums.timeouts", formatNonzero, "tokens of the small model, since no answer came in time"},
		{"unverified", "sums.unverified", formatNonzero,
			"tokens shown without verification, since no answer came in time"},
		{"bytes up", "rates.bytes_up", chart.Number, "payload per answered ask"},
		{"down", "rates.bytes_down", chart.Number, ""},
		{"CPU", "rates.cpu_seconds", chart.Number, "seconds per answer"},
		{"equal", "equal", nil, "the tokens are those of"},
	}
}

// figureColumns are all figures of the answers of a mode, per answer: a mode in a line.
func figureColumns(rows []row) []column {
	all := []column{{"mode", "mode", nil, ""}, {"RTT", "cell.rtt_ms", chart.Number, ""}}
	names := map[string]bool{}
	for _, r := range rows {
		for name := range r["means"].(map[string]any) {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, column{name, "means." + name, formatNonzero, ""})
	}
	return all
}

// addBound completes a line of bench engine: the speed that memory allows.
func (r row) addBound() {
	if bytes := numberOrZero(r["bytes_per_token"]) + numberOrZero(r["depth_bytes"]); bytes > 0 {
		r["bound"] = numberOrZero(r["bandwidth_gbs"]) * 1e9 / bytes
	}
}

func engineColumns() []column {
	return []column{
		{"model", "run.model.name", nil, ""},
		{"threads", "threads", nil, ""},
		{"prompt", "prompt_tokens", nil, "tokens of the prompt"},
		{"prompt, tokens/s", "prompt_tps", chart.Number, ""},
		{"generated", "generated_tokens", nil, "tokens"},
		{"generation, tokens/s", "generation_tps", chart.Number, ""},
		{"of the bound", "bandwidth_share", formatPercent,
			"of what reading memory allows; empty if it fits in the cache"},
		{"bound, tokens/s", "bound", chart.Number, ""},
		{"memory, GB/s", "bandwidth_gbs", chart.Number, ""},
		{"load, ms", "load_ms", chart.Number, ""},
		{"first token, ms", "first_token_ms", chart.Number, ""},
		{"peak memory", "peak_rss_bytes", formatBytes, ""},
	}
}

func gatewayColumns() []column {
	return []column{
		{"devices", "devices", nil, ""},
		{"asks/s of each", "rate", chart.Number, ""},
		{"model, ms", "model_ms", chart.Number, ""},
		{"answered", "answers of asks", nil, ""},
		{"answers/s", "answers_per_second", chart.Number, ""},
		{"failed", "errors", nil, ""},
		{"ms p50", "ms.p50", chart.Number, ""},
		{"p90", "ms.p90", chart.Number, ""},
		{"p99", "ms.p99", chart.Number, ""},
		{"p99.9", "ms.p999", chart.Number, ""},
		{"in gateway p99", "in_gateway_ms.p99", chart.Number, ""},
		{"fairness", "answers_jain", chart.Number, "Jain's index of the answered shares of the devices' asks"},
		{"of p99", "p99_jain", chart.Number, "Jain's index of the devices' times"},
		{"CPU, µs an ask", "cpu_ms/asks", formatMicroseconds, ""},
		{"bytes up", "bytes_up/asks", chart.Number, "per ask"},
		{"down", "bytes_down/asks", chart.Number, ""},
		{"connected, ms", "connect_ms", chart.Number, "until all devices had connected and asked once"},
		{"memory a device", "memory_bytes/devices", formatBytes, ""},
	}
}

func linkColumns() []column {
	return []column{
		{"timed", "timed", nil, ""},
		{"round trip", "rtt_ms ms", chart.Number, ""},
		{"lost", "loss", formatPercent, "share of the packets, each way"},
		{"times", "answers", nil, ""},
		{"failed", "errors", nil, ""},
		{"ms p50", "ms.p50", chart.Number, ""},
		{"p90", "ms.p90", chart.Number, ""},
		{"p99", "ms.p99", chart.Number, ""},
		{"p99.9", "ms.p999", chart.Number, ""},
		{"predicted", "bound_ms", chart.Number, "by arithmetic"},
		{"bytes up", "wire.bytes_up/asks", chart.Number, "of an ask, with all headers and retransmissions"},
		{"down", "wire.bytes_down/asks", chart.Number, ""},
	}
}

// addAsks completes a line of bench link: its number of asks, and whether its calculated time is the longest.
func (r row) addAsks() {
	r["asks"] = numberOrZero(r["answers"]) + numberOrZero(r["errors"])
	if bound := r["bound_ms"]; r["outage_ms"] != nil && bound != nil {
		r["bound_ms"] = "at most " + chart.Number(numberOrZero(bound))
	}
}

func runColumns() []column {
	return []column{
		{"run", "name", nil, ""},
		{"right", "accuracy", formatPercent,
			"share of the questions with the right answer, or a program that passes"},
		{"interval", "accuracy_low to accuracy_high", formatPercent, "its 95% interval (Wilson)"},
		{"silent", "silent", formatNonzero, "answers that make no choice, or have no number or program; not right"},
		{"cut", "cut", formatNonzero,
			"answers that a limit of tokens ended; right only if their conclusion stands before it"},
		{"chance", "chance", formatPercent, "share that guessing among the options would have right"},
		{"cloud", "cloud_tokens/tokens", formatPercent,
			"share of the tokens that the large model chose: asked, or with verification replaced"},
		{"asked", "asked/tokens", formatPercent, "share of the tokens that the large model was asked for"},
		{"replaced", "replaced/tokens", formatPercent, "share of the tokens that are not the small model's choice"},
		{"read", "read/answers", formatNonzero,
			"tokens of the answer that the large model reads, to its last question"},
		{"asks", "asks/answers", formatDecimal, "questions to the large model per answer"},
		{"known", "known/answers", formatNonzero, "tokens per answer that were known from other answers"},
		{"turned", "turned/answers", formatNonzero, "the small model's tokens that were replaced, per answer"},
		{"tokens", "tokens/answers", formatDecimal, "per answer"},
		{"ms", "ms/answers", formatNonzero, "per answer, several at a time"},
		{"missed", "missed/audited", formatPercent,
			"of the small model's tokens, those where the large one would have chosen another"},
		{"needless", "needless/cloud_tokens", formatPercent,
			"of the large model's tokens, those that the small one would have chosen, too"},
		{"agree", "agreement.value", formatPercent,
			"of all tokens, those that are the large model's choice for the text before them"},
	}
}

func versusColumns() []column {
	return []column{
		{"run", "name", nil, ""},
		{"of always", "versus.always.ratio", nil,
			"ratio of accuracies, with its 95% interval by the paired bootstrap over questions"},
		{">= 0.95", "non_inferior", nil, "whether the interval is above this share of always"},
		{"p always", "p.always", formatTwoDigits, "McNemar's exact test, two-sided"},
		{"of never", "versus.never.ratio", nil, ""},
		{"p never", "p.never", formatTwoDigits, ""},
		{"gap", "gap_recovered", nil, "part of the distance from never to always"},
	}
}

func curveColumns() []column {
	return []column{
		{"policy", "policy", nil, ""},
		{"share", "share", formatWholePercent, "of the tokens from the large model"},
		{"height", "quality", nil, "of the policy's curve: accuracy, or agreement if answers are not graded"},
		{"over random", "minus.random", nil, ""},
		{"over margin", "minus.margin", nil, ""},
		{"over entropy", "minus.entropy", nil, ""},
	}
}
