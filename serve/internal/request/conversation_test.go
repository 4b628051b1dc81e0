package request

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish"
)

// TestAddedTurns: what an assistant says between two other turns is one turn, which is local if a part of it is.
func TestAddedTurns(t *testing.T) {
	var c Conversation
	for _, m := range []pilotfish.Message{{Role: "user", Content: "u"},
		{Role: "assistant", Calls: []pilotfish.ToolCall{{ID: "c"}}},
		{Role: "assistant", Content: "a", Thought: "t", Calls: []pilotfish.ToolCall{{ID: "d"}}, Local: true},
		{Role: "user"},
		{Role: "user"}, {Role: "assistant", Content: "a", Local: true}, {Role: "assistant", Thought: "s"},
		{Role: "assistant", Content: "b"}} {
		c.Add(m)
	}
	assert.Equal(t, []pilotfish.Message{{Role: "user", Content: "u"}, {Role: "assistant", Content: "a", Thought: "t",
		Calls: []pilotfish.ToolCall{{ID: "c"}, {ID: "d"}}, Local: true}, {Role: "user"}, {Role: "user"},
		{Role: "assistant", Content: "a", Thought: "s", Local: true}, {Role: "assistant", Content: "b"}}, c.Messages)
	c = Conversation{}
	for _, m := range []pilotfish.Message{{Role: "assistant", Thought: "t"}, {Role: "assistant", Content: "a"},
		{Role: "assistant", Content: "b"}, {Role: "user", Content: "c"}, {Role: "user"}} {
		c.Add(m)
	}
	assert.Equal(t, []pilotfish.Message{{Role: "assistant", Thought: "t", Content: "a"},
		{Role: "assistant", Content: "b"}, {Role: "user", Content: "c"}, {Role: "user"}}, c.Messages)
}
