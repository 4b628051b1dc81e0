package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

const root = "../.."

// TestPages: tables, figures and their provenance agree with the measurements in docs/results.
func TestPages(t *testing.T) {
	m, err := newPageContent(root)
	require.NoError(t, err)
	texts, figures := m.texts, m.figures
	used := ""
	for _, page := range pageFiles() {
		b, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		was := blockPattern().FindAllStringSubmatch(string(b), -1)
		want, err := fillBlocks(string(b), texts)
		require.NoError(t, err, page)
		now := blockPattern().FindAllStringSubmatch(want, -1)
		require.Len(t, now, len(was))
		for i := range was {
			assert.Equal(t, now[i][2], was[i][2], "%s: results:%s differs from docs/results: run make results", page,
				was[i][1])
			used += was[i][1] + " "
		}
	}
	for name := range texts {
		assert.Contains(t, used, name, "no page shows this block")
	}
	files, err := filepath.Glob(filepath.Join(root, kept, "*.svg"))
	require.NoError(t, err)
	assert.Len(t, files, len(figures))
	for name, want := range figures {
		have, err := os.ReadFile(filepath.Join(root, kept, name))
		require.NoError(t, err)
		assert.True(t, string(want) == string(have), "%s differs from docs/results: run make results", name)
	}
}

// TestKept: the measurements are small, contain no absolute path of the machine that made them, and name the revision
// of the sources. Their commands have placeholders that study.sh knows.
func TestKept(t *testing.T) {
	size := int64(0)
	for _, name := range measurementNames() {
		records, err := readMeasurement(root, name)
		require.NoError(t, err)
		require.NotEmpty(t, records, name)
		for _, r := range records {
			for flag, value := range r.Run.Flags {
				assert.False(t, filepath.IsAbs(value), "%s: --%s %s", name, flag, value)
			}
			assert.Regexp(t, `^pilotfish(-bench)? [^"\\/]+([ =]docs/results/[\w.-]+|[^"\\/])*$`, r.Run.Command)
			assert.Equal(t, records[0].Run.Command, r.Run.Command)
			assert.Regexp(t, `^[0-9a-f]{40}|^v`, r.Run.Version, "the revision of the sources")
		}
		info, err := os.Stat(keptFile(root, name))
		require.NoError(t, err)
		size += info.Size()
	}
	assert.Less(t, size, int64(600_000))
}

// TestRecorded: recorded answers are of a known revision and of the splits of this program, without paths of a machine.
func TestRecorded(t *testing.T) {
	all, err := readRecordedAnswers(root)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, group := range all {
		for _, l := range group {
			s := l.Settings
			assert.Regexp(t, `^[0-9a-f]{40}|^v`, l.About.Version)
			assert.Regexp(t, `^pilotfish(-bench)? eval `, l.About.Command)
			assert.NotRegexp(t, `[ =,]/`, l.About.Command, "a path of the machine")
			switch {
			case s.Split != "":
				split, err := task.FindSplit(s.Task, s.Split)
				require.NoError(t, err)
				assert.Equal(t, split.Hash(), s.Data)
			case s.Task != task.Demo: // questions of the checkout
				set, err := task.Open(filepath.Join(root, "bench/task", s.Task+".jsonl"), task.Options{})
				require.NoError(t, err)
				assert.Equal(t, set.Hash, s.Data)
				require.NoError(t, l.Check(t.Context(), set))
			}
		}
	}
	paths, err := filepath.Glob(filepath.Join(answersDir(root), "*"))
	require.NoError(t, err)
	size := int64(0)
	for _, path := range paths {
		info, err := os.Stat(path)
		require.NoError(t, err)
		size += info.Size()
	}
	assert.Less(t, size, int64(16<<20))
}

