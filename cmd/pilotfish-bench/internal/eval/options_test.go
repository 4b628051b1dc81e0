package eval

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestPairContext: --ctx is for both models.
func TestPairContext(t *testing.T) {
	var f evalFlags
	c := new(cobra.Command)
	f.registerFlags(c)
	m := clitest.TinyModel(t, "q8_0")
	require.NoError(t, c.ParseFlags([]string{"-m", m, "--large", m, "--ctx", "100", "-t", "1"}))
	models, err := f.pair.Open(t.Context(), &cli.App{Stderr: io.Discard, Env: os.Getenv}, true)
	require.NoError(t, err)
	defer models.Close()
	assert.Equal(t, []int{100, 100}, []int{models.Edge.Context(), models.Large.Context()})
	assert.Equal(t, []int{1, 1}, []int{models.Edge.Threads(), models.Large.Threads()})
}

// verifier is a large model that records by which judge it is to verify, and can verify without one only.
type verifier struct{ asked []string }

func (v *verifier) Verifies(_ context.Context, s terms.Sampling, judge string) error {
	if v.asked = append(v.asked, judge); judge != "" || s.Temperature > 0 {
		return netproto.CannotVerify
	}
	return nil
}

// TestVerifiable: the large model must support the sampling and the judge of the runs. It is not asked for runs without
// verification.
func TestVerifiable(t *testing.T) {
	run := func(margin float64) eval.Run { return eval.Run{Policy: "margin", Verify: &margin} }
	for _, c := range []struct {
		name        string
		runs        []eval.Run
		temperature float64
		asked       []string
		said        string
	}{
		{"not verified", []eval.Run{{Policy: "never"}}, 1, nil, ""},
		{"greedy margins", []eval.Run{{Policy: "never"}, run(0), run(0.5)}, 0, []string{"", ""}, ""},
		{"a sampled margin", []eval.Run{run(0.5)}, 1, []string{""}, "--verify 0.5 is not possible with this large "},
		{"a budget", []eval.Run{{Policy: "verify", Budget: 0.1}}, 1, []string{""}, "--policy verify is not possible"},
		{"a judge", []eval.Run{{Policy: "judge"}, {Policy: "never"}}, 0, []string{"j"},
			"--policy judge is not possible"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v verifier
			o := eval.Options{Runs: c.runs, Judge: "j", Sampling: terms.Sampling{Temperature: c.temperature}}
			err := checkVerification(t.Context(), &v, o)
			assert.Equal(t, c.asked, v.asked)
			if c.said == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.said)
			assert.ErrorIs(t, err, netproto.CannotVerify)
		})
	}
}
