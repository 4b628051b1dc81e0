package eval

import (
	"fmt"
	"strings"
)

// Settings are all settings that affect answers. A file of answers can only be continued with the settings it began
// with.
type Settings struct {
	Format      int      `json:"format"` // of the file: [logFormat]
	Task        string   `json:"task"`
	Split       string   `json:"split"`          // of the task's questions; see [task.Split]
	Data        string   `json:"data"`           // [task.Set.Hash]
	Skip        int      `json:"skip,omitempty"` // questions before the first of these
	Questions   int      `json:"questions"`
	Prompts     string   `json:"prompts"` // [task.Set.Prompts]
	Shots       int      `json:"shots"`
	Raw         bool     `json:"raw"`
	Small       string   `json:"small"`     // fingerprint of the small model
	Large       string   `json:"large"`     // fingerprint of the large one, or its name from the gateway
	Router      string   `json:"router"`    // SHA-256 of the router file; "" for none
	Arithmetic  string   `json:"computing"` // arithmetic of the small model: backend, keys and values
	Context     int      `json:"context"`   // maximum length of a text, in tokens
	MaxTokens   int      `json:"max_tokens"`
	Temperature float64  `json:"temperature"`
	Seed        uint64   `json:"seed"`
	VerifyEvery int      `json:"verify_every"` // 0 if no run verifies
	Runs        []string `json:"runs"`
}

// Title names the questions, such as "gsm8k test" or "gsm8k test from 401".
func (s *Settings) Title() string {
	name := strings.TrimSpace(s.Task + " " + s.Split)
	if s.Skip > 0 {
		name += fmt.Sprintf(" from %d", s.Skip+1)
	}
	return name
}

// About has further information about answers, for readers.
type About struct {
	Version string `json:"version"` // of the program
	Command string `json:"command"` // that began the file
	Date    string `json:"date"`    // of the beginning
}