// TestAdoptAnswers: answers are checked and compressed; the same ones replace themselves, others get a name of their
// own; test questions need a program of a known revision, and answers that are not those of the questions are refused.
func TestAdoptAnswers(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(answersDir(root), "demo.jsonl.gz")
	l, err := eval.ReadLog(source)
	require.NoError(t, err)
	names := func() string {
		all, err := filepath.Glob(filepath.Join(answersDir(dir), "*"))
		require.NoError(t, err)
		for i := range all {
			all[i] = filepath.Base(all[i])
		}
		return strings.Join(all, " ")
	}
	changed := func(change func(*eval.Log)) string {
		one, err := eval.ReadLog(source)
		require.NoError(t, err)
		change(one)
		var b bytes.Buffer
		require.NoError(t, one.Write(&b))
		path := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
		return path
	}
	for range 2 {
		require.NoError(t, adoptAnswers(dir, source, ""))
		assert.Equal(t, "demo.jsonl.gz", names())
	}
	require.NoError(t, adoptAnswers(dir, changed(func(l *eval.Log) {
		l.About.Date, l.About.Command = "2026-01-01T00:00:00Z", "pilotfish eval demo --out=/home/me/x.jsonl -m a"
	}), ""))
	assert.Equal(t, "demo-2.jsonl.gz demo.jsonl.gz", names())
	again, err := eval.ReadLog(filepath.Join(answersDir(dir), "demo-2.jsonl.gz"))
	require.NoError(t, err)
	assert.Equal(t, "pilotfish eval demo --out=x.jsonl -m a", again.About.Command)
	assert.Equal(t, l.Answers(), again.Answers())
	all, err := readRecordedAnswers(dir)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, l.About, all[0][0].About, "the newest first")
	for want, change := range map[string]func(*eval.Log){
		"no file of questions for arc": func(l *eval.Log) { l.Settings.Task = "arc" },
		"demo has 400 questions":       func(l *eval.Log) { l.Settings.Questions = 401 },
		"their SHA-256 differs":        func(l *eval.Log) { l.Settings.Data = "x" },
	} {
		assert.ErrorContains(t, adoptAnswers(dir, changed(change), ""), want)
	}
	text, err := os.ReadFile(changed(func(*eval.Log) {}))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "log")
	wrong := strings.Replace(string(text), `"verdict":"wrong"`, `"verdict":"right"`, 1)
	require.NoError(t, os.WriteFile(path, []byte(wrong), 0o600))
	assert.ErrorContains(t, adoptAnswers(dir, path, ""), "the verdict is right, but the answer is wrong")
	assert.Equal(t, "demo-2.jsonl.gz demo.jsonl.gz", names())
}

// TestAdoptSplit: answers without a split get the one of their questions, and those to test questions need a revision.
// The ladders are those of test questions, then those of development questions; the list has all.
func TestAdoptSplit(t *testing.T) {
	data, dir := sharedtest.Shared(t, "data", "gsm8k/test.jsonl"), t.TempDir()
	adopt := func(id, version string) error {
		text := fmt.Sprintf(`{"settings":{"format":3,"task":"gsm8k","questions":3,"runs":["never"],"data":`+
			`"3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14"},"about":{"version":%q,`+
			`"date":"2026-11-29T10:00:00Z"}}`+"\n"+`{"question":%q,"run":"never","verdict":"silent","stop":"length",`+
			`"pieces":["5"],"origins":"e"}`+"\n", version, id)
		path := filepath.Join(dir, "log")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return adoptAnswers(dir, path, data)
	}
	ladders := func() (string, string) {
		m := &pageContent{texts: map[string]string{}, figures: map[string][]byte{}}
		require.NoError(t, m.addAnswerTables(dir))
		return m.texts["ladders"], m.texts["runs"]
	}
	table, list := ladders()
	assert.Empty(t, table+list)
	require.NoError(t, adoptAnswers(dir, filepath.Join(answersDir(root), "demo.jsonl.gz"), ""))
	table, _ = ladders()
	assert.Contains(t, table, "**demo**, 400 questions")
	require.NoError(t, adopt("150", "unknown"))
	table, _ = ladders()
	assert.NotContains(t, table, "demo")
	assert.Contains(t, table, "\n|small alone|0.0% (0.0–79.3)||0.0%|0.0%|0.0%|0/1|0.0|1|\n")
	assert.ErrorContains(t, adopt("151", "unknown"), `need a program of a known revision, not "unknown"`)
	require.NoError(t, adopt("151", strings.Repeat("a", 40)))
	table, list = ladders()
	assert.Regexp(t, `(?s)\*\*gsm8k test\*\*, 1 questions.*\*\*gsm8k development\*\*, 1 questions`, table)
	for _, line := range []string{"\n|29 November 2026|aaaaaaaaaaaa|gsm8k test|never|\n",
		"\n|29 November 2026|unknown|gsm8k development|never|\n", "|demo|never, verified 0,"} {
		assert.Contains(t, list, line)
	}
}

