package main

import (
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// columnsOf are the columns of the tables of the pages.
var columnsOf = map[string][]string{
	"demo": {"mode", "right:accuracy", "cloud:tokens from the cloud", "p50:ms per answer", "hidden:waiting hidden",
		"hits:guesses that hit", "bytes up:bytes up per answer of the cloud", "down"},
	"rtt": {"mode", "RTT:round trip, ms", "mean:ms mean", "p50", "p90", "bound", "passes", "asks", "cloud:from cloud",
		"bytes up", "down", "right:accuracy", "equal"},
	"real-times": {"RTT:round trip, ms", "mode", "p50:ms, median", "p90",
		"cloud:tokens from the large model",
		"bytes up:bytes up per answer of the cloud", "down"},
	"engine": {"model", "threads", "prompt, tokens/s", "generation, tokens/s",
		"of the bound:of what reading memory allows",
		"memory, GB/s"},
	"gateway": {"devices", "asks/s of each:questions/s of each", "answered", "ms p50", "p99", "p99.9",
		"CPU, µs an ask:CPU, µs a question", "memory a device"},
	"link": {"timed:what", "round trip", "ms p50", "p99", "predicted:by arithmetic, ms", "bytes up", "down"},
}

// make makes the table of a measurement, and what else the pages show of it.
func (m *made) make(name string, records []result.Record) error {
	r, err := report.New(records)
	if err != nil {
		return err
	}
	s := r.Sections[0]
	table := s.Tables[0]
	if name == "rtt" { // the picture has the others
		ends, err := report.New(slices.DeleteFunc(slices.Clone(records), func(r result.Record) bool {
			var o outcome.Report
			return r.Into(&o) == nil && o.Cell != nil && o.Cell.RTT != 100 && o.Cell.RTT != 300
		}))
		if err != nil {
			return err
		}
		table = ends.Sections[0].Tables[0]
	}
	m.texts[name+"-table"] = table.Pick(columnsOf[name]...).Markdown()
	switch name {
	case "real-times":
		return m.times(records)
	case "rtt":
		return m.draw(name, s.Pictures, "time-over-rtt", "cell2-waterfall-serial", "cell2-waterfall-pipelined-4")
	}
	return nil
}

// times says what the real pair gains in time, and the server in work, over a link of 100 ms.
func (m *made) times(records []result.Record) error {
	all := map[string]outcome.Report{}
	for i := range records {
		var r outcome.Report
		if err := records[i].Into(&r); err != nil {
			return err
		}
		if r.Cell != nil && r.Cell.RTT == 100 {
			all[r.Mode] = r
		}
	}
	cloud, ours := all["cloud"], all["pipelined-auto"]
	if cloud.CloudTokens == nil || ours.CloudTokens == nil {
		return fmt.Errorf("cloud or pipelined-auto was not measured at 100 ms")
	}
	streams, asked := cloud.CloudTokens, ours.CloudTokens
	busy := cloud.Time.Mean - cloud.Cell.RTT // the server reads the prompt and computes each token
	reads := (busy - cloud.Cell.CloudMS*streams.Decoded) / streams.Prefilled
	asks := reads*asked.Prefilled + ours.Cell.CloudMS*asked.Decoded
	m.texts["real-times-line"] = wrapped(fmt.Sprintf("Over a link of 100 ms an answer then takes %.0f ms, where "+
		"streaming the 1.5B takes %s (median of %d questions, at %.0f tokens/s on the device and %.0f on the server). "+
		"The server reads the prompt in both cases, computes %.1f tokens for an answer in place of %.1f, and is busy "+
		"for %.2f s in place of %.2f, so it is enough for %.1f times as many devices.", ours.Time.P50,
		chart.Number(cloud.Time.P50), ours.Answers, ours.Cell.EdgeTPS, 1000/ours.Cell.CloudMS, asked.Decoded,
		streams.Decoded, asks/1000, busy/1000, busy/asks))
	return nil
}
