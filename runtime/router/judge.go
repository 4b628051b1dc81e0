package router

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// Judge is the network beside a large model that says whether a token of the small model may stand where the large one
// chooses another (AutoJudge, arXiv 2504.20039). Its hidden state is that of [TapMismatch], its margin p(token) /
// p(choice) under the large model, and its certainty that of the large model.
type Judge struct {
	Net   *Net
	About About // Model is the large model
}

// Confidence returns the probability that the token may stand: from the large model's states before and after it,
// p(token) / p(choice), and the entropy of the next token in nats.
func (j *Judge) Confidence(before, after []float32, ratio, entropy float32) float32 {
	h := make([]float32, 0, len(before)+len(after))
	return j.Net.Of(append(append(h, before...), after...), ratio, Certainty(entropy))
}

// Fingerprint identifies the judge: two with the same one give the same verdicts.
func (j *Judge) Fingerprint() string { return j.Net.Hash() }

func (j *Judge) netOrNil() *Net {
	if j == nil {
		return nil
	}
	return j.Net
}

// Fits returns an error if the judge is not for a model with hidden states of a width.
func (j *Judge) Fits(width int) error {
	if j.Net.Dim() == 2*width {
		return nil
	}
	return fmt.Errorf("the judge takes two hidden states of width %d, those of the model are %d wide: "+
		"it was trained for another model", j.Net.Dim()/2, width)
}

// prefixJudge begins the keys and tensors of a judge in a router file.
const prefixJudge = "judge"

// readJudge returns the judge of a router file; nil if it has none.
func readJudge(f *gguf.File) (*Judge, error) {
	j := new(Judge)
	var err error
	if j.Net, err = readNet(f, prefixJudge); err != nil || j.Net == nil {
		return nil, err
	}
	for _, e := range j.About.aboutEntries(prefixJudge + ".") {
		if err := e.readValue(f); err != nil && !errors.Is(err, gguf.ErrAbsent) {
			return nil, err
		}
	}
	if j.Net.Dim()%2 != 0 || !j.Net.HeadFeatures {
		return nil, fmt.Errorf("the judge has %d inputs: two hidden states and two features are needed",
			j.Net.Layers[0].In)
	}
	return j, j.About.validateShares(prefixJudge + ".")
}
