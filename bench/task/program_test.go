package task

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// double returns a problem with a header and a function before it.
func double() problem {
	return problem{entry: "double", before: "import math\n\n", tests: "T",
		header: "def double(x: int) -> int:\n    \"\"\" Twice x.\n    >>> double(2)\n    4\n    \"\"\"\n"}
}

// TestProgram: the program in an answer, for typical answers of models.
func TestProgram(t *testing.T) {
	const whole = "def double(x):\n    return 2 * x"
	block := func(language, code string) string { return "```" + language + "\n" + code + "\n```" }
	p := double()
	for answer, want := range map[string]string{
		// blocks
		block("python", whole):                          whole,
		block("", whole):                                whole,
		block("Python", whole):                          whole,
		block("py", whole) + "\n":                       whole,
		block("python3", whole):                         whole,
		block("PY3", whole):                             whole,
		block("", "x") + "\n" + block("python3", whole): whole,
		"Here is the function:\n\n" + block("python", whole) + "\n\nIt doubles `x`.": whole,
		"~~~python\n" + whole + "\n~~~":                                              whole,
		"````python\n" + whole + "\n````":                                            whole,
		// a fence that is as long or longer closes a block, and neither a shorter one nor one of the other kind does
		"```python\nTWO = 2\n````\n" + block("python", whole):                       "TWO = 2\n" + whole,
		"````python\nA = '''\n```\n'''\n" + whole + "\n````":                        "A = '''\n```\n'''\n" + whole,
		"~~~python\nA = '''\n```\n'''\n" + whole + "\n~~~":                          "A = '''\n```\n'''\n" + whole,
		"1. First:\n   ```python\n   def double(x):\n       return 2 * x\n   ```\n": whole,
		"- ```python\n  def double(x):\n      return 2 * x\n  ```":                  whole,
		"```python\r\ndef double(x):\r\n    return 2 * x\r\n```\r\n":                whole,
		"```python title=\"a.py\"\n" + whole + "\n```":                              whole,
		// truncated
		"```python\n" + whole:                                             whole,
		"Sure!\n```python\ndef double(x):\n    return 2 *":                "def double(x):\n    return 2 *",
		block("python", whole) + "\n\nThe function ret":                   whole,
		block("python", whole) + "\n\nFor example:\n```python\nprint(dou": whole,
		"```python": "", "```python\n": "", "``": "",
		// several blocks
		block("python", whole) + "\nTest it:\n" + block("python", "print(double(2))"):            whole,
		block("python", whole) + "\nOutput:\n" + block("", "4"):                                  whole,
		block("bash", "pip install x") + "\n" + block("python", whole):                           whole,
		block("bash", "pip install x") + "\n" + block("", whole):                                 whole,
		block("python", "def double(x):\n    return x") + "\nBetter:\n" + block("python", whole): whole,
		block("python", "import cmath\nTWO = 2") + "\n" + block("python", whole): "import cmath\nTWO = 2\n" +
			whole,
		block("python", "def two():\n    return 2") + "\n" + block("python", whole): "def two():\n    return 2\n" +
			whole,
		block("python", "double(2)\nx = 1") + "\n" + block("python", whole): whole,
		block("python", "def twice(x):\n    return 2 * x"):                  "def twice(x):\n    return 2 * x",
		block("text", "4") + "\nNo.":                                        "",
		block("javascript", "function double(x) { return 2 * x }"):          "",
		// without blocks
		whole:                          whole,
		"\n\n" + whole + "\n":          whole + "\n",
		whole + "\n\nThis doubles it.": whole + "\n\n",
		"Here it is:\n" + whole + "\n\nExplanation: it doubles.": whole + "\n\n",
		whole + "\n\nNote (see above): fine.\ndef x(): pass":     whole + "\n\n",
		"import math\n\n" + whole + "\n\nprint(double(2))\n":     "import math\n\n" + whole + "\n\nprint(double(2))\n",
		"MAX = 3\n" + whole: "MAX = 3\n" + whole,
		"@cache\n" + whole + "\nassert double(2) == 4\nDone.": "@cache\n" + whole + "\nassert double(2) == 4\n",
		"    def double(x):\n        return 2 * x":            whole,
		whole + "\n\n\"\"\"\nAnother task\n\"\"\"\ndef g(":    whole + "\n\n",
		"double = lambda x: 2 * x\ndef g(): pass":             "double = lambda x: 2 * x\ndef g(): pass",
		"def double(x):\n    \"\"\"Twice\nthe value\n    \"\"\"\n    return 2 * x\nDone.": "def double(x):\n" +
			"    \"\"\"Twice\nthe value\n    \"\"\"\n    return 2 * x\n",
		block("python", "import os\nreturn 2 * x"): "import os\nreturn 2 * x",
		// only the body of the function
		"    return 2 * x": p.header + "    return 2 * x",
		"    y = 2\n\n    return y * x\n\n\ndef triple(x):\n    return": p.header +
			"    y = 2\n\n    return y * x\n\n\n",
		"\n    return 2 * x\n\nprint(double(1))": p.header + "\n    return 2 * x\n\n",
		"    return (2 *\nx)":                    p.header + "    return (2 *\n",
		"    return (2 * x\n)\nNo.":              p.header + "    return (2 * x\n)\n",
		"    '''\nx\n'''\n    return 2":          p.header + "    '''\nx\n'''\n    return 2",
		block("python", "    return 2 * x"):      p.header + "    return 2 * x",
		block("python", "y = 2\nreturn y * x"):   p.header + "    y = 2\n    return y * x",
		"return 2 * x":                           p.header + "    return 2 * x",
		"    def two():\n        return 2\n    return two() * x": p.header +
			"    def two():\n        return 2\n    return two() * x",
		// no program
		"": "", " \n": "", "I cannot do that.": "", "The answer is 4.": "", "x = 2 * 2\nx is 4": "",
	} {
		assert.Equal(t, want, p.extractProgram(answer), "%q", answer)
	}
	p.header = ""
	assert.Empty(t, p.extractProgram("    return 2 * x"), "without a header there is nothing to complete")
	assert.Equal(t, "class A:\n    pass", p.extractProgram("Text\nclass A:\n    pass"))
	p.entry = ""
	both := block("python", "print(1)") + "\n" + block("python", "def g(): pass")
	assert.Equal(t, "def g(): pass", p.extractProgram(both))
}

