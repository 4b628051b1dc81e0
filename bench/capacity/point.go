package capacity

import "github.com/pilotfish-ai/pilotfish/bench/result"

// Point is the result for a mode and a number of devices. Times are those of whole answers: from sending the prompt
// until the last token is on the device, including its own computing and all round trips.
type Point struct {
	Mode      Mode         `json:"mode"`
	Devices   int          `json:"devices"`
	Answers   int          `json:"answers"` // of which the times are
	Time      result.Times `json:"ms"`
	PerSecond float64      `json:"answers_per_second"` // begun per second, of all devices
	// payload of asks and of their answers, each way, of all answers; absent in the mode cloud
	BytesUp   int `json:"bytes_up,omitempty"`
	BytesDown int `json:"bytes_down,omitempty"`
}
