package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// routingFlags are shared by `demo` and `bench routing`.
type routingFlags struct {
	route     routeFlags
	modes     string
	questions int
	rtt       time.Duration
	loss      float64
	traces    []string
	cloudMS   float64
	seed      uint64
	parallel  int
	json      bool
}

func (f *routingFlags) register(c *cobra.Command, edgeTPS float64) {
	p := c.Flags()
	f.route.register(p)
	cobra.CheckErr(p.Lookup("edge-tps").Value.Set(strconv.FormatFloat(edgeTPS, 'g', -1, 64)))
	p.Lookup("edge-tps").DefValue = strconv.FormatFloat(edgeTPS, 'g', -1, 64)
	p.StringVar(&f.modes, "modes", "local,cloud,paper,serial,pipelined-1,pipelined-2,pipelined-4", "`modes` to compare")
	p.IntVar(&f.questions, "questions", 100, "how many questions")
	p.DurationVar(&f.rtt, "rtt", 100*time.Millisecond, "round trip to the cloud")
	p.Float64Var(&f.loss, "loss", 0, "`share` of packets that the link loses, each way")
	p.StringArrayVar(&f.traces, "trace", nil, "recorded round trips or capacity: `file`.rtt.csv, .up or .down; may be repeated")
	p.Float64Var(&f.cloudMS, "cloud-ms", 15, "least `milliseconds` that the cloud takes for a token")
	p.Uint64Var(&f.seed, "seed", 0, "seed of the link")
	p.IntVar(&f.parallel, "parallel", 8, "answers at the same time, each as if on a device of its own")
	p.BoolVar(&f.json, "json", false, "print one JSON object per mode")
}

// options turns the flags into what package bench takes. own is the router of the small model, where one comes with it.
func (f *routingFlags) options(own []byte) (o bench.RoutingOptions, s bench.StageOptions, err error) {
	for name := range strings.SplitSeq(f.modes, ",") {
		m, err := bench.ParseMode(strings.TrimSpace(name))
		if err != nil {
			return o, s, usagef("--modes: %w", err)
		}
		o.Modes = append(o.Modes, m)
	}
	if f.questions < 1 || f.parallel < 1 || f.rtt < 0 || f.cloudMS < 0 || !(f.loss >= 0 && f.loss < 1) {
		return o, s, usagef("--questions and --parallel are at least 1, --rtt and --cloud-ms not negative, --loss in [0, 1)")
	}
	if o.Draft, err = f.route.draft(); err != nil {
		return o, s, err
	}
	if o.Router, err = f.route.router(own); err != nil {
		return o, s, err
	}
	o.RTT, o.EdgeTPS, o.Parallel = f.rtt, f.route.edgeTPS, f.parallel
	o.CloudPace = time.Duration(f.cloudMS * float64(time.Millisecond))
	s = bench.StageOptions{RTT: f.rtt, Loss: f.loss, Traces: f.traces, Seed: f.seed, AnswerTime: o.CloudPace}
	return o, s, nil
}

// newDemoCommand runs the whole system on the models in the binary.
func newDemoCommand(a *app) *cobra.Command {
	var f routingFlags
	c := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Run the whole system in one process: two tiny models, gateway, emulated link",
		Long: `Run the whole system in one process: a tiny trained pair of models that comes with the program, the gateway, and an emulated
link between them. The models know an invented world, of which the small one was told the truth only in part.

A table compares: the small model alone; the large one alone, streamed; serial routing as in the paper (HTTP, the whole
text each time); serial routing over our protocol; and pipelined routing with 1, 2 and 4 branches.`,
		Example: `  pilotfish demo
  pilotfish demo --rtt 300ms --loss 0.05 --questions 40`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.demo(c.Context(), a) },
	}
	f.register(c, 60)
	return c
}

func (f *routingFlags) demo(ctx context.Context, a *app) error {
	o, s, err := f.options(demo.Router())
	if err != nil {
		return err
	}
	if o.Edge, err = embedded(demo.Small(), "demo/small.gguf"); err != nil {
		return err
	}
	defer o.Edge.Close()
	if o.Large, err = embedded(demo.Large(), "demo/large.gguf"); err != nil {
		return err
	}
	defer o.Large.Close()
	o.Questions = demoQuestions(f.questions)
	if s.Typical, err = demoTexts(o.Edge); err != nil {
		return err
	}
	return f.measure(ctx, a, o, s)
}

// embedded opens a model that comes with the program.
func embedded(b []byte, name string) (*engine.Engine, error) {
	file, err := gguf.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	return engine.New(file, name, engine.Options{})
}

// demoQuestions returns the first n held-out questions, or all if there are fewer.
func demoQuestions(n int) []bench.Question {
	var all []bench.Question
	for _, q := range demo.Questions(demo.HeldOut) {
		if len(all) < n {
			all = append(all, bench.Question{Text: q.Text, Correct: q.Correct})
		}
	}
	return all
}

// demoTexts returns chats of the training split, which a dictionary for the wire is trained on.
func demoTexts(e *engine.Engine) (all [][]int32, err error) {
	t, err := e.Tokenizer()
	if err != nil {
		return nil, err
	}
	for _, q := range demo.Questions(demo.Train) {
		prompt, err := t.Chat([]tokenizer.Message{{Role: "user", Content: q.Text}}, true)
		if err != nil {
			return nil, err
		}
		all = append(all, append(prompt, t.Encode(q.Answer, false)...))
	}
	return all, nil
}

