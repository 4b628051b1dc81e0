package outcome

import (
	"testing"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/stretchr/testify/assert"
)

// concluded returns the report of a mode with 100 answers of 39 tokens.
func concluded(mode string, accuracy, low, high, p50 float64) Report {
	return Report{
		Mode: mode, Answers: 100, Accuracy: &accuracy, AccuracyLow: &low, AccuracyHigh: &high, TokensPerAnswer: 39,
		Time: result.Times{P50: p50}, EscalatedShare: new(0.03), Timeouts: new(0),
	}
}

// modelAlone returns the report of a single model.
func modelAlone(mode string, accuracy, low, high, p50 float64) Report {
	r := concluded(mode, accuracy, low, high, p50)
	r.EscalatedShare, r.Timeouts = nil, nil
	return r
}

func TestConclude(t *testing.T) {
	local, cloud := modelAlone("local", 0.43, 0.34, 0.53, 660), modelAlone("cloud", 1, 0.96, 1, 700)
	serial, pipelined := concluded("serial", 1, 0.96, 1, 800), concluded("pipelined-4", 1, 0.96, 1, 693)
	failing := func(change func(r *Report)) Report {
		r := pipelined
		change(&r)
		return r
	}
	late := serial
	late.Timeouts = new(1)
	const won = "With pipelined-4, 100% of the answers are right (small model alone: 43%; large model alone: 100%), " +
		"and the median one takes 693 ms (small model alone: 660 ms, 5% less; large model alone: 700 ms, 1% more); " +
		"3.0% of the tokens are the large model's, in place of all."
	const serially = "With serial, 100% of the answers are right, and the median one takes 800 ms; 3.0% of the " +
		"tokens are the large model's."
	const none = "Nothing is won here: no mode that asks the large model succeeded: pipelined-4 ("
	for _, c := range []struct {
		name string
		of   []Report
		want string
	}{
		{"nothing", nil, ""},
		{"no mode that asks over the link", []Report{local, cloud, concluded("paper", 1, 0.9, 1, 9)}, ""},
		{"the quickest of those that are right", []Report{local, cloud, serial, pipelined}, won},
		{"in any order", []Report{pipelined, serial, cloud, local}, won},
		{"quick and wrong is not best", []Report{serial, concluded("pipelined-1", 0.5, 0.4, 0.6, 1)}, serially},
		{"accurate by chance is not better", []Report{serial, concluded("pipelined-1", 0.98, 0.9, 1, 790)},
			"With pipelined-1, 98% of the answers are right, and the median one takes 790 ms; 3.0% of the tokens are " +
				"the large model's."},
		{"no accuracy", []Report{failing(func(r *Report) {
			r.Accuracy, r.AccuracyLow, r.AccuracyHigh = nil, nil, nil
		}), local}, "With pipelined-4, the median one takes 693 ms (small model alone: 660 ms, 5% less); 3.0% of the " +
			"tokens are the large model's."},
		{"chance", []Report{concluded("serial", 0.6, 0.3, 0.8, 650), modelAlone("local", 0.5, 0.24, 0.7, 650)},
			"With serial, 60% of the answers are right (small model alone: 50%, no difference beyond chance), and " +
				"the median one takes 650 ms (small model alone: 650 ms); 3.0% of the tokens are the large model's."},
		{"worse than alone", []Report{concluded("serial", 0.2, 0.1, 0.3, 650), local},
			"With serial, 20% of the answers are right (small model alone: 43%), and the median one takes 650 ms " +
				"(small model alone: 660 ms, 2% more); 3.0% of the tokens are the large model's."},
		{"deadlines", []Report{local, failing(func(r *Report) { r.Timeouts = new(7) })},
			none + "7 tokens without an answer in time)."},
		{"few deadlines", []Report{failing(func(r *Report) { r.Timeouts = new(6) }), local, cloud}, won},
		{"the other one is praised", []Report{serial, failing(func(r *Report) { r.Timeouts = new(90) })},
			serially},
		{"no answers at all", []Report{failing(func(r *Report) {
			r.Timeouts, r.EscalatedShare = new(90), new(0.0)
		})}, none + "90 tokens without an answer in time)."},
		{"nothing asked", []Report{failing(func(r *Report) { r.EscalatedShare = new(0.0) })},
			none + "it asked nothing)."},
		{"no counts of late answers", []Report{failing(func(r *Report) { r.Timeouts = nil })},
			none + "it asked nothing)."},
		{"not finished", []Report{failing(func(r *Report) { r.Answers = 0 })}, none + "no answers)."},
		{"other tokens than serial", []Report{failing(func(r *Report) { r.EqualToSerial = new(false) })},
			none + "its tokens are not those of serial)."},
		{"other tokens as one was late", []Report{failing(func(r *Report) {
			r.EqualToSerial, r.Timeouts = new(false), new(1)
		}), local, cloud}, won},
		{"other tokens as one was late in serial",
			[]Report{failing(func(r *Report) { r.EqualToSerial = new(false) }), late, local, cloud}, won},
		{"other tokens than the large model",
			[]Report{failing(func(r *Report) { r.EqualToCloud = new(false) })},
			none + "its tokens are not those of the large model)."},
		{"unverified", []Report{failing(func(r *Report) {
			r.EqualToCloud, r.Unverified = new(false), new(201)
		})}, none + "201 tokens without verification)."},
		{"few unverified", []Report{failing(func(r *Report) { r.Unverified = new(200) }), local, cloud}, won},
		{"a model alone without answers", []Report{serial, {Mode: "local"}}, serially},
		{"a model alone without grades",
			[]Report{serial, {Mode: "local", Answers: 9, Time: result.Times{P50: 600}}},
			"With serial, 100% of the answers are right, and the median one takes 800 ms (small model alone: 600 ms, " +
				"25% less); 3.0% of the tokens are the large model's."},
	} {
		assert.Equal(t, c.want, Conclude(c.of), c.name)
	}
}
