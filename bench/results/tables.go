package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// tableColumns are the columns of the tables of the pages.
var tableColumns = map[string][]string{
	"demo": {"mode", "right:accuracy", "cloud:tokens from the cloud", "p50:ms per answer", "hidden:waiting hidden",
		"hits:guesses that hit", "bytes up:bytes up per answer of the cloud", "down"},
	"rtt": {"mode", "RTT:round trip, ms", "mean:ms mean", "p50", "p90", "bound", "passes", "asks", "cloud:from cloud",
		"bytes up", "down", "right:accuracy", "equal"},
	"real-times": {"RTT:round trip, ms", "mode", "right", "p50:ms, median", "p90", "cloud:tokens from the large model",
		"asks:questions", "bytes up:bytes up per question", "down"},
	"engine": {"model", "threads", "prompt, tokens/s", "generation, tokens/s",
		"of the bound:of what reading memory allows",
		"memory, GB/s"},
	"gateway": {"devices", "asks/s of each:questions/s of each", "answered", "ms p50", "p99", "p99.9",
		"CPU, µs an ask:CPU, µs a question", "memory a device"},
	"link": {"timed:what", "round trip", "ms p50", "p99", "predicted:by arithmetic, ms", "bytes up", "down"},
}

func (m *pageContent) addTable(name string, records []result.Record) error {
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
	m.texts[name+"-table"] = table.Pick(tableColumns[name]...).Markdown()
	switch name {
	case "real-times":
		if err := m.addTimes(records); err != nil {
			return err
		}
		return m.addPictures(name, s.Pictures, "right-over-time")
	case "rtt":
		return m.addPictures(name, s.Pictures, "time-over-rtt", "cell2-waterfall-serial", "cell2-waterfall-pipelined-4")
	}
	return nil
}

func (m *pageContent) addTimes(records []result.Record) error {
	all := map[string]outcome.Report{}
	for i := range records {
		var r outcome.Report
		if err := records[i].Into(&r); err != nil {
			return err
		}
		if r.Cell != nil && r.Cell.RTT == 100 {
			mode, _, _ := strings.Cut(r.Mode, ":")
			all[mode] = r
		}
	}
	cloud, ours := all["cloud"], all["judged"]
	if cloud.Cell == nil || ours.Cell == nil {
		return fmt.Errorf("cloud or judged was not measured at 100 ms")
	}
	mean := func(n int, r outcome.Report) float64 { return float64(n) / float64(r.Answers) }
	streamed, decoded := mean(cloud.Sums.Decoded, cloud), mean(ours.Sums.Decoded, ours)
	busy := cloud.Time.Mean - cloud.Cell.RTT // the server reads the prompt and computes each token
	reads := (busy - cloud.Cell.ModelMS*streamed) / mean(cloud.Sums.Prefilled, cloud)
	asks := reads*mean(ours.Sums.Prefilled, ours) + ours.Cell.ModelMS*decoded
	m.texts["real-times-line"] = wrapText(fmt.Sprintf("Over a link of 100 ms an answer to GSM8K takes %.1f s with the "+
		"judge, where streaming the 1.5B takes %.1f (median of %d questions, at %.0f tokens/s on the device and %.0f "+
		"on the server). The server reads all tokens, computes %.0f for an answer in place of %.0f, and is busy for "+
		"%.1f s in place of %.1f, so it is enough for %.1f times as many devices.", ours.Time.P50/1000,
		cloud.Time.P50/1000, ours.Answers, ours.Cell.EdgeTPS, 1000/ours.Cell.ModelMS, decoded, streamed,
		asks/1000, busy/1000, busy/asks))
	return nil
}
