package wire

import "github.com/pilotfish-ai/pilotfish/bench/result"

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

// reportFairness compares the devices that had a question due; l.mu is held.
func (l *gatewayLoad) reportFairness(r *GatewayReport) {
	var answered, p99 []float64
	for _, d := range l.devices {
		if d.asks == 0 {
			continue // the measurement was shorter than the time between two questions
		}
		answered = append(answered, float64(len(d.took))/float64(d.asks))
		if len(d.took) > 0 {
			p99 = append(p99, result.Summarise(d.took).P99)
		}
	}
	if len(answered) < 2 || len(p99) == 0 {
		return
	}
	r.AnswersJain, r.P99Jain = new(jainIndex(answered)), new(jainIndex(p99))
}