// FuzzProgram: reading any answer does not panic, the program consists of lines of the answer, and the last block
// decides.
func FuzzProgram(f *testing.F) {
	for _, s := range []string{"```\n", "~~~py\nx", "def double(x):", "    return", "\xff", "'''\n", "@a\n", "- ```"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		p := double()
		got := strings.TrimPrefix(p.extractProgram(answer), p.header)
		for line := range strings.Lines(got) {
			assert.Contains(t, strings.ReplaceAll(answer, "\r\n", "\n"), strings.TrimSpace(line))
		}
		const last = "def double(x):\n    return 2"
		closed := strings.NewReplacer("`", "'", "~", "-").Replace(answer)
		assert.True(t, strings.HasSuffix(p.extractProgram(closed+"\n```python\n"+last+"\n```"), last))
	})
}

// humanEvalLine and mbppLine return problems in the formats of the published files.
func humanEvalLine(id string) string {
	return fmt.Sprintf(`{"task_id":%q,"prompt":"from typing import List\n\n\ndef first(x: List[int]) -> int:\n    `+
		`\"\"\" The first.\n    \"\"\"\n","entry_point":"first","canonical_solution":"    return x[0]\n",`+
		`"test":"def check(candidate):\n    assert candidate([3, 4]) == 3\n"}`, id)
}

func mbppLine(id int) string {
	return fmt.Sprintf(`{"text":"Write a function to add %[1]d.","code":"def help(x):\r\n  return x\r\n`+
		`def add(x):\r\n  return help(x) + %[1]d ","task_id":%[1]d,"test_setup_code":"one = 1",`+
		`"test_list":["assert add(one) == %[2]d",`+
		`"assert add(2) == %[3]d"],"challenge_test_list":[]}`, id, id+1, id+2)
}

// ran records the arguments of a runner.
type ran struct {
	program []string
	tests   string
	times   int
	passed  bool
	err     error
}

func (r *ran) run(_ context.Context, program []string, tests string) (bool, error) {
	r.program, r.tests, r.times = program, tests, r.times+1
	return r.passed, r.err
}

// TestHumanEval: a problem is asked as a chat and as a text; its program runs after the text before the function.
func TestHumanEval(t *testing.T) {
	path := written(t, humanEvalLine("HumanEval/0"))
	none := mustOpen(t, HumanEval, Options{Data: path})
	assert.Nil(t, none.Questions[0].Grade, "no grades without a runner")
	r := &ran{passed: true}
	s := mustOpen(t, HumanEval, Options{Data: path, Run: r.run})
	assert.Equal(t, 640, s.Tokens)
	q := s.Questions[0]
	assert.Equal(t, "HumanEval/0", q.ID)
	assert.Zero(t, q.Guess)
	assert.Contains(t, q.Text, "```python\nfrom typing import List\n\n\ndef first(")
	assert.True(t, strings.HasSuffix(s.Raw(q), "The first.\n    \"\"\"\n"))
	assert.True(t, strings.HasPrefix(s.Raw(q), "from typing"))
	assert.Equal(t, Silent, q.Grade("no"))
	assert.Equal(t, Wrong, q.Grade(q.Reference), "the body alone is wrong")
	for _, answer := range []string{q.Reference, s.Follow(q.RawReference)} {
		v, err := q.Judge(t.Context(), answer, false)
		require.NoError(t, err)
		assert.Equal(t, Right, v)
		require.Len(t, r.program, 2)
		assert.Equal(t, "from typing import List\n\n\n", r.program[0])
		assert.Contains(t, r.program[1], "def first(x: List[int])")
		assert.Contains(t, r.program[1], "    return x[0]")
		assert.Equal(t, "def check(candidate):\n    assert candidate([3, 4]) == 3\n\ncheck(first)\n", r.tests)
	}
}