// TestAdoptFile: answers to a file of questions are compared with it, and named by it.
func TestAdoptFile(t *testing.T) {
	dir := t.TempDir()
	questions := filepath.Join(dir, "own.jsonl")
	require.NoError(t, os.WriteFile(questions, []byte(`{"question":"q","answer":"5|five","grader":"pattern"}`), 0o600))
	set, err := task.Open(questions, task.Options{})
	require.NoError(t, err)
	for verdict, want := range map[string]string{
		"right": "", "wrong": "the verdict is wrong, but the answer is right",
	} {
		text := fmt.Sprintf(`{"settings":{"format":3,"task":%q,"questions":1,"runs":["never","judge 0.8"],"data":%q},`+
			`"about":{"version":"v1","date":"2026-11-29T10:00:00Z"}}`+"\n"+`{"question":"1","run":"never",`+
			`"verdict":%q,"stop":"end","pieces":["Five"],"origins":"e"}`+"\n", questions, set.Hash, verdict)
		path := filepath.Join(dir, "log")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		if err := adoptAnswers(dir, path, ""); want != "" {
			assert.ErrorContains(t, err, want)
			continue
		}
		l, err := eval.ReadLog(filepath.Join(answersDir(dir), "own.jsonl.gz"))
		require.NoError(t, err)
		assert.Equal(t, "own", l.Settings.Task)
		assert.Equal(t, "", l.Settings.Split)
	}
}

// TestRungs: a ladder goes from the small model over falling margins and rising thresholds of the judge to the large.
func TestRungs(t *testing.T) {
	judge := func(threshold float64) eval.RunReport {
		return eval.RunReport{Policy: "judge", Threshold: &threshold}
	}
	dial := func(margin float64) eval.RunReport { return eval.RunReport{Policy: "never", Verify: &margin} }
	all := []eval.RunReport{{Policy: "never"}, {Policy: "margin"}, {Policy: "learned"}, dial(4), dial(0.5),
		judge(0.5), judge(0.9), dial(0), {Policy: "always"}, {Policy: eval.Oracle}}
	for i := range all[1:] {
		assert.Less(t, runOrder(&all[i]), runOrder(&all[i+1]), i)
	}
}

func TestFilled(t *testing.T) {
	blocks := map[string]string{"a": "new", "b": "x\ny\n"}
	text, err := fillBlocks("1 <!-- results:a -->old<!-- /results --> 2\n"+
		"<!-- results:b -->\nold\n\nold\n<!-- /results -->\nend", blocks)
	require.NoError(t, err)
	assert.Equal(t, "1 <!-- results:a -->new<!-- /results --> 2\n"+
		"<!-- results:b -->\nx\ny\n<!-- /results -->\nend", text)
	again, err := fillBlocks(text, blocks)
	require.NoError(t, err)
	assert.Equal(t, text, again)
	_, err = fillBlocks("<!-- results:c -->\n<!-- /results -->", blocks)
	assert.ErrorContains(t, err, `"c"`)
	_, err = fillBlocks("<!-- results:a -->\n", blocks)
	assert.ErrorContains(t, err, "lacks its")
	text, err = fillBlocks("no markers", blocks)
	require.NoError(t, err)
	assert.Equal(t, "no markers", text)
}

// adoptedStudy returns a checkout with pages and a study of the demo.
func adoptedStudy(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{kept, "docs/study", "study"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	run := record.Run{Measurement: "demo", Version: "v7.8.9", Command: "x",
		Flags:   map[string]string{"trace": "/home/me/x.csv", "rtt": "1s"},
		Machine: record.Machine{CPU: "a CPU", Cores: 3, Bandwidth: 12.4, Load: 0.25, Kernels: "avx2"}}
	var lines []byte
	for i, mode := range []string{"local", "cloud", "paper", "pipelined-4"} {
		r := outcome.Report{Mode: mode, Answers: 9, Accuracy: &stats.Accuracy{Value: 0.4 + 0.2*float64(i)},
			Time: result.Times{P50: float64(100 + i)}, Cell: &outcome.Cell{RTT: 70}}
		if i > 1 {
			r.Sums = draft.Summary{Tokens: 1000, Cloud: 31, Answered: 10, BytesUp: 604, BytesDown: 142,
				Wait: 10e6, Hidden: 5e6}
		}
		line, err := record.Line(r, run)
		require.NoError(t, err)
		lines = append(lines, line...)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "study/demo.jsonl"), lines, 0o600))
	for _, page := range pageFiles() {
		text := "<!-- results:demo-table -->\nx\n<!-- /results -->\n" +
			"<!-- results:demo-about -->\nx\n<!-- /results -->\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, page), []byte(text), 0o600))
	}
	require.NoError(t, adoptStudy(dir, filepath.Join(dir, "study")))
	return dir
}