// measure runs the modes and prints what was found. On a terminal it shows one answer first.
func (f *routingFlags) measure(ctx context.Context, a *app, o bench.RoutingOptions, s bench.StageOptions) (err error) {
	stage, err := bench.NewStage(o.Edge, o.Large, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	o.Direct, o.Dial = stage.Direct(), stage.Dial
	if !f.json && isTerminal(a.stdout) {
		if err := f.live(ctx, a, o, stage); err != nil {
			return err
		}
	}
	m := newMeter(a.stderr, "answers", inPieces)
	o.Progress = func(done, total int) { m.show(int64(done), int64(total)) }
	reports, err := bench.Routing(ctx, o)
	m.close()
	if err != nil {
		return err
	}
	if f.json {
		for _, r := range reports {
			if err := a.printJSON(r); err != nil {
				return err
			}
		}
		return nil
	}
	return printRouting(a.stdout, reports)
}

// live shows one answer as it comes, with tokens of the cloud in colour.
func (f *routingFlags) live(ctx context.Context, a *app, o bench.RoutingOptions, stage *bench.Stage) error {
	q := o.Questions[0]
	prompt, err := o.Edge.Chat(tokenizer.Message{Role: "user", Content: q.Text})
	if err != nil {
		return err
	}
	session, err := o.Edge.NewSession()
	if err != nil {
		return err
	}
	far, end, err := stage.Dial(ctx, 0)
	if err != nil {
		return err
	}
	defer end()
	r, err := router.New(o.Router)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s\n", q.Text)
	print := newTokenPrinter(a)
	for t, err := range session.Routed(ctx, prompt, engine.Route{
		Request: engine.Request{MaxTokens: 64}, Router: r, Cloud: far, Draft: o.Draft, Pace: o.EdgeTPS,
	}) {
		if err != nil {
			return err
		}
		if err := print(t); err != nil {
			return err
		}
	}
	sum := session.Routing()
	fmt.Fprintf(a.stdout, "\n(%d tokens, %d of them from the cloud; %v of %v waiting were hidden)\n\n", sum.Tokens, sum.Cloud,
		sum.Hidden.Round(time.Millisecond), sum.Wait.Round(time.Millisecond))
	return nil
}

// printRouting prints the table, a row per mode.
func printRouting(out io.Writer, reports []bench.ModeReport) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "mode\taccuracy\tinterval\tfrom the cloud\tasks\tms p50\tms p90\thidden\thits\tbytes up\tdown\tas serial\t")
	for _, r := range reports {
		interval := ""
		if r.AccuracyLow != nil {
			interval = fmt.Sprintf("%.0f–%.0f%%", 100**r.AccuracyLow, 100**r.AccuracyHigh)
		}
		same := ""
		if r.EqualToSerial != nil {
			same = map[bool]string{true: "yes", false: "NO"}[*r.EqualToSerial]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\t\n", r.Mode, percent(r.Accuracy), interval,
			percent(r.EscalatedShare), number(r.Escalations), r.Time.P50, r.Time.P90, percent(r.HiddenShare), percent(r.HitRate),
			number(r.BytesUp), number(r.BytesDown), same)
	}
	return w.Flush()
}

func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100**share)
}

func number(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *x)
}

// newBenchRoutingCommand measures routing with models and questions of one's own, or those of the demo.
func newBenchRoutingCommand(a *app) *cobra.Command {
	var f routingFlags
	var workload, edge, large string
	c := &cobra.Command{
		Use:   "routing [flags]",
		Short: "Compare the modes of routing over an emulated link",
		Long: `Compare the modes of routing over an emulated link, with everything in this process.

The workload is the demo's models and questions, or a file of your own questions, one JSON object {"question": "…"} per line,
with --model and --large; with an "answer", answers that contain it count as right.`,
		Example: `  pilotfish bench routing --workload demo --rtt 200ms --modes serial,pipelined-4 --json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if workload == "demo" {
				return f.demo(c.Context(), a)
			}
			return f.own(c.Context(), a, workload, edge, large)
		},
	}
	f.register(c, 0)
	c.Flags().StringVar(&workload, "workload", "demo", "demo, or a `file` of questions")
	c.Flags().StringVarP(&edge, "model", "m", "", "the small model, a GGUF `file`, for questions of your own")
	c.Flags().StringVar(&large, "large", "", "the large model, a GGUF `file`, for questions of your own")
	return c
}

// own measures models and questions of the user.
func (f *routingFlags) own(ctx context.Context, a *app, workload, edge, large string) error {
	if edge == "" || large == "" {
		return usagef("questions of your own need --model and --large")
	}
	o, s, err := f.options(nil)
	if err != nil {
		return err
	}
	if o.Questions, err = readQuestions(workload, f.questions); err != nil {
		return err
	}
	if o.Edge, err = engine.Open(edge, engine.Options{}); err != nil {
		return err
	}
	defer o.Edge.Close()
	if o.Large, err = engine.Open(large, engine.Options{}); err != nil {
		return err
	}
	defer o.Large.Close()
	o.MaxTokens = 256
	return f.measure(ctx, a, o, s)
}

// readQuestions reads at most n questions of a file of JSON lines.
func readQuestions(path string, n int) ([]bench.Question, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []bench.Question
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for line := 1; len(all) < n && lines.Scan(); line++ {
		var q struct{ Question, Answer string }
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, line, err)
		}
		if q.Question == "" {
			return nil, fmt.Errorf("%s: line %d: no \"question\"", path, line)
		}
		one := bench.Question{Text: q.Question}
		if q.Answer != "" {
			one.Correct = func(said string) bool { return strings.Contains(said, q.Answer) }
		}
		all = append(all, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no questions", path)
	}
	return all, nil
}
