package eval

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/internal/files"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// tokenOf returns the event of a token.
func tokenOf(origin string, confidence float32) *draft.Token {
	return &draft.Token{Origin: draft.Origin(origin), Confidence: confidence}
}

// head is the first line of a file with one run.
const head = `{"settings":{"format":3,"task":"t","runs":["margin 0.5"]},"about":{"version":"1"}}` + "\n"

// good is an answer in that file.
const good = `{"question":"a","run":"margin 0.5","verdict":"right","stop":"end","tokens":[1,2],"pieces":["x","y"],` +
	`"origins":"ec","missed":[0],"needless":[1],"asks":1,"ms":1.5}` + "\n"

// TestLogRefuses: a file that this call would not have written is refused with its line, and not changed.
func TestLogRefuses(t *testing.T) {
	change := func(old, new string) string { return head + strings.Replace(good, old, new, 1) }
	for text, want := range map[string]string{
		"a text of somebody":                   "not a file of answers: use another name with -o",
		"{\"question\":\"q\"}\n":               "line 1: not a file of answers",
		"{\"about\":{}}\n":                     "line 1: not a file of answers",
		head + "nonsense\n" + good:             "line 2: invalid answer",
		head + good + good:                     `line 3: the answer to question "a" of run "margin 0.5" is there twice`,
		change(`"margin 0.5"`, `"margin 1"`):   `there is no run "margin 1"`,
		change(`"a"`, `""`):                    `there is no run`,
		change(`[1,2]`, `[1]`):                 "1 tokens have 2 pieces and 2 origins",
		change(`"ec"`, `"e"`):                  "2 tokens have 2 pieces and 1 origins",
		change(`["x","y"]`, `["x"]`):           "2 tokens have 1 pieces",
		change(`"right"`, `"best"`):            `there is no verdict "best"`,
		change(`"end"`, `"tired"`):             `there is no reason "tired" to stop`,
		change(`"end"`, `"no room"`):           "an answer without room has tokens or questions",
		change(`"ec"`, `"ex"`):                 `the origins "ex" have other letters than e and c`,
		change(`[0]`, `[1]`):                   "a position in missed or needless",
		change(`[1],"asks"`, `[0],"asks"`):     "a position in missed or needless",
		change(`"asks":1`, `"asks":2`):         "2 questions gave 1 tokens of the large model",
		change(`[0]`, `[2]`):                   "a position in missed or needless",
		change(`[0]`, `[-1]`):                  "a position in missed or needless",
		change(`[1],"asks"`, `[2],"asks"`):     "a position in missed or needless",
		change(`"ms"`, `"secs"`):               "unknown field",
		strings.Replace(head, `"t"`, `"u"`, 1): `the answers there are of other settings: task (there "u", here "t")`,
	} {
		path := filepath.Join(held.TempDir(t), "log")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := OpenLog(path, Settings{Task: "t", Runs: []string{"margin 0.5"}}, About{})
		require.ErrorContains(t, err, want, text)
		assert.ErrorContains(t, err, path)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, text, string(b))
		assert.NoFileExists(t, path+".lock")
	}
}

// TestLogTakesUp: existing answers are read, and the file keeps the metadata of the first call.
func TestLogTakesUp(t *testing.T) {
	path := filepath.Join(held.TempDir(t), "log")
	require.NoError(t, os.WriteFile(path, []byte(head+good+`{"quest`), 0o600))
	s := Settings{Task: "t", Runs: []string{"margin 0.5"}}
	l, err := OpenLog(path, s, About{Version: "2"})
	require.NoError(t, err)
	assert.Equal(t, "1", l.About.Version)
	_, there := l.Answer("a", "margin 0.5")
	assert.True(t, there)
	_, there = l.Answer("a", "always")
	assert.False(t, there)
	_, err = OpenLog(path, s, About{})
	require.ErrorIs(t, err, files.ErrHeld)
	require.NoError(t, l.appendAnswer(Answer{Question: "b<", Run: "margin 0.5", Stop: "end", Pieces: []string{}}))
	require.NoError(t, l.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	const last = `{"question":"b<","run":"margin 0.5","stop":"end","pieces":[],"origins":"","ms":0}` + "\n"
	assert.Equal(t, head+good+last, string(b))
	l, err = OpenLog(path, s, About{})
	require.NoError(t, err)
	assert.Equal(t, 2, l.Answers())
	require.NoError(t, l.file.Close())
	require.ErrorContains(t, l.appendAnswer(Answer{Question: "c", Run: "margin 0.5"}), "keep an answer")
	_, there = l.Answer("c", "margin 0.5")
	assert.False(t, there, "answers that are not kept are missing")
	require.Error(t, l.Close())
}

// TestSettingsDiffer: each field is compared, and the error names it.
func TestSettingsDiffer(t *testing.T) {
	var a Settings
	assert.Empty(t, errs.Differences(a, a))
	kind := reflect.TypeFor[Settings]()
	for i := range kind.NumField() {
		b := Settings{}
		switch f := reflect.ValueOf(&b).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Int:
			f.SetInt(3)
		case reflect.Uint64:
			f.SetUint(3)
		case reflect.Float64:
			f.SetFloat(0.5)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{strings.Repeat("long ", 100)}))
		}
		d := errs.Differences(a, b)
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		assert.Contains(t, d, name+" (there ")
		assert.Less(t, len(d), 200)
	}
}

// FuzzLog: the reader accepts or refuses any file without a panic; an accepted file ends with a complete line.
func FuzzLog(f *testing.F) {
	for _, s := range []string{head, head + good, head + good[:20], "", "\n", "{}", "\x00"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(dir, "log")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		l, err := OpenLog(path, Settings{Task: "t", Runs: []string{"margin 0.5"}}, About{})
		if err != nil {
			return
		}
		require.NoError(t, l.Close())
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, strings.HasSuffix(string(left), "\n"))
	})
}
