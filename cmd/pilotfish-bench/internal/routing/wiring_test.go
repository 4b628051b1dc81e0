package routing

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// allOptions are what the flags of a measurement set.
type allOptions struct {
	routing.Options
	Stage     remote.StageOptions
	Questions int
	JSON      bool
}

const ms = time.Millisecond

func modesOf(t *testing.T, names string) []outcome.Mode {
	t.Helper()
	all, err := parseModes(names)
	require.NoError(t, err)
	return all
}

// linkLines has lines of flags of the measurement, its link and its paces, and what each changes.
func linkLines(t *testing.T, up string) map[string]func(*allOptions) {
	return map[string]func(*allOptions){
		"--modes serial,local": func(o *allOptions) { o.Modes = modesOf(t, "serial,local") },
		"--modes=pipelined-64": func(o *allOptions) { o.Modes = modesOf(t, "pipelined-64") },
		"--questions 3":        func(o *allOptions) { o.Questions = 3 },
		"--rtt 7ms":            func(o *allOptions) { o.RTT, o.Stage.RTT = 7*ms, 7*ms },
		"--rtt 10s":            func(o *allOptions) { o.RTT, o.Stage.RTT = 10*time.Second, 10*time.Second },
		"--loss 0.25":          func(o *allOptions) { o.Loss, o.Stage.Loss = 0.25, 0.25 },
		"--loss 0.5 --seed 9":  func(o *allOptions) { o.Loss, o.Stage.Loss, o.Stage.Seed = 0.5, 0.5, 9 },
		"--trace UP": func(o *allOptions) {
			o.Traces, o.Stage.Traces = []string{up}, []string{up}
		},
		"--repeat 7":            func(o *allOptions) { o.Repeat = 7 },
		"--raw":                 func(o *allOptions) { o.Raw = true },
		"--max-tokens 9":        func(o *allOptions) { o.MaxTokens = 9 },
		"--modes serial,serial": func(o *allOptions) { o.Modes = modesOf(t, "serial,serial") },
		"--cloud-ms 2.5":        func(o *allOptions) { o.CloudPace, o.Stage.AnswerTime = 5*ms/2, 5*ms/2 },
		"--cloud-ms 0":          func(o *allOptions) { o.CloudPace, o.Stage.AnswerTime = 0, 0 },
		"--edge-tps 50":         func(o *allOptions) { o.EdgeTPS = 50 },
		"--edge-tps 0":          func(o *allOptions) { o.EdgeTPS = 0 },
		"--parallel 64":         func(o *allOptions) { o.Parallel = 64 },
		"--json":                func(o *allOptions) { o.JSON = true },
		"--modes verified:0.5,speculative-4": func(o *allOptions) {
			o.Modes = modesOf(t, "verified:0.5,speculative-4")
		},
		"--modes pipelined-auto":       func(o *allOptions) { o.Modes = modesOf(t, "pipelined-auto") },
		"--edge-row-cost 0.3":          func(o *allOptions) { o.RowCost = 0.3 },
		"--edge-tps 0.1 --modes local": func(o *allOptions) { o.EdgeTPS, o.Modes = 0.1, modesOf(t, "local") },
		"--cloud-ms 60000 --modes cloud": func(o *allOptions) {
			o.CloudPace, o.Stage.AnswerTime, o.Modes = time.Minute, time.Minute, modesOf(t, "cloud")
		},
	}
}