// TestWrite: the pages contain the measurements and their provenance.
func TestWrite(t *testing.T) {
	dir := adoptedStudy(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, kept, "old.svg"), nil, 0o600))
	lines, err := os.ReadFile(keptFile(root, "rtt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(keptFile(dir, "rtt"), lines, 0o600))
	require.NoError(t, writePages(dir))
	for _, ending := range []string{"time-over-rtt", "cell2-waterfall-serial"} {
		name := filepath.Join(kept, "rtt-"+ending+".svg")
		want, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.True(t, string(want) == string(got), name)
	}
	b, err := os.ReadFile(filepath.Join(dir, "docs/study/results.md"))
	require.NoError(t, err)
	for _, want := range []string{
		"\n| local | 40.0% |  | 100 |  |  |  |  |\n",
		"\n| pipelined-4 | 100.0% | 3.1% | 103 | 50.0% | 0.0% | 60.4 | 14.2 |\n",
		"\n`x`, 1 January 0001, pilotfish v7.8.9; a CPU, 3 cores, kernels avx2, memory 12 GB/s; " +
			"load in the minute before: 0.2.\n",
	} {
		assert.Contains(t, string(b), want)
	}
	assert.NoFileExists(t, filepath.Join(dir, kept, "old.svg"), "no step makes it any more")
	b, err = os.ReadFile(filepath.Join(dir, "study/demo.jsonl"))
	require.NoError(t, err)
	b = []byte(strings.ReplaceAll(string(b), `"command":"x"`, `"command":"/home/me/x"`))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "study/demo.jsonl"), b, 0o600))
	require.NoError(t, adoptStudy(dir, filepath.Join(dir, "study")))
	records, err := readMeasurement(dir, "demo")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"trace": "x.csv", "rtt": "1s"}, records[0].Run.Flags)
	assert.Equal(t, "x", records[0].Run.Command, "with the names of the kept one")
}

func TestShortVersion(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	assert.Equal(t, "0123456789ab", shortVersion(revision))
	assert.Equal(t, "0123456789ab+dirty", shortVersion(revision+"+dirty"))
	assert.Equal(t, "v1.2.3", shortVersion("v1.2.3"))
	assert.Equal(t, "unknown", shortVersion("unknown"))
	assert.Equal(t, strings.Repeat("w", 119)+"\nww x", wrapText(strings.Repeat("w", 119)+"  ww\nx"))
}

// TestRun: the commands need a checkout.
func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	assert.ErrorContains(t, runCommand(nil), "no go.mod")
	require.NoError(t, os.WriteFile("go.mod", nil, 0o600))
	here, err := checkoutRoot()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll("kernels/cpu", 0o700))
	t.Chdir("kernels/cpu")
	above, err := checkoutRoot()
	require.NoError(t, err)
	assert.Equal(t, here, above)
	assert.ErrorContains(t, runCommand([]string{"study"}), "unknown command")
}

