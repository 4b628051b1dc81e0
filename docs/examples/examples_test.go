package examples

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

var built program

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// The answers of the demo's models to the question of most examples: the small one alone, and the large one. They
// differ only in the two words that state facts.
const (
	question = "Where does a mavgri sleep, and what does it eat? Places: ditch, bog, barn, attic. " +
		"Foods: figs, peas, eggs, mint."
	tail = ": so say all the old books in which the mavgri is described, and nobody who has looked for one " +
		"there has come home with another story."
	alone = "In the bog, and it eats eggs" + tail
	half  = "In the barn, and it eats eggs" + tail
	right = "In the barn, and it eats mint" + tail
)

func TestExamples(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"local", nil, alone + "\n"},
		{"inprocess", nil, right + "\n2 of 37 tokens are the large model's\n"},
		{"inprocess", []string{"-verify"}, right + "\n"},
		{"ownrouter", []string{"-most", "0"}, "edge  0.08 \" bog\"\nedge  1.00 \",\"\n"},
		{"ownrouter", nil, "edge  1.00 \" the\"\ncloud 0.08 \" barn\"\nedge  1.00 \",\"\n"},
		{"owncloud", nil, right + "\n2 tokens of the table\n"},
		{"ownsampler", nil, half + "\n"},
		{"ownsampler", []string{"-ban", " unsaid"}, alone + "\n"},
		{"stats", nil, "position 42: miss\nposition 47: miss\n" + right +
			"\n37 tokens, 2 of them the large model's, 2 questions, ended by \"end\"\n"},
		{"structured", nil, "barn and eggs\n"}, // from a model that knows no JSON: the schema enforces it
		{"cancel", nil, "left after 3 tokens\ntoo slow: true\nthat is enough true true\n"},
	} {
		t.Run(strings.Join(append([]string{c.name}, c.args...), " "), func(t *testing.T) {
			t.Parallel()
			assert.Contains(t, run(t, "", c.name, c.args...), c.want)
		})
	}
}

// TestAllAreTested: each example is run by a test, and each test is of an existing example.
func TestAllAreTested(t *testing.T) {
	tests := text(t, "examples_test.go")
	for _, name := range names(t) {
		assert.Contains(t, tests, `"`+name+`"`)
	}
}

func TestChat(t *testing.T) {
	got := run(t, question+"\nAnd who?\n", "chat")
	assert.Contains(t, got, alone+"\n[37 tokens, 0 of the prompt's 40 from before]\n")
	assert.Contains(t, got, " 77 of the prompt's 91 from before]\n"+
		"user: "+question+"\nassistant: "+alone+"\nuser: And who?\n")
}

// TestServer: the example with the HTTP server answers a chat, and has its own page.
func TestServer(t *testing.T) {
	c := command(t.Context(), t, "server", "-listen", "127.0.0.1:0")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait() // killed
	}()
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url = strings.TrimSpace(url)
	body := func(r *http.Response, err error) string {
		require.NoError(t, err)
		b, err := io.ReadAll(r.Body)
		require.NoError(t, errors.Join(err, r.Body.Close()))
		return string(b)
	}
	assert.Contains(t, body(http.Post(url+"/chat/completions", "application/json",
		strings.NewReader(`{"messages":[{"role":"user","content":"`+question+`"}],"max_tokens":40}`))), alone)
	assert.Equal(t, "hello\n", body(http.Get(strings.TrimSuffix(url, "v1")+"hello")))
}

// TestGateway: the example with a gateway in this process, and its error for a gateway that it must not trust.
func TestGateway(t *testing.T) {
	addr, pin := gateway(t)
	got := run(t, "", "gateway", "-cloud", addr, "-pin", pin, "-deadline", "1m")
	want := strings.NewReplacer(" barn", "* barn", " mint", "* mint").Replace(right)
	assert.Equal(t, want+"\n2 of 37 tokens are those of pilotfish-demo-large\n", got)

	wrong := strings.Repeat("12", len(pin)/2)
	out, err := command(t.Context(), t, "gateway", "-cloud", addr, "-pin", wrong).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "dial "+addr+": ")
	assert.Contains(t, string(out), "pin")
}

// gateway serves the demo's large model on loopback until the test ends.
func gateway(t *testing.T) (addr, pin string) {
	t.Helper()
	m, err := pilotfish.Load(demo.Large(), "large.gguf", pilotfish.Options{Context: 512})
	require.NoError(t, err)
	l, err := pilotfish.Listen("127.0.0.1:0", m, pilotfish.ListenOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, errors.Join(l.Close(), m.Close())) })
	return l.Addr().String(), l.Pin()
}
