package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/price"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// logitsOf are what `pilotfish logits` prints with these flags.
func logitsOf(t *testing.T, m string, flags ...string) []float32 {
	t.Helper()
	code, stdout, stderr := call(t, append([]string{"logits", "-m", m, "--tokens", "1,2,3", "--json"}, flags...)...)
	require.Equal(t, exitDone, code, stderr)
	return lines[logitsResult](t, stdout)[0].Logits
}

// TestModelFlags: each flag of a model changes its engine in what it is named after, and nothing else, and every
// command that runs a model has them.
func TestModelFlags(t *testing.T) {
	ownFolders(t)
	m := tinyModel(t, "q8_0") // of 512 tokens
	type model struct {
		path, device   string
		threads, slots int
		kvBytes        int64
	}
	open := func(args string) model {
		f, c := modelFlags{}, new(cobra.Command)
		f.register(c)
		require.NoError(t, c.ParseFlags(strings.Fields(args)), args)
		e, err := f.open()
		require.NoError(t, err, args)
		defer e.Close()
		s, err := e.NewSession()
		require.NoError(t, err)
		device, _, _ := strings.Cut(e.Device(), ", threads")
		return model{f.path, device, e.Threads(), e.Context(), s.KVLimit()}
	}
	usual := open("-t 2 -m " + m)
	assert.Equal(t, model{m, usual.device, 2, 512, 512 * 512 * 2}, usual)
	for args, change := range map[string]func(*model){
		"--threads 3":   func(m *model) { m.threads = 3 },
		"-t 3 --ctx 50": func(m *model) { m.threads, m.slots, m.kvBytes = 3, 50, m.kvBytes/512*50 },
		"-c 50":         func(m *model) { m.slots, m.kvBytes = 50, m.kvBytes/512*50 },
		"--kv f32":      func(m *model) { m.kvBytes *= 2 },
		"--kv f16":      func(*model) {},
		"--exact":       func(m *model) { m.device, m.kvBytes = "cpu (exact", m.kvBytes*2 },
		"--backend cpu": func(*model) {},
	} {
		want := usual
		change(&want)
		assert.Equal(t, want, open("-t 2 -m "+m+" "+args), args)
	}

	usualLogits := logitsOf(t, m)
	assert.NotEqual(t, usualLogits, logitsOf(t, m, "--kv", "f32"))
	assert.NotEqual(t, usualLogits, logitsOf(t, m, "--exact"))
	assert.Equal(t, logitsOf(t, m, "--exact"), logitsOf(t, m, "--exact", "--kv", "f32"))
	assert.NotEqual(t, usualLogits, logitsOf(t, tinyModel(t, "q5_0")), "--model")
	for _, command := range [][]string{ // a value that the model or this machine refuses is refused where it is used
		{"run", "-m", m, "--tokens", "1", "-n", "1"}, {"logits", "-m", m, "--tokens", "1"},
		{"cloud", "-m", m, "--listen", "127.0.0.1:0"},
		{"router", "calibrate", "-m", m, "--large", m, "--router", narrowRouter(t, 8, ""), "--data", demoData(t, 9),
			"-o", "/nowhere/o"},
	} {
		for _, flags := range []string{"--threads 5000", "--kv f64", "--exact --backend soft", "--backend cuda"} {
			code, _, stderr := call(t, append(command, strings.Fields(flags)...)...)
			assert.Equal(t, exitUsage, code, "%v %s", command, flags)
			assert.Contains(t, stderr, strings.Fields(flags)[0])
		}
		if runtime.GOOS != "darwin" {
			code, _, stderr := call(t, append(command, "--backend", "metal")...)
			assert.Equal(t, exitFailed, code, command)
			assert.Contains(t, stderr, "backend metal")
		}
	}
	for name, want := range map[string]engine.Backend{
		"cpu": engine.CPU, "soft": engine.Soft, "soft:check:3": "soft:check:3", "metal": engine.Metal,
	} {
		got, err := parseBackend(name)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// TestRunContext: the context that --ctx gives ends a text, and the longest text is as long as -n says, or as it.
func TestRunContext(t *testing.T) {
	m := tinyModel(t, "q8_0")
	for args, want := range map[string]struct {
		tokens int
		stop   string
	}{
		"-c 20 -n 0": {17, "context"}, "-c 20 -n 300": {17, "context"}, "-n 5": {5, "length"},
		"-c 20 -n 5": {5, "length"}, "": {256, "length"},
	} {
		_, _, s, _ := routedTokens(t, append([]string{"-m", m, "--tokens", "1,2,3"}, strings.Fields(args)...)...)
		assert.Equal(t, want.stop, s.Stop, args)
		assert.InDelta(t, want.tokens, s.GeneratedTokens, 1, args)
		assert.Len(t, s.Tokens, s.GeneratedTokens, args)
	}
}

// TestThreadsBesideTheNetwork: while the network is in use there are two more threads than those that compute, and
// afterwards as many as before.
func TestThreadsBesideTheNetwork(t *testing.T) {
	ownFolders(t)
	m := tinyModel(t, "q8_0")
	before := runtime.GOMAXPROCS(0)
	t.Setenv("GOGC", "")
	require.NoError(t, os.Unsetenv("GOGC"))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	_, _, stop := startCloud(t, "-m", m, "--threads", "9")
	assert.Equal(t, 11, runtime.GOMAXPROCS(0))
	assert.Greater(t, gcPercent(), 100, "of a small model and much free memory")
	stop()
	assert.Equal(t, before, runtime.GOMAXPROCS(0))
	assert.Equal(t, 100, gcPercent())

	var seen int
	out := writerFunc(func(b []byte) (int, error) { seen = runtime.GOMAXPROCS(0); return len(b), nil })
	line := "run -m " + m + " --threads 7 --tokens 1 -n 1 --policy never --require-cloud=false --cloud " + closedPort
	require.Equal(t, exitDone, run(t.Context(), strings.Fields(line), strings.NewReader(""), out, io.Discard))
	assert.Equal(t, before, runtime.GOMAXPROCS(0))
	assert.Equal(t, 9, seen)
}

// TestBenchEngineFlags: each flag of `bench engine` sets what it is named after, and nothing else; what nobody asked
// for becomes as long as the model holds.
func TestBenchEngineFlags(t *testing.T) {
	scaling := false
	parse := func(args string, limit int) speed.Matrix {
		f, c := new(benchEngineFlags), &cobra.Command{RunE: func(*cobra.Command, []string) error { return nil }}
		f.register(c)
		require.NoError(t, c.ParseFlags(strings.Fields("-m m "+args)), args)
		require.NoError(t, f.check(), args)
		require.NoError(t, f.fit(limit), args)
		scaling = f.scaling
		return f.m
	}
	const long = 100_000
	usual := speed.Matrix{Model: "m", Prompts: []int{512}, Decodes: []int{64}, Depths: []int{0},
		Threads: []int{0}, Backends: []engine.Backend{engine.CPU}, KV: []engine.KVType{engine.KVAuto}, Repeat: 3}
	assert.Equal(t, usual, parse("", long))
	for args, change := range map[string]func(*speed.Matrix){
		"--prompt 7":     func(o *speed.Matrix) { o.Prompts = []int{7} },
		"-p 0,16,99999":  func(o *speed.Matrix) { o.Prompts = []int{0, 16, 99_999} },
		"--generate 7,9": func(o *speed.Matrix) { o.Decodes = []int{7, 9} },
		"-n 0":           func(o *speed.Matrix) { o.Decodes = []int{0} },
		"--depth 9":      func(o *speed.Matrix) { o.Depths = []int{9} },
		"-d 0,8,32000":   func(o *speed.Matrix) { o.Depths = []int{0, 8, 32_000} },
		"--threads 5":    func(o *speed.Matrix) { o.Threads = []int{5} },
		"-t 1,1024":      func(o *speed.Matrix) { o.Threads = []int{1, 1024} },
		"--repeat 9":     func(o *speed.Matrix) { o.Repeat = 9 },
		"-r 1":           func(o *speed.Matrix) { o.Repeat = 1 },
		"--rows 8,2":     func(o *speed.Matrix) { o.Rows = []int{8, 2} },
		"--kv f16":       func(o *speed.Matrix) { o.KV = []engine.KVType{engine.KVF16} },
		"--kv f32,f16":   func(o *speed.Matrix) { o.KV = []engine.KVType{engine.KVF32, engine.KVF16} },
		"--backend soft:ubsan:7,cpu": func(o *speed.Matrix) {
			o.Backends = []engine.Backend{"soft:ubsan:7", engine.CPU}
		},
		"-o csv": func(*speed.Matrix) {}, "--output md": func(*speed.Matrix) {},
	} {
		want := usual
		change(&want)
		assert.Equal(t, want, parse(args, long), args)
		assert.False(t, scaling)
	}
	assert.Equal(t, usual, parse("--scaling", long))
	assert.True(t, scaling)
	for args, want := range map[string][3]int{ // prompt, generated, depth, of a model that holds 100
		"":                 {99, 64, 0},
		"-p 99 -n 91":      {99, 91, 0},
		"-d 40":            {59, 59, 40},
		"-d 40 -n 59":      {59, 59, 40},
		"-d 98":            {1, 1, 98},
		"-p 3 -n 10 -d 20": {3, 10, 20},
	} {
		o := parse(args, 100)
		assert.Equal(t, want, [3]int{o.Prompts[0], o.Decodes[0], o.Depths[0]}, args)
	}
	o := parse("", 5)
	assert.Equal(t, []int{4, 0}, append(o.Prompts, o.Decodes...), "less than the prompt of a generation")
}

// TestRoutingOptions: each flag of `demo` and `bench routing` sets what it is named after, and nothing else.
func TestRoutingOptions(t *testing.T) {
	dir := t.TempDir()
	up, file := filepath.Join(dir, "a.up"), filepath.Join(dir, "net.gguf")
	require.NoError(t, os.WriteFile(up, []byte("1\n2\n"), 0o600))
	require.NoError(t, os.WriteFile(file, demo.Router(), 0o600))
	shipped, err := parseRouter(demo.Router())
	require.NoError(t, err)
	net, learned := shipped.Net, new(router.Net)
	type options struct {
		routing.Options
		Stage     remote.StageOptions
		Questions int
		JSON      bool
	}
	parse := func(args string) options {
		var f routingFlags
		c := new(cobra.Command)
		f.register(c, 60)
		f.registerSweep(c)
		require.NoError(t, c.ParseFlags(strings.Fields(strings.NewReplacer("UP", up, "NET", file).Replace(args))), args)
		o, s, err := f.options(nil)
		require.NoError(t, err, args)
		if o.Router.Net != nil && reflect.DeepEqual(o.Router.Net, net) {
			o.Router.Net = learned // which is shorter to print
		}
		return options{o, s, f.questions, f.json}
	}
	modes := func(names string) []outcome.Mode {
		all, err := parseModes(names)
		require.NoError(t, err)
		return all
	}
	const ms = time.Millisecond
	usual := options{
		Options: routing.Options{
			Modes:  modes("local,cloud,paper,serial,pipelined-2,pipelined-4,verified"),
			Router: router.Options{Policy: router.Margin},
			Draft: engine.DraftOptions{Branches: engine.AutoBranches, Window: 32, InFlight: 4, Deadline: 800 * ms,
				Audit: true, Lookup: -1, Ahead: 1, VerifyEvery: 64},
			RTT: 100 * ms, EdgeTPS: 60, CloudPace: 15 * ms, Parallel: 8, Repeat: 1, WarmUp: 1,
		},
		Stage:     remote.StageOptions{RTT: 100 * ms, AnswerTime: 15 * ms},
		Questions: 100,
	}
	assert.Equal(t, usual, parse(""))
	for args, change := range map[string]func(*options){
		"--modes serial,local": func(o *options) { o.Modes = modes("serial,local") },
		"--modes=pipelined-64": func(o *options) { o.Modes = modes("pipelined-64") },
		"--questions 3":        func(o *options) { o.Questions = 3 },
		"--rtt 7ms":            func(o *options) { o.RTT, o.Stage.RTT = 7*ms, 7*ms },
		"--rtt 10s":            func(o *options) { o.RTT, o.Stage.RTT = 10*time.Second, 10*time.Second },
		"--loss 0.25":          func(o *options) { o.Loss, o.Stage.Loss = 0.25, 0.25 },
		"--loss 0.5 --seed 9":  func(o *options) { o.Loss, o.Stage.Loss, o.Stage.Seed = 0.5, 0.5, 9 },
		"--trace UP": func(o *options) {
			o.Traces, o.Stage.Traces = []string{up}, []string{up}
		},
		"--traces UP": func(o *options) {
			o.Traces, o.Stage.Traces = []string{up}, []string{up}
		},
		"--repeat 7":                         func(o *options) { o.Repeat = 7 },
		"--warm-up 0":                        func(o *options) { o.WarmUp = 0 },
		"--raw":                              func(o *options) { o.Raw = true },
		"--max-tokens 9":                     func(o *options) { o.MaxTokens = 9 },
		"--modes serial,serial":              func(o *options) { o.Modes = modes("serial,serial") },
		"--cloud-ms 2.5":                     func(o *options) { o.CloudPace, o.Stage.AnswerTime = 5*ms/2, 5*ms/2 },
		"--cloud-ms 0":                       func(o *options) { o.CloudPace, o.Stage.AnswerTime = 0, 0 },
		"--edge-tps 50":                      func(o *options) { o.EdgeTPS = 50 },
		"--edge-tps 0":                       func(o *options) { o.EdgeTPS = 0 },
		"--parallel 64":                      func(o *options) { o.Parallel = 64 },
		"--json":                             func(o *options) { o.JSON = true },
		"--window 5":                         func(o *options) { o.Draft.Window = 5 },
		"--inflight 7":                       func(o *options) { o.Draft.InFlight = 7 },
		"--deadline 2s":                      func(o *options) { o.Draft.Deadline = 2 * time.Second },
		"--deadline off":                     func(o *options) { o.Draft.Deadline = -1 },
		"--deadline 0":                       func(o *options) { o.Draft.Deadline = -1 },
		"--lookup auto":                      func(o *options) { o.Draft.Lookup = 0 },
		"--lookup off":                       func(*options) {},
		"--lookup 2":                         func(o *options) { o.Draft.Lookup = 2 },
		"--branches 3":                       func(o *options) { o.Draft.Branches = 3 },
		"--ahead 8":                          func(o *options) { o.Draft.Ahead = 8 },
		"--verify-every 5":                   func(o *options) { o.Draft.VerifyEvery = 5 },
		"--price prefill=1,decode=2":         func(o *options) { o.Prices = &price.List{Prefill: 1, Decode: 2} },
		"--modes verified:0.5,speculative-4": func(o *options) { o.Modes = modes("verified:0.5,speculative-4") },
		"--no-audit":                         func(o *options) { o.Draft.Audit = false },
		"--no-warm":                          func(o *options) { o.Draft.Warm = -1 },
		"--modes pipelined-auto":             func(o *options) { o.Modes = modes("pipelined-auto") },
		"--edge-row-cost 0.3":                func(o *options) { o.RowCost = 0.3 },
		"--policy entropy":                   func(o *options) { o.Router.Policy = router.Entropy },
		"--threshold 0.25":                   func(o *options) { o.Router.Threshold = new(0.25) },
		"--threshold 0":                      func(o *options) { o.Router.Threshold = new(0.0) },
		"--budget 0.07":                      func(o *options) { o.Router.Budget = 0.07 },
		"--policy learned --router NET": func(o *options) {
			o.Router.Policy, o.Router.Net = router.Learned, learned
		},
		"--router NET": func(o *options) {
			o.Router.Policy, o.Router.Net = router.Learned, learned
		},
		"--policy random --budget 1": func(o *options) { o.Router.Policy, o.Router.Budget = router.Random, 1 },
		"--modes paper --deadline 1h": func(o *options) {
			o.Modes, o.Draft.Deadline = modes("paper"), time.Hour
		},
		"--edge-tps 0.1 --modes local": func(o *options) { o.EdgeTPS, o.Modes = 0.1, modes("local") },
		"--cloud-ms 60000 --modes cloud": func(o *options) {
			o.CloudPace, o.Stage.AnswerTime, o.Modes = time.Minute, time.Minute, modes("cloud")
		},
	} {
		want := usual
		change(&want)
		assert.Equal(t, want, parse(args), args)
	}
	for _, c := range []struct {
		edgeTPS string
		of      *cobra.Command
	}{{"60", newDemoCommand(&app{})}, {"0", newBenchRoutingCommand(&app{})}} {
		flag := c.of.Flags().Lookup("edge-tps")
		assert.Equal(t, []string{c.edgeTPS, c.edgeTPS}, []string{flag.DefValue, flag.Value.String()}, c.of.Name())
	}
}

// TestDemoRouter: --router stands in for the router that comes with the small model, and each is used by its policy
// alone.
func TestDemoRouter(t *testing.T) {
	f := routingFlags{route: routeFlags{policy: "learned"}}
	own, err := f.route.router(demo.Router())
	require.NoError(t, err)
	require.NotNil(t, own.Net)
	margin := routeFlags{policy: "margin"}
	o, err := margin.router(demo.Router())
	require.NoError(t, err)
	assert.Nil(t, o.Net)
	file := filepath.Join(t.TempDir(), "other.gguf")
	other := bytes.Clone(demo.Router())
	other[len(other)/2] ^= 1 // of a weight
	require.NoError(t, os.WriteFile(file, other, 0o600))
	f.route.routerGGM = file
	given, err := f.route.router(demo.Router())
	require.NoError(t, err)
	require.NotNil(t, given.Net)
	assert.False(t, reflect.DeepEqual(own.Net, given.Net))
}

// TestSynthFlags: --shape and --type say what is written.
func TestSynthFlags(t *testing.T) {
	write := func(args ...string) *gguf.File {
		path := filepath.Join(t.TempDir(), "m.gguf")
		code, _, stderr := call(t, append([]string{"bench", "synth", path}, args...)...)
		require.Equal(t, exitDone, code, stderr)
		assert.Contains(t, stderr, "weights: 100% of")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		f, err := gguf.Parse(b)
		require.NoError(t, err)
		return f
	}
	for kind, want := range map[string]gguf.Type{"f16": gguf.F16, "q5_1": gguf.Q5_1} {
		f := write("--shape", "tiny", "--type", kind)
		width, err := f.Int("qwen2.embedding_length")
		require.NoError(t, err)
		assert.EqualValues(t, 256, width)
		gate, ok := f.Tensor("blk.0.ffn_gate.weight")
		require.True(t, ok)
		assert.Equal(t, want, gate.Type)
	}
	c := newBenchSynthCommand(&app{})
	for name, def := range map[string]string{"shape": "0.5b", "type": "q8_0", "seed": "1"} {
		assert.Equal(t, def, c.Flags().Lookup(name).DefValue)
	}
	file := filepath.Join(t.TempDir(), "absent", "m.gguf")
	code, _, stderr := call(t, "bench", "synth", "--shape", "tiny", file)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, file)
}

// TestDemoWorkload: the demo asks the first of the questions that neither model saw, and its dictionary is trained on
// whole chats of those that both did.
func TestDemoWorkload(t *testing.T) {
	held := demo.Questions(demo.HeldOut)
	for _, n := range []int{1, 3, len(held)} {
		all, err := (&routingFlags{questions: n}).demoQuestions()
		require.NoError(t, err)
		require.Len(t, all, n)
		for i, q := range all {
			assert.Equal(t, held[i].Text, q.Text)
			assert.Equal(t, task.Right, q.Grade(held[i].Answer))
			assert.Equal(t, task.Wrong, q.Grade("nothing of the kind"))
		}
	}
	e, err := embedded(demo.Small(), "demo/small.gguf")
	require.NoError(t, err)
	defer e.Close()
	tok, err := e.Tokenizer()
	require.NoError(t, err)
	texts, err := demoTexts(e)
	require.NoError(t, err)
	train := demo.Questions(demo.Train)
	require.Len(t, texts, len(train))
	for i, q := range train {
		text := "<|im_start|>user\n" + q.Text + "<|im_end|>\n<|im_start|>assistant\n" + q.Answer
		assert.Equal(t, tok.Encode(text, true), texts[i])
	}
	_, err = embedded([]byte("no model"), "demo/bad.gguf")
	assert.ErrorContains(t, err, "load demo/bad.gguf")
}

// TestReadQuestions: a workload of one's own is read as far as it is asked for, and what is wrong is named with its
// line.
func TestReadQuestions(t *testing.T) {
	read := func(content string, args ...string) ([]task.Question, error) {
		var f routingFlags
		c := new(cobra.Command)
		f.register(c, 0)
		require.NoError(t, c.ParseFlags(args))
		path := filepath.Join(t.TempDir(), "q.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return f.readQuestions(path)
	}
	const three = `{"question":"a","answer":"yes"}` + "\n" + `{"question":"b"}` + "\n" + `{"question":"c","answer":""}`
	all, err := read(three)
	require.NoError(t, err)
	require.Len(t, all, 3, "fewer than the default")
	assert.Equal(t, []string{"a", "b", "c"}, []string{all[0].Text, all[1].Text, all[2].Text})
	assert.Equal(t, task.Right, all[0].Grade("oh yes!"))
	assert.Equal(t, task.Wrong, all[0].Grade("no"))
	assert.Nil(t, all[1].Grade)
	assert.Nil(t, all[2].Grade)
	all, err = read(three+"\nthis is not read", "--questions", "3")
	require.NoError(t, err)
	assert.Len(t, all, 3)
	long, err := read(`{"question":"` + strings.Repeat("x", 900_000) + `"}`)
	require.NoError(t, err)
	assert.Len(t, long[0].Text, 900_000)
	for content, want := range map[string]string{
		"":                   "the file has no questions",
		three + "\n{}":       `line 4: the object has no "question"`,
		three + "\nnonsense": "line 4: ",
		`{"question":"a"}` + "\n" + strings.Repeat("x", 1<<20+1): "line 2 is longer than 1 MB",
	} {
		_, err := read(content)
		assert.ErrorContains(t, err, want)
	}
	_, err = read(three, "--questions", "4")
	assert.ErrorContains(t, err, "--questions 4 is too many: ")
	_, err = (&routingFlags{questions: 1}).readQuestions(t.TempDir())
	assert.ErrorContains(t, err, "is a directory")
}

// TestLiveRoute: the answer that is shown is decoded as those that are measured: in its mode and at the pace of the
// device.
func TestLiveRoute(t *testing.T) {
	o := routing.Options{EdgeTPS: 50, RowCost: 0.5,
		Draft: engine.DraftOptions{Branches: 9, Window: 5, Deadline: 7}}
	for name, want := range map[string]engine.DraftOptions{
		"serial":      {Mode: engine.Serial, Branches: 9, Window: 5, Deadline: 7},
		"pipelined-3": {Mode: engine.Pipelined, Branches: 3, Window: 5, Deadline: 7},
		"verified:2":  {Mode: engine.Pipelined, Branches: 9, Window: 5, Deadline: 7, Verify: true, Margin: 2},
	} {
		m, err := outcome.ParseMode(name)
		require.NoError(t, err)
		route := engine.Route{Settings: terms.Settings{MaxTokens: 64}, Pace: 50, RowCost: 0.5, Draft: want}
		assert.Equal(t, route, liveRoute(o, m))
	}
}