// TestJudge: a program runs once for equal answers, an error is not a verdict, and an answer without a program is
// silent.
func TestJudge(t *testing.T) {
	r := &ran{err: errors.New("no")}
	s := mustOpen(t, MBPP, Options{Data: written(t, mbppLine(11)), Run: r.run})
	q := s.Questions[0]
	judge := func(answer string) (Verdict, error) { return q.Judge(t.Context(), answer, false) }
	_, err := judge("def add(x): return 1")
	assert.Equal(t, r.err, err)
	r.err = nil
	for range 2 {
		v, err := judge("def add(x): return 1")
		require.NoError(t, err)
		assert.Equal(t, Wrong, v)
	}
	assert.Equal(t, 2, r.times, "once after the error")
	r.passed = true
	v, err := judge("def add(x): return 2")
	require.NoError(t, err)
	assert.Equal(t, Right, v)
	assert.Equal(t, 3, r.times)
	v, err = judge("I do not know.")
	require.NoError(t, err)
	assert.Equal(t, Silent, v)
	assert.Equal(t, 3, r.times)

	other := Question{Grade: containsGrader("42")}
	v, err = other.Judge(t.Context(), "It is 42.", false)
	require.NoError(t, err)
	assert.Equal(t, Right, v)
}

// TestJudgeCut: an answer that a limit ended is graded only if its conclusion is complete.
func TestJudgeCut(t *testing.T) {
	r := &ran{passed: true}
	q := mustOpen(t, MBPP, Options{Data: written(t, mbppLine(11)), Run: r.run}).Questions[0]
	const whole = "def add(x):\n    return x"
	text := mustOpen(t, written(t, `{"question":"q","answer":"42"}`), Options{}).Questions[0]
	plain := mustOpen(t, written(t, `{"question":"q","answer":"42","grader":"exact"}`), Options{}).Questions[0]
	for _, c := range []struct {
		q      *Question
		answer string
		want   Verdict
	}{
		{&q, fencedBlock(whole) + "\nThe func", Right}, {&q, whole + "\n\nThe func", Right}, {&q, whole, Silent},
		{&q, "```python\n" + whole, Silent}, {&q, fencedBlock(whole) + "\nOr:\n```python\n" + whole, Silent},
		{&q, fencedBlock(whole) + "\nUse it:\n```python\nadd(", Right}, {&q, "I think", Silent},
		{&text, "It is 42 or", Right}, {&text, "It is 4", Silent}, {&plain, "42", Silent},
	} {
		v, err := c.q.Judge(t.Context(), c.answer, true)
		require.NoError(t, err)
		assert.Equal(t, c.want, v, c.answer)
	}
	r.passed = false
	v, err := q.Judge(t.Context(), fencedBlock("def add(x): return 0")+"\nThe", true)
	require.NoError(t, err)
	assert.Equal(t, Wrong, v)
}

// TestRight: a set judges an answer without what follows from the next question on, and an error is not a verdict.
func TestRight(t *testing.T) {
	s := newBenchmarkSet(GSM8K, nil)
	q := Question{Grade: JudgeBy(func(answer string) bool { return answer == "The answer is 3." })}
	for answer, want := range map[string]bool{"The answer is 3.": true, "The answer is 3.\nQuestion: and?": true,
		"The answer is 4.": false, "": false} {
		got, err := s.Right(t.Context(), &q, answer, false)
		require.NoError(t, err)
		assert.Equal(t, want, got, answer)
	}
	r := &ran{passed: true}
	q.Run = func(ctx context.Context, answer string) (bool, error) { return r.run(ctx, nil, answer) }
	for _, r.err = range []error{nil, errors.New("no")} {
		got, err := s.Right(t.Context(), &q, "wrong\nQuestion: and?", false)
		assert.Equal(t, r.err, err)
		assert.Equal(t, err == nil, got)
		assert.Equal(t, "wrong", r.tests)
	}
}

