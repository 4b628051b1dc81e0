//go:build !noasm

package engine

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/cputime"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// codeQuestions and proseQuestions are the prompts of BenchmarkDrafter.
var (
	codeQuestions = []string{
		"Write a Python function that returns the n-th Fibonacci number, with a test.",
		"Write a Go function that reverses a linked list.",
		"Write a binary search in C.",
		"Write a Python class for a stack with push, pop and peek.",
		"Write a JavaScript function that removes duplicates from an array of objects by key.",
		"Write a SQL schema for a library with books, authors and loans.",
		"Write a Python script that counts words in a file and prints the ten most frequent.",
		"Write a Java method that checks whether a string is a palindrome, and JUnit tests for it.",
		"Write a Rust function that parses a CSV line into fields.",
		"Write a Dockerfile and a Makefile for a small Flask application.",
	}
	proseQuestions = []string{
		"Why is the sky blue?",
		"Tell me a short story about a lighthouse keeper.",
		"What were the causes of the First World War?",
		"How do vaccines work?",
		"Describe a walk through an old forest in autumn.",
		"What is the difference between weather and climate?",
		"Give me advice for a first job interview.",
		"Explain how sourdough bread rises.",
		"Write a letter to a landlord about a broken heater.",
		"Who was Marie Curie, and why is she remembered?",
	}
)

// measured is an answer with its cost.
type measured struct {
	sum  Summary
	text string
	used time.Duration // of the processor
}

// measure answers a prompt in a new session.
func measure(b *testing.B, e *Engine, ids []int32, r Route) measured {
	s := session(b, e)
	begin := cputime.Used()
	text := strings.Join(texted(b, s, ids, r), "")
	m := measured{s.Summary(), text, cputime.Used() - begin}
	require.NoError(b, m.sum.Err)
	require.NoError(b, s.Close())
	return m
}

// BenchmarkDrafter answers questions with PILOTFISH_MODEL alone and with drafts of PILOTFISH_DRAFTER, in turns and each
// in a new session, on PILOTFISH_THREADS threads, and requires the same text. The figures are medians over the
// questions: how many times as fast an answer of PILOTFISH_TOKENS tokens comes with drafts, with its prompt and
// without, the same of the processor time, and the share of drafts that are accepted.
func BenchmarkDrafter(b *testing.B) {
	file, small := os.Getenv("PILOTFISH_MODEL"), os.Getenv("PILOTFISH_DRAFTER")
	if file == "" || small == "" {
		b.Skip("PILOTFISH_MODEL and PILOTFISH_DRAFTER name the files of two models")
	}
	number := func(name string, usual int) int {
		n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(usual)))
		require.NoError(b, err, name)
		return n
	}
	o, tokens := Options{Threads: number("PILOTFISH_THREADS", 0)}, number("PILOTFISH_TOKENS", 128)
	e, err := Open(file, o)
	require.NoError(b, err)
	defer e.Close()
	drafter, err := Open(small, o)
	require.NoError(b, err)
	defer drafter.Close()
	for _, temperature := range []float64{0, 0.8} {
		for kind, questions := range map[string][]string{"code": codeQuestions, "prose": proseQuestions} {
			b.Run(fmt.Sprintf("%s at %v", kind, temperature), func(b *testing.B) {
				var whole, decode, work, accepted, long []float64
				for n, question := range questions {
					ids, err := e.Chat(tokenizer.Message{Role: "user", Content: question})
					require.NoError(b, err)
					answers := map[bool]measured{}
					for _, drafts := range []bool{n%2 == 0, n%2 != 0} {
						r := Route{Settings: terms.Settings{
							MaxTokens: tokens, Temperature: temperature, Seed: uint64(n),
						}}
						if drafts {
							r.Drafter = drafter
						}
						answers[drafts] = measure(b, e, ids, r)
					}
					require.Equal(b, answers[false].text, answers[true].text, question)
					with, alone := answers[true].sum, answers[false].sum
					whole = append(whole, (alone.PromptTime+alone.DecodeTime).Seconds()/
						(with.PromptTime+with.DecodeTime).Seconds())
					decode = append(decode, alone.DecodeTime.Seconds()/with.DecodeTime.Seconds())
					work = append(work, float64(answers[false].used)/float64(answers[true].used))
					accepted = append(accepted, float64(with.DraftsAccepted)/float64(max(1, with.Drafts)))
					long = append(long, float64(with.Drafts)/float64(max(1, with.DraftPasses)))
					b.Logf("%-30.30s %5.2f whole %5.2f decoding %5.2f work; drafts %d of %d in %d of %d passes; "+
						"guesses %d of %d, alone %d of %d", question, whole[n], decode[n], work[n], with.DraftsAccepted,
						with.Drafts, with.DraftPasses, with.Passes, with.Accepted, with.Proposed, alone.Accepted,
						alone.Proposed)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(middle(whole), "times-as-fast")
				b.ReportMetric(whole[0], "least")
				b.ReportMetric(whole[len(whole)-1], "most")
				b.ReportMetric(middle(decode), "decoding")
				b.ReportMetric(middle(work), "processor-time")
				b.ReportMetric(middle(accepted), "accepted")
				b.ReportMetric(middle(long), "drafts/call")
			})
		}
	}
}

// texted returns the texts of the tokens of an answer.
func texted(b *testing.B, s *Session, ids []int32, r Route) (all []string) {
	for t, err := range s.Routed(b.Context(), ids, r) {
		require.NoError(b, err)
		all = append(all, t.Text)
	}
	return all
}