// TestHeadline: README's table has the runs of the judge beside both models alone, and its sentences have the figures
// of GSM8K and of the everyday questions that were held out.
func TestHeadline(t *testing.T) {
	read := func(task, split string, runs ...string) *answerSet {
		text := fmt.Sprintf(`{"settings":{"format":3,"task":%q,"split":%q,"questions":4,"runs":["%s"]},"about":{}}`,
			task, split, strings.Join(runs, `","`)) + "\n"
		for run, name := range runs {
			for i, id := range []string{"development-1", "held-out-1", "held-out-2", "held-out-3"} {
				verdict := "wrong"
				if i <= run { // each run has one right answer more
					verdict = "right"
				}
				chosen := `"origins":"ee"`
				pieces := `"a","b"`
				switch {
				case name == "always":
					chosen = `"origins":"cc","asks":2`
				case run == 1 && i == 2:
					chosen, pieces = `"origins":"ec","asks":1,"turned":1`, `"The answer is"," b"`
				case run == 1 && i > 2:
					chosen = `"origins":"ce","asks":1,"turned":1`
				}
				text += fmt.Sprintf(`{"question":%q,"run":%q,"verdict":%q,"stop":"end","pieces":[%s],%s}`+"\n",
					id, name, verdict, pieces, chosen)
			}
		}
		path := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		l, err := eval.ReadLog(path)
		require.NoError(t, err)
		made, err := newAnswerSet([]*eval.Log{l})
		require.NoError(t, err)
		return made
	}
	m := &pageContent{texts: map[string]string{}}
	m.addHeadline([]*answerSet{
		read("csqa", "test", "never", "verify 7%", "always"), read("arc", "test", "never", "judge 0.8"),
		read("gsm8k", "test", "never", "judge 0.9", "never verified 0"),
		read("mbpp", "test", "never", "judge 0.9", "judge 5%", "always"),
		read("everyday", "", "never", "judge 1", "always"),
	})
	assert.Equal(t, "|---|---|---|---|---|---|\n| gsm8k test, 4 | 25.0% (4.6–69.9) | 75.0% (30.1–95.4) | "+
		"0.9: 50.0% (15.0–85.0) | 25.0% | 0.50 (0.00–1.00) |\n| mbpp test, 4 | 25.0% (4.6–69.9) | "+
		"100.0% (51.0–100.0) | 5%: 75.0% (30.1–95.4) | 0.0% | 0.67 (0.00–1.00) |\n",
		strings.SplitAfterN(m.texts["headline-table"], "\n", 2)[1])
	flat := func(name string) string { return strings.ReplaceAll(m.texts[name], "\n", " ") }
	assert.Equal(t, "On 4 test questions of GSM8K, Qwen2.5-Coder-0.5B alone answers 25.0% correctly and the 1.5B "+
		"alone 75.0%; with 25.0% of its tokens from the 1.5B, the 0.5B answers 50.0% correctly.", flat("headline"))
	all := []*answerSet{
		read("csqa", "test", "never", "judge 5%", "always"), read("arc", "development", "never", "rule"),
	}
	assert.Equal(t, "Of the tokens that the judge replaces, those after words like \"The answer is\": 1 of 2 in csqa. "+
		"A rule that asks for just these tokens, and that nothing was trained for, has 50.0% of arc development right "+
		"with 25.0% of the tokens.", conclusionsText(all)+ruleText(all))
	assert.Empty(t, ruleText(all[:1]))
	require.NoError(t, m.addEveryday(read("everyday", "", "never", "verify 7%", "always")))
	assert.Equal(t, "Of 3 such everyday questions, on which nothing was tuned, the 0.5B alone has 0 right and the "+
		"1.5B 2; together they have 1, with 33.3% of the tokens from the 1.5B", flat("everyday"))
	assert.ErrorContains(t, m.addEveryday(read("everyday", "", "never", "always")), "lack a run")
}

// TestTimes: the gain in time and in the server's work over 100 ms: reading 4 ms a token, and 40 ms for each of its
// own.
func TestTimes(t *testing.T) {
	line := func(mode string, rtt float64, prefilled, decoded int, mean, p50 float64) string {
		b, err := record.Line(outcome.Report{
			Mode: mode, Answers: 9, Cell: &outcome.Cell{RTT: rtt, ModelMS: 40, EdgeTPS: 60},
			Time: result.Times{Mean: mean, P50: p50},
			Sums: draft.Summary{Prefilled: 9 * prefilled, Decoded: 9 * decoded}}, record.Run{Measurement: "x"})
		require.NoError(t, err)
		return string(b)
	}
	m := &pageContent{texts: map[string]string{}}
	measure := func(text string) error {
		records, err := result.Read(strings.NewReader(text), "lines")
		require.NoError(t, err)
		return m.addTimes(records)
	}
	cloud := line("cloud", 100, 50, 300, 100+200+12000, 12400)
	assert.ErrorContains(t, measure(cloud+line("judged:0.9", 50, 350, 50, 7000, 6000)), "was not measured")
	require.NoError(t, measure(line("cloud", 50, 1, 1, 1, 1)+cloud+line("judged:0.9", 100, 350, 50, 7000, 6000)))
	assert.Equal(t, "Over a link of 100 ms an answer to GSM8K takes 6.0 s with the judge, where streaming the 1.5B "+
		"takes 12.4 (median of 9 questions, at 60 tokens/s on the device and 25 on the server). The server reads all "+
		"tokens, computes 50 for an answer in place of 300, and is busy for 3.4 s in place of 12.2, so it is enough "+
		"for 3.6 times as many devices.",
		strings.ReplaceAll(m.texts["real-times-line"], "\n", " "))
}
