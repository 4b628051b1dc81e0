package outcome

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Sample is one answer of a mode, with its figures. Times are milliseconds, to a microsecond; fields that do not apply
// are absent.
type Sample struct {
	Question   int           `json:"question"`   // its number, from 0
	Repetition int           `json:"repetition"` // from 0
	Took       time.Duration `json:"ms"`         // until the answer was complete
	FirstToken time.Duration `json:"first_token_ms,omitempty"`
	Right      *bool         `json:"right,omitempty"`
	CPU        time.Duration `json:"cpu_ms,omitempty"` // of this process, with one answer at a time
	Text       string        `json:"text"`             // hash of tokens and origins: equal texts have equal hashes
	draft.Summary
}

func (a *Answer) toSample() Sample {
	s := Sample{
		Question: a.Question, Repetition: a.Repetition, Took: a.Took, CPU: a.CPU, Text: a.hashTokens(),
		Summary: a.Figures,
	}
	if len(a.Shown) > 0 {
		s.FirstToken = a.Shown[0]
	}
	if a.Known {
		s.Right = &a.Correct
	}
	return s
}

// hashTokens returns a short hash of tokens and origins: different ones hardly ever collide.
func (a *Answer) hashTokens() string {
	h := fnv.New32a()
	for i, id := range a.IDs {
		_ = binary.Write(h, binary.LittleEndian, id)
		if i < len(a.Origins) {
			h.Write([]byte(a.Origins[i]))
		}
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// timesOrNil summarizes durations; nil if there are none.
func timesOrNil(all []time.Duration) *result.Times {
	if len(all) == 0 {
		return nil
	}
	return new(result.Summarise(all))
}