// TestMBPP: the splits of the file depend on the numbers of problems, and the first ten are worked examples.
func TestMBPP(t *testing.T) {
	var lines []string
	for id := range 974 {
		lines = append(lines, mbppLine(id+1))
	}
	path := written(t, lines...)
	r := &ran{passed: true}
	for name, want := range map[string][3]int{MBPP: {500, 11, 510}, MBPPTrain: {374, 601, 974}} {
		s := mustOpen(t, name, Options{Data: path, Shots: 3, Run: r.run})
		assert.Equal(t, name, s.Name)
		require.Len(t, s.Shots, 3)
		require.Len(t, s.Questions, want[0])
		assert.Equal(t, fmt.Sprintf("MBPP/%d", want[1]), s.Questions[0].ID)
		assert.Equal(t, fmt.Sprintf("MBPP/%d", want[2]), s.Questions[want[0]-1].ID)
		q := s.Questions[0]
		asserts := fmt.Sprintf("assert add(one) == %d\nassert add(2) == %d\n", want[1]+1, want[1]+2)
		assert.Contains(t, q.Text, "```python\n"+asserts+"```")
		raw := s.Raw(q)
		assert.Equal(t, 3, strings.Count(raw, "def add(x):"))
		assert.True(t, strings.HasPrefix(raw, "\"\"\"\nWrite a function to add 1."))
		assert.Equal(t, q.RawReference, q.Key+"\n")
		assert.True(t, strings.HasSuffix(raw, fmt.Sprintf("assert add(2) == %d\n\"\"\"\n", want[1]+2)))
		assert.NotContains(t, raw, "\r")
		v, err := q.Judge(t.Context(), s.Follow(q.RawReference), false)
		require.NoError(t, err)
		assert.Equal(t, Right, v)
		assert.Equal(t, []string{"", q.RawReference}, r.program)
		assert.Equal(t, "one = 1\n"+asserts, r.tests)
		_, err = q.Judge(t.Context(), fencedBlock("def add(x): return x")+"\n"+fencedBlock("def main(): add(1)"), false)
		require.NoError(t, err)
		assert.Equal(t, []string{"", "def add(x): return x"}, r.program, "the function that the tests call")
		none := mustOpen(t, name, Options{Data: path, Most: 2})
		assert.Empty(t, none.Shots)
		assert.Equal(t, s.Hash, none.Hash)
	}
	_, err := Open(MBPP, Options{Data: written(t, mbppLine(600))})
	assert.ErrorContains(t, err, "the file has no questions of mbpp, which are chosen by task_id")
	_, err = Open(MBPP, Options{Data: written(t, mbppLine(1), mbppLine(11)), Shots: 2})
	assert.ErrorContains(t, err, "mbpp has 1 worked examples, not 2")
}

// TestProgramLinesRefused: each error names the line and the field.
func TestProgramLinesRefused(t *testing.T) {
	for line, want := range map[string]string{
		`{"task_id":""}`: `the object has no "task_id"`,
		strings.Replace(humanEvalLine("a"), `"first"`, `"other"`, 1): `not define the "entry_point" "other"`,
		strings.Replace(humanEvalLine("a"), "check", "test", 1):      `the "test" does not define check`,
		"[]": "line 1: json: ",
	} {
		_, err := Open(HumanEval, Options{Data: written(t, line)})
		assert.ErrorContains(t, err, want, line)
		assert.ErrorContains(t, err, "line 1: ")
	}
	for line, want := range map[string]string{
		`{"text":"x","test_list":["assert 1"]}`: `the object has no "task_id"`,
		`{"task_id":11,"test_list":["x"]}`:      `the object has no "text"`,
		`{"task_id":11,"text":"x"}`:             `the "test_list" is empty`,
		`{"task_id":"11"}`:                      "line 1: json: ",
	} {
		_, err := Open(MBPP, Options{Data: written(t, line)})
		assert.ErrorContains(t, err, want, line)
		assert.ErrorContains(t, err, "line 1: ")
	}
}

// TestPacked: a file may be compressed with gzip; its hash is that of the compressed file. A damaged file is refused.
func TestPacked(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(humanEvalLine("a") + "\n" + humanEvalLine("b")))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	path := filepath.Join(held.TempDir(t), "q.jsonl.gz")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	s := mustOpen(t, HumanEval, Options{Data: path})
	require.Len(t, s.Questions, 2)
	one := mustOpen(t, HumanEval, Options{Data: path, Most: 1})
	assert.Equal(t, s.Hash, one.Hash)
	for _, n := range []int{2, 11, b.Len() / 2, b.Len() - 1} {
		require.NoError(t, os.WriteFile(path, b.Bytes()[:n], 0o600))
		_, err = Open(HumanEval, Options{Data: path})
		assert.ErrorContains(t, err, path, n)
	}
	assert.True(t, json.Valid([]byte(humanEvalLine("a"))) && json.Valid([]byte(mbppLine(1))))
}
