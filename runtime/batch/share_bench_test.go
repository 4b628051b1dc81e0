package batch_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// BenchmarkGrowing continues a text of 1000 tokens token by token, with a model that does nothing.
func BenchmarkGrowing(b *testing.B) {
	s := service(b, idle{}, 8192, batch.Options{Context: 4096, Lookup: -1})
	defer s.Close()
	context := text(0, 1000)
	for b.Loop() {
		if len(context) == 1100 {
			context = context[:1000]
			require.NoError(b, s.Forget(b.Context(), 1))
		}
		_, err := s.Ask(b.Context(), terms.Job{Session: 1, Question: terms.Question{Context: context, K: 1}})
		require.NoError(b, err)
		context = append(context, 7)
	}
}

// BenchmarkNewSession asks in a new session that shares 400 tokens with the one before and has 10 of its own.
func BenchmarkNewSession(b *testing.B) {
	s := service(b, idle{}, 8192, batch.Options{Lookup: -1})
	defer s.Close()
	prompt := text(0, 400)
	for n := uint64(1); b.Loop(); n++ {
		q := terms.Job{Session: n, Device: n,
			Question: terms.Question{Context: slices.Concat(prompt, text(int(n), 10)), K: 1}}
		_, err := s.Ask(b.Context(), q)
		require.NoError(b, err)
		if n > 1 {
			require.NoError(b, s.Forget(b.Context(), n-1))
		}
	}
}
