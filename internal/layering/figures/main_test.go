package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNames: private functions can be found by their names, and few need a comment.
func TestNames(t *testing.T) {
	n, err := countNames("../../..")
	require.NoError(t, err)
	var c counts
	for _, p := range n.packages {
		c = c.addCounts(p)
	}
	require.Greater(t, c.functions, 4000)
	assert.LessOrEqual(t, float64(c.oneWord)/float64(c.functions), 0.05, "share of names of one word")
	assert.GreaterOrEqual(t, float64(c.words)/float64(c.functions), 2.1, "words in a name")
	assert.LessOrEqual(t, float64(c.commented)/float64(c.functions), 0.45, "share of functions with a comment")
	assert.LessOrEqual(t, len(n.sharedNames(5)), 25, "names that five or more functions share")
}

func TestCountWords(t *testing.T) {
	for name, want := range map[string]int{
		"run": 1, "readFrame": 2, "parseHTTPRequest": 3, "f16ToF32": 3, "closeID": 2, "newQUICConn": 3,
	} {
		assert.Equal(t, want, countWords(name), name)
	}
}
