package wire

import "github.com/pilotfish-ai/pilotfish/bench/result"

// Fairness describes how equally devices with the same rate were served.
type Fairness struct {
	Devices int `json:"devices"`
	// Jain's index of the shares of its questions that each device got answered: 1 if all are equal, 1/devices if one
	// got all
	AnswersJain float64 `json:"answers_jain"`
	P99Jain     float64 `json:"p99_jain"` // Jain's index of the 99th percentiles of the devices' times
}

// jainIndex returns Jain's index of fairness, (Σx)² / (n·Σx²), of shares that are not negative: 1 if all are equal,
// down to 1/n; 1 for none, and for zeros. (Jain, Chiu and Hawe, DEC-TR-301, 1984.)
func jainIndex(x []float64) float64 {
	sum, squares := 0., 0.
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(x)) * squares)
}

// reportFairness compares the devices; l.mu is held.
func (l *gatewayLoad) reportFairness(r *GatewayReport) {
	var answered, p99 []float64
	for _, d := range l.devices {
		if d.asks == 0 {
			continue // the measurement was shorter than the time between two questions
		}
		answered = append(answered, float64(len(d.took))/float64(d.asks))
		if len(d.took) > 0 {
			p99 = append(p99, result.Latencies(d.took).P99)
		}
	}
	if len(answered) < 2 || len(p99) == 0 {
		return
	}
	r.Fairness = &Fairness{Devices: len(answered), AnswersJain: jainIndex(answered), P99Jain: jainIndex(p99)}
}
