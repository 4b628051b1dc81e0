package outcome

import (
	"path/filepath"
	"strings"
)

// Cell is a point of a sweep: the link and the speeds of the models.
type Cell struct {
	RTT      float64 `json:"rtt_ms"`                  // of the link, in addition to a trace
	Loss     float64 `json:"loss"`                    // share of packets, each way
	Trace    string  `json:"trace,omitempty"`         // names of recorded traces, with + between them
	EdgeTPS  float64 `json:"edge_tps"`                // passes of the small model per second; 0: unlimited
	RowCost  float64 `json:"edge_row_cost,omitempty"` // additional time of each further row, as a share of a pass
	ModelMS  float64 `json:"model_ms"`                // minimum time of the large model for a token
	Parallel int     `json:"devices"`                 // concurrent answers
}

// TraceNames returns the names of files, without folders.
func TraceNames(paths []string) string {
	var all []string
	for _, p := range paths {
		all = append(all, filepath.Base(p))
	}
	return strings.Join(all, "+")
}
