package report

import (
	"maps"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// modeColumns are the columns of demo and bench routing: a mode in a line.
func modeColumns() []column {
	return []column{
		{"mode", "mode", nil, ""},
		{"RTT", "cell.rtt_ms", chart.Number, "round trip, ms"},
		{"answers", "answers", nil, ""},
		{"right", "accuracy.value", formatPercent, "share of the questions with the right answer"},
		{"interval", "accuracy.low to accuracy.high", formatPercent, "of that share, at 95%"},
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
		{"bound, tokens/s", "generation_bound_tps", chart.Number, ""},
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
		{"ms p50", "latency_ms.p50", chart.Number, ""},
		{"p90", "latency_ms.p90", chart.Number, ""},
		{"p99", "latency_ms.p99", chart.Number, ""},
		{"p99.9", "latency_ms.p999", chart.Number, ""},
		{"in gateway p99", "in_gateway_ms.p99", chart.Number, ""},
		{"fairness", "fairness.answers_jain", chart.Number, "Jain's index of the answered shares of the devices' asks"},
		{"of p99", "fairness.p99_jain", chart.Number, "Jain's index of the devices' times"},
		{"CPU, µs an ask", "cpu_us_per_ask", chart.Number, ""},
		{"bytes up", "bytes_up_per_ask", chart.Number, "per ask"},
		{"down", "bytes_down_per_ask", chart.Number, ""},
		{"connected, ms", "connect_ms", chart.Number, "until all devices had connected and asked once"},
		{"memory a device", "memory_per_connection_bytes", formatBytes, ""},
	}
}

func linkColumns() []column {
	return []column{
		{"timed", "timed", nil, ""},
		{"round trip", "rtt_ms ms", chart.Number, ""},
		{"lost", "loss", formatPercent, "share of the packets, each way"},
		{"times", "times", nil, ""},
		{"failed", "failed", nil, ""},
		{"ms p50", "ms.p50", chart.Number, ""},
		{"p90", "ms.p90", chart.Number, ""},
		{"p99", "ms.p99", chart.Number, ""},
		{"p99.9", "ms.p999", chart.Number, ""},
		{"predicted", "expected", chart.Number, "by arithmetic"},
		{"bytes up", "up", chart.Number, "of an ask, with all headers and retransmissions"},
		{"down", "down", chart.Number, ""},
	}
}

// linkRows returns what a line of bench link timed: the fields of its part, with common names.
func linkRows(line row) (all []row) {
	add := func(name, timed, of, ms, times, failed, expected string) {
		part, ok := line[name].(map[string]any)
		if !ok {
			return
		}
		r := row{"timed": strings.Replace(timed, "%", chart.Number(numberOrZero(part[of])), 1),
			"rtt_ms": line["rtt_ms"], "loss": line["loss"], "ms": part[ms], "times": part[times],
			"failed": part[failed], "expected": part[expected], "up": part["wire_bytes_up_per_ask"],
			"down": part["wire_bytes_down_per_ask"]}
		if name == "outage" {
			r["expected"] = "at most " + chart.Number(numberOrZero(part[expected]))
		}
		all = append(all, r)
	}
	add("asks", "ask with % new tokens, until its answer", "tokens", "latency_ms", "answers", "errors", "expected_ms")
	add("connect", "new connection, until it is there", "", "connected_ms", "connections", "",
		"expected_connected_ms")
	add("connect", "new connection, until its first answer", "", "first_answer_ms", "connections", "",
		"expected_first_ms")
	add("connect", "connection resumed with 0-RTT, until its first answer", "", "resumed_ms", "early", "",
		"expected_resumed_ms")
	add("outage", "end of an outage of % ms, until an answer", "outage_ms", "recovery_ms", "outages", "asks_lost",
		"expected_most_ms")
	return all
}

func runColumns() []column {
	return []column{
		{"run", "name", nil, ""},
		{"right", "accuracy.value", formatPercent,
			"share of the questions with the right answer, or a program that passes"},
		{"interval", "accuracy.low to accuracy.high", formatPercent, "its 95% interval (Wilson)"},
		{"silent", "silent", formatNonzero, "answers that make no choice, or have no number or program; not right"},
		{"cut", "cut", formatNonzero,
			"answers that a limit of tokens ended; right only if their conclusion stands before it"},
		{"chance", "chance", formatPercent, "share that guessing among the options would have right"},
		{"cloud", "escalated_share", formatPercent,
			"share of the tokens that the large model chose: asked, or with verification replaced"},
		{"asked", "asked_share", formatPercent, "share of the tokens that the large model was asked for"},
		{"replaced", "replaced_share", formatPercent, "share of the tokens that are not the small model's choice"},
		{"read", "read_per_answer", formatNonzero,
			"tokens of the answer that the large model reads, to its last question"},
		{"asks", "asks_per_answer", formatDecimal, "questions to the large model per answer"},
		{"known", "known_per_answer", formatNonzero, "tokens per answer that were known from other answers"},
		{"turned", "turned_per_answer", formatNonzero, "the small model's tokens that were replaced, per answer"},
		{"tokens", "tokens_per_answer", formatDecimal, "per answer"},
		{"ms", "ms_per_answer", formatNonzero, "per answer, several at a time"},
		{"missed", "missed_share", formatPercent,
			"of the small model's tokens, those where the large one would have chosen another"},
		{"needless", "needless_share", formatPercent,
			"of the large model's tokens, those that the small one would have chosen, too"},
		{"agree", "agreement.value", formatPercent,
			"of all tokens, those that are the large model's choice for the text before them"},
	}
}

func versusColumns() []column {
	return []column{
		{"run", "name", nil, ""},
		{"of always", "versus_always.accuracy_ratio", nil,
			"ratio of accuracies, with its 95% interval by the paired bootstrap over questions"},
		{">= 0.95", "versus_always.non_inferior", nil, "whether the interval is above this share of always"},
		{"p always", "versus_always.mcnemar_p", formatTwoDigits, "McNemar's exact test, two-sided"},
		{"of never", "versus_never.accuracy_ratio", nil, ""},
		{"p never", "versus_never.mcnemar_p", formatTwoDigits, ""},
		{"gap", "gap_recovered", nil, "part of the distance from never to always"},
	}
}

func curveColumns() []column {
	return []column{
		{"policy", "policy", nil, ""},
		{"share", "share", formatWholePercent, "of the tokens from the large model"},
		{"height", "height", nil, "of the policy's curve: accuracy, or agreement if answers are not graded"},
		{"over random", "minus.random", nil, ""},
		{"over margin", "minus.margin", nil, ""},
		{"over entropy", "minus.entropy", nil, ""},
	}
}
