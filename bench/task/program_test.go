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

// doubled is a program that solves the problem.
const doubled = "def double(x):\n    return 2 * x"

// codeBlock returns a block of code in an answer.
func codeBlock(language, code string) string { return "```" + language + "\n" + code + "\n```" }

// The functions below return typical answers of models with their programs.

// programsInBlock returns answers with one block of code.
func programsInBlock() map[string]string {
	return map[string]string{
		fencedBlock(doubled):                                      doubled,
		codeBlock("", doubled):                                    doubled,
		codeBlock("Python", doubled):                              doubled,
		codeBlock("py", doubled) + "\n":                           doubled,
		codeBlock("python3", doubled):                             doubled,
		codeBlock("PY3", doubled):                                 doubled,
		codeBlock("", "x") + "\n" + codeBlock("python3", doubled): doubled,
		"Here is the function:\n\n" + fencedBlock(doubled) + "\n\nIt doubles `x`.": doubled,
		"~~~python\n" + doubled + "\n~~~":                                          doubled,
		"````python\n" + doubled + "\n````":                                        doubled,
	}
}

// programsInFences returns answers with other fences. A fence that is as long or longer closes a block, and neither a
// shorter one nor one of the other kind does.
func programsInFences() map[string]string {
	return map[string]string{
		"```python\nTWO = 2\n````\n" + fencedBlock(doubled):                         "TWO = 2\n" + doubled,
		"````python\nA = '''\n```\n'''\n" + doubled + "\n````":                      "A = '''\n```\n'''\n" + doubled,
		"~~~python\nA = '''\n```\n'''\n" + doubled + "\n~~~":                        "A = '''\n```\n'''\n" + doubled,
		"1. First:\n   ```python\n   def double(x):\n       return 2 * x\n   ```\n": doubled,
		"- ```python\n  def double(x):\n      return 2 * x\n  ```":                  doubled,
		"```python\r\ndef double(x):\r\n    return 2 * x\r\n```\r\n":                doubled,
		"```python title=\"a.py\"\n" + doubled + "\n```":                            doubled,
	}
}

// programsCut returns answers that a limit ended.
func programsCut() map[string]string {
	return map[string]string{
		"```python\n" + doubled:                                         doubled,
		"Sure!\n```python\ndef double(x):\n    return 2 *":              "def double(x):\n    return 2 *",
		fencedBlock(doubled) + "\n\nThe function ret":                   doubled,
		fencedBlock(doubled) + "\n\nFor example:\n```python\nprint(dou": doubled,
		"```python": "", "```python\n": "", "``": "",
	}
}

// programsInBlocks returns answers with several blocks, or without a program in their block.
func programsInBlocks() map[string]string {
	return map[string]string{
		fencedBlock(doubled) + "\nTest it:\n" + fencedBlock("print(double(2))"):            doubled,
		fencedBlock(doubled) + "\nOutput:\n" + codeBlock("", "4"):                          doubled,
		codeBlock("bash", "pip install x") + "\n" + fencedBlock(doubled):                   doubled,
		codeBlock("bash", "pip install x") + "\n" + codeBlock("", doubled):                 doubled,
		fencedBlock("def double(x):\n    return x") + "\nBetter:\n" + fencedBlock(doubled): doubled,
		fencedBlock("import cmath\nTWO = 2") + "\n" + fencedBlock(doubled): "import cmath\nTWO = 2\n" +
			doubled,
		fencedBlock("def two():\n    return 2") + "\n" + fencedBlock(doubled): "def two():\n    return 2\n" +
			doubled,
		fencedBlock("double(2)\nx = 1") + "\n" + fencedBlock(doubled):  doubled,
		fencedBlock("def twice(x):\n    return 2 * x"):                 "def twice(x):\n    return 2 * x",
		codeBlock("text", "4") + "\nNo.":                               "",
		codeBlock("javascript", "function double(x) { return 2 * x }"): "",
	}
}

// programsInText returns answers without blocks.
func programsInText() map[string]string {
	return map[string]string{
		doubled:                          doubled,
		"\n\n" + doubled + "\n":          doubled + "\n",
		doubled + "\n\nThis doubles it.": doubled + "\n\n",
		"Here it is:\n" + doubled + "\n\nExplanation: it doubles.": doubled + "\n\n",
		doubled + "\n\nNote (see above): fine.\ndef x(): pass":     doubled + "\n\n",
		"import math\n\n" + doubled + "\n\nprint(double(2))\n": "import math\n\n" + doubled +
			"\n\nprint(double(2))\n",
		"MAX = 3\n" + doubled: "MAX = 3\n" + doubled,
		"@cache\n" + doubled + "\nassert double(2) == 4\nDone.": "@cache\n" + doubled + "\nassert double(2) == 4\n",
		"    def double(x):\n        return 2 * x":              doubled,
		doubled + "\n\n\"\"\"\nAnother task\n\"\"\"\ndef g(":    doubled + "\n\n",
		"double = lambda x: 2 * x\ndef g(): pass":               "double = lambda x: 2 * x\ndef g(): pass",
		"def double(x):\n    \"\"\"Twice\nthe value\n    \"\"\"\n    return 2 * x\nDone.": "def double(x):\n" +
			"    \"\"\"Twice\nthe value\n    \"\"\"\n    return 2 * x\n",
		fencedBlock("import os\nreturn 2 * x"): "import os\nreturn 2 * x",
	}
}

