package measure

import (
	"strings"

	"slices"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// Add adds a flag of this program to a command, with its default: see [cli.Add].
func Add[T any](p *pflag.FlagSet, name string, to *T, usual T) {
	cli.AddDeclared(p, Declaration(name), to, usual)
}

// AddValue adds a flag of this program that has its own type: see [cli.AddValue].
func AddValue(p *pflag.FlagSet, name string, v pflag.Value) { Declaration(name).AddValue(p, v) }

// Declaration returns the declaration of a flag of this program.
func Declaration(name string) cli.FlagDecl {
	all := Declarations()
	if i := slices.IndexFunc(all, func(d cli.FlagDecl) bool { return d.Name == name }); i >= 0 {
		return all[i]
	}
	return cli.Declaration(name)
}

// Declarations returns the flags of this program beside those that it shares with the program pilotfish.
func Declarations() []cli.FlagDecl {
	return []cli.FlagDecl{
		// Evaluating, and training routers.
		{Name: "data", Often: true,
			Help: "questions: a `file` of JSON lines {\"question\": \"…\"}, a benchmark's own file, " +
				"or demo-train or demo for the built-in ones"},
		{Name: "task", Choices: strings.Join(BenchmarkNames(), " "),
			Help: "`name` of the benchmark of --data or --split: " + strings.Join(BenchmarkNames(), ", ")},
		{Name: "split", Choices: "training calibration development test",
			Help: "`part` of a benchmark, from its fetched file: training, calibration, development or test"},
		{Name: "questions", Span: "0", Often: true, Help: "number of questions, from the first; 0: all"},
		{Name: "skip", Span: "0", Help: "number of questions to leave out at the beginning"},
		{Name: "shots", Span: "0 4", Help: "worked examples before each question of a benchmark, 0 to 4"},
		{Name: "run-code", Help: "where answers are programs: run those that models write, with python3, under limits"},
		{Name: "out", Short: "o", Often: true, Help: "`file` or folder to write to; eval keeps the answers in it"},
		{Name: "html", Files: "html", Help: "write a report with curves and all answers to this `file`"},
		{Name: "eval.policy", Often: true, Help: "`list` of policies (default: all, learned if there is a router)"},
		{Name: "eval.threshold", Span: "0 1", Often: true, Help: "`list` of thresholds to try each policy at, 0 to 1"},
		{Name: "eval.budget", Span: ">0 1", Often: true,
			Help: "`list` of shares of tokens to ask for with each policy, above 0 and up to 1 " +
				"(default: 0.07, without --threshold)"},
		{Name: "eval.verify", Often: true, Help: "`list` of verification margins in nats, or off, such as off,0,2"},
		{Name: "label", Choices: "disagreement citer consequence mismatch",
			Help: "`rule` of the labels, for collect a list: disagreement, citer, consequence, mismatch, or " +
				"\"\" for none"},
		{Name: "reference", Choices: "given small large sampled routed judged",
			Help: "`origin` of the answers: given, small, large, sampled, routed or judged"},
		{Name: "calibrate.budget", Span: ">0 <1", Often: true,
			Help: "at most this `share` of the tokens is to come from the large model, above 0 and below 1"},
		{Name: "hidden", Span: "0 4096",
			Help: "units of the hidden layer, of a judge four times as many; 0 leaves it out"},
		{Name: "confidence", Span: ">0 <1",
			Help: "probability, over the choice of prompts, that the certificate is right"},

		// Decoding with a cloud, which the program pilotfish does by what it measures.
		{Name: "lookup", Values: "auto off",
			Help: "guess tokens from repetitions, up to N a pass, 2 to 8, `auto|off|N`"},
		{Name: "branches", Values: "auto",
			Help: "number of guesses at each answer to draft on from, `auto|N`"},
		{Name: "window", Span: "1",
			Help: "maximum number of tokens drafted after an open question"},
		{Name: "inflight", Span: "1", Help: "maximum number of open questions"},
		{Name: "ahead", Span: "1 64", Values: "auto",
			Help: "number of tokens per answer, 1 to 64: further ones cost no waiting; auto: 1, and with " +
				"verification as many as are of use, `auto|N`"},
		{Name: "no-audit", Help: "do not compare the small model's tokens with the large one's"},
		{Name: "no-warm", Help: "do not send the prompt and final text before a question needs it"},
		{Name: "verify-every", Span: "1 1024", Values: "auto",
			Help: "maximum number of unchecked tokens before a question, 1 to 1024; auto: by the time of answers and " +
				"the tokens rejected so far, `auto|N`"},

		// Measuring.
		{Name: "modes", Help: "`modes` to compare, in order"},
		{Name: "rtt", Span: "0s 10s", Help: "round-trip time to the cloud, up to 10s; in routing also a list"},
		{Name: "loss", Span: "0 0.99", Help: "`share` of packets lost in each direction; in routing also a list"},
		{Name: "trace",
			Help: "recorded round trips or capacity: `file` NAME.rtt.csv, NAME.up or NAME.down, one of each kind; in " +
				"routing also a list of links"},
		{Name: "edge-tps", Span: "0 1000000", Needs: "cloud",
			Help: "passes per second of the small model, to slow it down; 0: full speed"},
		{Name: "edge-row-cost", Span: "0 1",
			Help: "with --edge-tps: time of each further token in a pass, as a `share` of the pass, 0 to 1"},
		{Name: "cloud-ms", Span: "0 60000", Help: "minimum `milliseconds` that the large model takes per token"},
		{Name: "model-ms", Span: "0 60000", Help: "`milliseconds` that the model takes per question"},
		{Name: "record", Help: "record all that answers depend on in a new `file`, for --replay"},
		{Name: "replay", Help: "decode again from a `file` written by --record, in virtual time"},
		{Name: "workload", Help: "demo, everyday (the default with --model and --large), or a `file` of questions"},
		{Name: "repeat", Span: "1 1000", Short: "r", Help: "number of repetitions"},
		{Name: "prompt", Span: "0", Short: "p", Help: "length of prompts, in `tokens`; 0: none"},
		{Name: "generate", Span: "0", Short: "n",
			Help: "tokens to generate, limited by the model's context; 0 skips generation"},
		{Name: "depth", Span: "0", Short: "d", Help: "tokens of context before the measured part: 0, or 8 or more"},
		{Name: "devices", Span: "1 20000", Help: "number of devices; in capacity a list"},
		{Name: "answers", Span: "0 1000000", Help: "answers of each number of devices; 0 measures costs only"},
		{Name: "rate", Span: "0.001 1000000", Help: "questions per second of each device"},
		{Name: "seconds", Span: "0.1 86400", Help: "duration of the measurement"},
		{Name: "shape", Choices: "tiny tiny3 tiny35 0.5b 0.6b 0.8b 1.5b 1.7b 2b 4b",
			Help: "`shape` of the model: tiny, tiny3, tiny35, 0.5b, 0.6b, 0.8b, 1.5b, 1.7b, 2b or 4b"},
		{Name: "type", Help: "`type` of the weights"},
		{Name: "link.tokens", Span: "0 2048", Help: "new tokens per question, 1 to 2048, or a list; 0 skips this part"},
		{Name: "rows", Span: "1 8",
			Help: "tokens in one forward pass, 1 to 8, or a list"},
		{Name: "timeline", Help: "`file` for a timeline, for ui.perfetto.dev or chrome://tracing"},
	}
}
