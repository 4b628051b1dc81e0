package capacity

// Report is the result of a measurement. Its JSON format is stable.
type Report struct {
	Workload
	Costs
	Points []Point `json:"points"` // for each mode and number of devices; none if only costs were measured
}

// Costs are the costs of a large model's work. They are measured with [Measure] and [MeasureAsk].
type Costs struct {
	Device  string `json:"device,omitempty"` // the CPU, or the name of a GPU
	Threads int    `json:"threads"`          // of the large model; at least 1
	Depth   int    `json:"depth_tokens"`     // of context before the rows of a pass
	Passes  []Pass `json:"passes"`           // ascending rows, the first has 1 row
	// of an ask in addition to passes and round trip: connection, gateway and service, if nothing has to be computed
	AskMS float64 `json:"ask_ms"`
}

// Pass is the time of one pass of the model over the weights.
type Pass struct {
	Rows    int     `json:"rows"`     // tokens computed in it
	MS      float64 `json:"ms"`       // if the next token is predicted for one row, as in a prompt
	HeadsMS float64 `json:"heads_ms"` // if the next token is predicted for each row, as for rows of different texts
}
