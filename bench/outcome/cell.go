package outcome

import (
	"path/filepath"
	"strings"
)

// Cell is a point of a sweep: link and paces.
type Cell struct {
	RTT      float64 `json:"rtt_ms"`                  // of the link, besides a trace
	Loss     float64 `json:"loss"`                    // share of packets, each way
	Trace    string  `json:"trace,omitempty"`         // names of recorded traces, with + between them
	EdgeTPS  float64 `json:"edge_tps"`                // passes of the small model per second; 0: as fast as it goes
	RowCost  float64 `json:"edge_row_cost,omitempty"` // share of a pass that each further row takes on top
	CloudMS  float64 `json:"cloud_ms"`                // least time of the large model for a token
	Parallel int     `json:"parallel"`                // answers at the same time
}

// TraceNames are the names of files, without folders.
func TraceNames(paths []string) string {
	var all []string
	for _, p := range paths {
		all = append(all, filepath.Base(p))
	}
	return strings.Join(all, "+")
}