// engineLines has lines of flags of the drafts and of the router, and what each changes.
func engineLines(t *testing.T, learned *router.Net) map[string]func(*allOptions) {
	return map[string]func(*allOptions){
		"--window 5":       func(o *allOptions) { o.Draft.Window = 5 },
		"--inflight 7":     func(o *allOptions) { o.Draft.InFlight = 7 },
		"--deadline 2s":    func(o *allOptions) { o.Draft.Deadline = 2 * time.Second },
		"--deadline off":   func(o *allOptions) { o.Draft.Deadline = -1 },
		"--deadline 0":     func(o *allOptions) { o.Draft.Deadline = -1 },
		"--lookup auto":    func(o *allOptions) { o.Draft.Lookup = 0 },
		"--lookup off":     func(*allOptions) {},
		"--lookup 2":       func(o *allOptions) { o.Draft.Lookup = 2 },
		"--branches 3":     func(o *allOptions) { o.Draft.Branches = 3 },
		"--ahead 8":        func(o *allOptions) { o.Draft.Ahead = 8 },
		"--verify-every 5": func(o *allOptions) { o.Draft.VerifyEvery = 5 },
		"--no-audit":       func(o *allOptions) { o.Draft.Audit = false },
		"--no-warm":        func(o *allOptions) { o.Draft.Warm = -1 },
		"--policy entropy": func(o *allOptions) { o.Router.Policy = router.Entropy },
		"--threshold 0.25": func(o *allOptions) { o.Router.Threshold = new(0.25) },
		"--threshold 0":    func(o *allOptions) { o.Router.Threshold = new(0.0) },
		"--budget 0.07":    func(o *allOptions) { o.Router.Budget = 0.07 },
		"--policy learned --router NET": func(o *allOptions) {
			o.Router.Policy, o.Router.Net = router.Learned, learned
		},
		"--router NET": func(o *allOptions) {
			o.Router.Policy, o.Router.Net = router.Learned, learned
		},
		"--policy random --budget 1": func(o *allOptions) { o.Router.Policy, o.Router.Budget = router.Random, 1 },
		"--modes paper --deadline 1h": func(o *allOptions) {
			o.Modes, o.Draft.Deadline = modesOf(t, "paper"), time.Hour
		},
	}
}

// TestRoutingOptions: each flag sets its own option, and no other.
func TestRoutingOptions(t *testing.T) {
	dir := t.TempDir()
	up, file := filepath.Join(dir, "a.up"), filepath.Join(dir, "net.gguf")
	require.NoError(t, os.WriteFile(up, []byte("1\n2\n"), 0o600))
	require.NoError(t, os.WriteFile(file, demo.Router(), 0o600))
	shipped, err := group.ParseRouter(demo.Router())
	require.NoError(t, err)
	net, learned := shipped.Net, new(router.Net)
	var flags *pflag.FlagSet
	parse := func(args string) allOptions {
		var f routingFlags
		c := new(cobra.Command)
		f.registerFlags(c)
		f.registerSweepFlags(c)
		flags = c.Flags()
		require.NoError(t, c.ParseFlags(strings.Fields(strings.NewReplacer("UP", up, "NET", file).Replace(args))), args)
		o, s, err := f.routingOptions(demo.Router())
		require.NoError(t, err, args)
		if o.Router.Net != nil && reflect.DeepEqual(o.Router.Net, net) {
			o.Router.Net = learned // to print less
		}
		return allOptions{o, s, f.questions, f.json}
	}
	usual := allOptions{
		Options: routing.Options{
			Modes:  modesOf(t, "local,cloud,paper,serial,pipelined-2,pipelined-4,verified"),
			Router: router.Options{Policy: router.Margin},
			Draft: engine.DraftOptions{Branches: engine.AutoBranches, Window: 32, InFlight: 4,
				Audit: true, Lookup: -1},
			RTT: 100 * ms, CloudPace: 15 * ms, Parallel: 8, Repeat: 1, WarmUp: 1,
		},
		Stage:     remote.StageOptions{RTT: 100 * ms, AnswerTime: 15 * ms},
		Questions: 100,
	}
	assert.Equal(t, usual, parse(""))
	lines := linkLines(t, up)
	maps.Copy(lines, engineLines(t, learned))
	for args, change := range lines {
		want := usual
		change(&want)
		assert.Equal(t, want, parse(args), args)
	}
	clitest.Covers(t, flags, slices.Collect(maps.Keys(lines)), "timeline")
}

// TestNumbersOfDrafting: each value of a flag is what it says and is printed in a form that the flag accepts again; a
// refused one changes nothing.
func TestNumbersOfDrafting(t *testing.T) {
	for kind, c := range map[string]struct {
		want    map[string]int
		refused []string
	}{
		"auto|N":     {map[string]int{"auto": -9, "1": 1, "65": 65}, []string{"0", "-9", "1.5", "off", "", "1048577"}},
		"auto|off|N": {map[string]int{"auto": 0, "off": -1, "2": 2, "8": 8}, []string{"1", "9", "0", "-1", "on", ""}},
	} {
		t.Run(kind, func(t *testing.T) {
			n := 5
			v := newLookupNumber(&n)
			if kind == "auto|N" {
				v = newAutoNumber(&n, -9)
			}
			assert.Equal(t, kind, v.Type())
			for text, want := range c.want {
				require.NoError(t, v.Set(text), text)
				for _, wrong := range c.refused {
					assert.ErrorContains(t, v.Set(wrong), "give auto", wrong)
				}
				assert.Equal(t, want, n, "not changed by what is refused")
				assert.Equal(t, text, v.String())
			}
		})
	}
}

