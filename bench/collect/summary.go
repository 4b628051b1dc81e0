package collect

import "github.com/pilotfish-ai/pilotfish/runtime/trace"

// Summary describes a file of traces. Shares are from 0 to 1, and 0 if the total is 0.
type Summary struct {
	Reference string `json:"reference"`
	Prompts   int    `json:"prompts"`
	LeftOut   int    `json:"left_out"` // prompts without room for an answer
	Cut       int    `json:"cut"`      // answers that were cut at the limit
	Graded    int    `json:"graded"`   // answers that were graded
	Right     int    `json:"right"`    // of these, right
	Positions int    `json:"positions"`
	Differ    int    `json:"differ"` // positions at which the models choose different tokens

	DifferShare float64 `json:"differ_share"` // of the positions
	Cloud       int     `json:"cloud_tokens"` // tokens of routed answers that the large model chose

	Labels []LabelSummary `json:"labels"`

	Rollouts      int    `json:"rollouts"` // continuations that models generated to find labels
	RolloutTokens int    `json:"rollout_tokens"`
	Bytes         int64  `json:"bytes"` // of the file
	Hash          string `json:"hash"`  // identifies the set; see [trace.Set.Hash]
}

// LabelSummary describes the labels of one rule.
type LabelSummary struct {
	Rule     string  `json:"rule"`
	Labelled int     `json:"labelled"`       // labelled positions
	Escalate int     `json:"escalate"`       // of these, where the large model should be asked
	Spoil    int     `json:"spoil"`          // of these, where asking would make a right answer wrong
	Share    float64 `json:"escalate_share"` // of the labelled ones
}

func summarizeFile(path string) (*Summary, error) {
	set, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	settings := set.Settings()
	sum := &Summary{
		Reference: settings.Reference, Prompts: set.Prompts(), Positions: set.Len(), Hash: set.Hash(),
		Bytes: set.Bytes(), Labels: make([]LabelSummary, len(settings.Labels)),
	}
	for p := range set.Prompts() {
		about, _, _ := set.Prompt(p)
		sum.addPrompt(about)
	}
	for i, name := range settings.Labels {
		sum.Labels[i].Rule = name
	}
	for i := range set.Len() {
		p := set.At(i)
		sum.addPosition(&p)
	}
	sum.computeShares()
	return sum, nil
}

func (s *Summary) addPrompt(p trace.Prompt) {
	for _, c := range []struct {
		of  *int
		set bool
	}{{&s.LeftOut, p.LeftOut}, {&s.Cut, p.Cut}, {&s.Graded, p.Graded}, {&s.Right, p.Right}} {
		if c.set {
			*c.of++
		}
	}
	s.Cloud += p.Cloud
	s.Rollouts += p.Rollouts
	s.RolloutTokens += p.RolloutTokens
}

func (s *Summary) addPosition(p *trace.Position) {
	if p.Small != p.Large {
		s.Differ++
	}
	for i := range s.Labels {
		l := &s.Labels[i]
		switch p.Labels[i] {
		case trace.Escalate:
			l.Escalate++
		case trace.Spoil:
			l.Spoil++
		case trace.Unknown:
			continue
		}
		l.Labelled++
	}
}

func (s *Summary) computeShares() {
	s.DifferShare = shareOf(s.Differ, s.Positions)
	for i := range s.Labels {
		s.Labels[i].Share = shareOf(s.Labels[i].Escalate, s.Labels[i].Labelled)
	}
}

func shareOf(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