// programBodies returns answers that contain only the body of the function.
func programBodies() map[string]string {
	header := double().header
	return map[string]string{
		"    return 2 * x": header + "    return 2 * x",
		"    y = 2\n\n    return y * x\n\n\ndef triple(x):\n    return": header +
			"    y = 2\n\n    return y * x\n\n\n",
		"\n    return 2 * x\n\nprint(double(1))": header + "\n    return 2 * x\n\n",
		"    return (2 *\nx)":                    header + "    return (2 *\n",
		"    return (2 * x\n)\nNo.":              header + "    return (2 * x\n)\n",
		"    '''\nx\n'''\n    return 2":          header + "    '''\nx\n'''\n    return 2",
		fencedBlock("    return 2 * x"):          header + "    return 2 * x",
		fencedBlock("y = 2\nreturn y * x"):       header + "    y = 2\n    return y * x",
		"return 2 * x":                           header + "    return 2 * x",
		"    def two():\n        return 2\n    return two() * x": header +
			"    def two():\n        return 2\n    return two() * x",
	}
}

// TestProgram: the program in an answer, for typical answers of models.
func TestProgram(t *testing.T) {
	p := double()
	for name, cases := range map[string]map[string]string{
		"a block": programsInBlock(), "fences": programsInFences(), "cut": programsCut(),
		"several blocks": programsInBlocks(), "text": programsInText(), "bodies": programBodies(),
		"no program": {
			"": "", " \n": "", "I cannot do that.": "", "The answer is 4.": "", "x = 2 * 2\nx is 4": "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for answer, want := range cases {
				assert.Equal(t, want, p.extractProgram(answer), "%q", answer)
			}
		})
	}
	p.header = ""
	assert.Empty(t, p.extractProgram("    return 2 * x"), "without a header there is nothing to complete")
	assert.Equal(t, "class A:\n    pass", p.extractProgram("Text\nclass A:\n    pass"))
	p.entry = ""
	both := fencedBlock("print(1)") + "\n" + fencedBlock("def g(): pass")
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
	for name, c := range map[string]struct {
		q      *Question
		answer string
		want   Verdict
	}{
		"after a block":         {&q, fencedBlock(whole) + "\nThe func", Right},
		"after a program":       {&q, whole + "\n\nThe func", Right},
		"in a program":          {&q, whole, Silent},
		"in a block":            {&q, "```python\n" + whole, Silent},
		"in another program":    {&q, fencedBlock(whole) + "\nOr:\n```python\n" + whole, Silent},
		"in an example":         {&q, fencedBlock(whole) + "\nUse it:\n```python\nadd(", Right},
		"before a program":      {&q, "I think", Silent},
		"after the answer":      {&text, "It is 42 or", Right},
		"in the answer":         {&text, "It is 4", Silent},
		"after an exact answer": {&plain, "42", Silent},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := c.q.Judge(t.Context(), c.answer, true)
			require.NoError(t, err)
			assert.Equal(t, c.want, v)
		})
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
	for name, want := range map[string]struct{ questions, first, last int }{
		MBPP: {500, 11, 510}, MBPPTrain: {374, 601, 974},
	} {
		s := mustOpen(t, name, Options{Data: path, Shots: 3, Run: r.run})
		assert.Equal(t, name, s.Name)
		require.Len(t, s.Shots, 3)
		require.Len(t, s.Questions, want.questions)
		assert.Equal(t, fmt.Sprintf("MBPP/%d", want.first), s.Questions[0].ID)
		assert.Equal(t, fmt.Sprintf("MBPP/%d", want.last), s.Questions[want.questions-1].ID)
		q := s.Questions[0]
		asserts := fmt.Sprintf("assert add(one) == %d\nassert add(2) == %d\n", want.first+1, want.first+2)
		assert.Contains(t, q.Text, "```python\n"+asserts+"```")
		raw := s.Raw(q)
		assert.Equal(t, 3, strings.Count(raw, "def add(x):"))
		assert.True(t, strings.HasPrefix(raw, "\"\"\"\nWrite a function to add 1."))
		assert.Equal(t, q.RawReference, q.Key+"\n")
		assert.True(t, strings.HasSuffix(raw, fmt.Sprintf("assert add(2) == %d\n\"\"\"\n", want.first+2)))
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
