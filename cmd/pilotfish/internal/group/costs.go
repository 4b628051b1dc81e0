package group

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// ParseCosts parses the costs in the output of `run --json`, which are in the summary, its last line.
func ParseCosts(b []byte) (*router.Costs, error) {
	b = bytes.TrimSpace(b)
	last := b[bytes.LastIndexByte(b, '\n')+1:]
	var line struct {
		Summary *struct {
			Costs []router.Cost `json:"costs"`
		} `json:"summary"`
	}
	if err := json.Unmarshal(last, &line); err != nil {
		return nil, err
	}
	if line.Summary == nil || line.Summary.Costs == nil {
		return nil, errors.New("its last line has no costs: give what `run --policy value --json` printed")
	}
	return router.ReplayCosts(line.Summary.Costs)
}
