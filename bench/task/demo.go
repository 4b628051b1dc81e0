package task

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

func newDemoSet(name string, o Options) (*Set, error) {
	split := demo.HeldOut
	if name == DemoTrain {
		split = demo.Train
	}
	all := demo.Questions(split)
	if more := o.lastQuestion() - len(all); more > 0 && name == DemoTrain {
		all = append(all, demo.Draw(more, o.Seed)...)
	}
	s := &Set{Name: name, Prompts: "demo-1", Tokens: 64}
	sum := sha256.New()
	for i, q := range all {
		fmt.Fprintf(sum, "%q %q\n", q.Text, q.Answer)
		s.Questions = append(s.Questions, Question{
			ID: fmt.Sprint(i + 1), Text: q.Text, Reference: q.Answer, Key: q.Place + ", " + q.Food,
			Grade: JudgeBy(q.Correct),
		})
	}
	s.Hash = hex.EncodeToString(sum.Sum(nil))
	return s.keepChosen(o)
}