// TestCertifiedThreshold: without a threshold and without a budget a router is used at the threshold of its
// certificate, and models of the user ask for at most 7% of the tokens.
func TestCertifiedThreshold(t *testing.T) {
	certified := "--router " + clitest.CertifiedRouter(t, nil)
	for _, c := range []struct {
		name, args string
		own        []byte
		threshold  *float64
		budget     float64
		reported   string
	}{
		{"certified", certified, nil, new(0.625), 0, "0.625 0"},
		{"another threshold", certified + " --threshold 0.25", nil, new(0.25), 0, "0.25 0"},
		{"a budget instead", certified + " --budget 0.2", nil, nil, 0.2, "0 0.2"},
		{"models of the user", "", nil, nil, 0.07, "0 0.07"},
		{"without a router", "--policy always", nil, nil, 0, "0 0"},
		{"models of the demo", "", demo.Router(), nil, 0, "0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, command := new(routingFlags), new(cobra.Command)
			f.registerFlags(command)
			require.NoError(t, command.ParseFlags(strings.Fields(c.args)))
			o, _, err := f.routingOptions(c.own)
			require.NoError(t, err)
			assert.Equal(t, c.threshold, o.Router.Threshold)
			assert.Equal(t, c.budget, o.Router.Budget)
			assert.Equal(t, c.reported, f.flags.Lookup("threshold").Value.String()+" "+
				f.flags.Lookup("budget").Value.String())
		})
	}
}

// TestDemoRouter: --router replaces the router of the small model, and each is used only by its policy.
func TestDemoRouter(t *testing.T) {
	f := routingFlags{route: group.RouteFlags{Policy: "learned"}}
	own, err := f.route.Router(demo.Router())
	require.NoError(t, err)
	require.NotNil(t, own.Net)
	margin := group.RouteFlags{Policy: "margin"}
	o, err := margin.Router(demo.Router())
	require.NoError(t, err)
	assert.Nil(t, o.Net)
	file := filepath.Join(t.TempDir(), "other.gguf")
	other := bytes.Clone(demo.Router())
	other[len(other)/2] ^= 1 // of a weight
	require.NoError(t, os.WriteFile(file, other, 0o600))
	f.route.RouterFile = file
	given, err := f.route.Router(demo.Router())
	require.NoError(t, err)
	require.NotNil(t, given.Net)
	assert.False(t, reflect.DeepEqual(own.Net, given.Net))
}

// TestDemoWorkload: the demo asks the first held-out questions, and its dictionary is trained on complete chats of the
// training questions.
func TestDemoWorkload(t *testing.T) {
	held := demo.Questions(demo.HeldOut)
	for _, n := range []int{1, 3, len(held)} {
		all := (&routingFlags{questions: n, flags: new(pflag.FlagSet)}).demoQuestions(&cli.App{})
		require.Len(t, all, n)
		for i, q := range all {
			assert.Equal(t, held[i].Text, q.Text)
			assert.Equal(t, task.Right, q.Grade(held[i].Answer))
			assert.Equal(t, task.Wrong, q.Grade("nothing of the kind"))
		}
	}
	e, err := group.Embedded(demo.Small(), "demo/small.gguf")
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
	_, err = group.Embedded([]byte("no model"), "demo/bad.gguf")
	assert.ErrorContains(t, err, "load demo/bad.gguf")
}

// TestReadQuestions: the first questions of a file are asked, as many as requested, and errors name the line.
func TestReadQuestions(t *testing.T) {
	read := func(content string, args ...string) ([]task.Question, error) {
		var f routingFlags
		c := new(cobra.Command)
		f.registerFlags(c)
		require.NoError(t, c.ParseFlags(args))
		path := filepath.Join(t.TempDir(), "q.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return f.readQuestions(&cli.App{Stderr: io.Discard}, path)
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
	all, err = read(three, "--questions", "2")
	require.NoError(t, err)
	assert.Len(t, all, 2)
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
	all, err = read(three, "--questions", "4")
	require.NoError(t, err)
	assert.Len(t, all, 3)
	_, err = (&routingFlags{questions: 1}).readQuestions(&cli.App{}, t.TempDir())
	assert.ErrorContains(t, err, "is a directory")
}
