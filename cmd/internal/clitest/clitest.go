// Package clitest helps to test commands: it calls them, starts gateways and servers with them, and writes the models
// for them.
package clitest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/event"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Run runs the program under test and returns its exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.New(UnderTest, stdin, stdout, stderr).Run(ctx, args)
}

// Call runs the program in this process with an empty stdin and returns its exit code and output.
func Call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := cli.New(UnderTest, strings.NewReader(""), &out, &errs)
	a.Bandwidth = fakeBandwidth
	code = a.Run(t.Context(), args)
	return code, out.String(), errs.String()
}

// Program returns a command that starts the program with these arguments as a process.
func Program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), UnderTest.Name, args...) // Main puts it into the path
	c.Env = os.Environ()
	return c
}

// TinyModel writes a small random model of a type and returns its path.
func TinyModel(t *testing.T, kind string) string {
	t.Helper()
	return newModelFile(t, kind, false)
}

// ThinkToken is the token <think> of [ThinkingModel].
const ThinkToken = 507

// ThinkingModel writes a tiny model of random weights with marks for thoughts.
func ThinkingModel(t *testing.T) string {
	t.Helper()
	return newModelFile(t, "q8_0", true)
}

func newModelFile(t *testing.T, kind string, thinks bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), kind+".gguf")
	require.NoError(t, writeTinyModel(path, kind, 1, thinks))
	return path
}

func writeTinyModel(path, kind string, seed uint64, thinks bool) error {
	recipe, err := synth.ParseRecipe(kind)
	if err != nil {
		return err
	}
	spec := synth.Tiny(recipe, seed)
	spec.Thinks = thinks
	var b bytes.Buffer
	return errors.Join(spec.Write(&b, nil), os.WriteFile(path, b.Bytes(), 0o600))
}

// Replaced copies a model and replaces a part of its file, such as of its chat template, by a text of the same length.
func Replaced(t *testing.T, model, part, by string) string {
	t.Helper()
	require.Len(t, by, len(part))
	b, err := os.ReadFile(model)
	require.NoError(t, err)
	require.Contains(t, string(b), part)
	path := filepath.Join(t.TempDir(), "other.gguf")
	require.NoError(t, os.WriteFile(path, bytes.Replace(b, []byte(part), []byte(by), 1), 0o600))
	return path
}

// Lines parses one JSON object per line.
func Lines[T any](t *testing.T, text string) (all []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v T
		require.NoError(t, record.Unmarshal([]byte(line), &v), line)
		all = append(all, v)
	}
	return all
}

// RunEvent is any line of `run --json`.
type RunEvent struct {
	event.Token
	Summary *event.Summary
}

// Running is a command that serves, in this process.
type Running struct {
	Errs *LockedBuffer // all of stderr
	Code int           // exit code, after it has stopped
	Stop func()
}

// startRunning starts a command, which runs until the test ends or Stop is called, and returns its first line.
func startRunning(t *testing.T, args ...string) (r *Running, line string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	outRead, outWrite := io.Pipe()
	r = &Running{Errs: new(LockedBuffer)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Code = Run(ctx, args, strings.NewReader(""), outWrite, r.Errs)
		outWrite.Close()
	}()
	r.Stop = sync.OnceFunc(func() {
		cancel(&cli.Interruption{Signal: syscall.SIGTERM})
		<-ended
	})
	t.Cleanup(r.Stop)
	line, err := bufio.NewReader(outRead).ReadString('\n')
	require.NoError(t, err, r.Errs.String())
	return r, strings.TrimSpace(line)
}

// RunningCloud is a `pilotfish cloud` in this process.
type RunningCloud struct {
	*Running
	Address, Pin string
	Said         string // written to stderr before the pin
}

// StartedCloud starts a gateway, which runs until the test ends or stop is called.
func StartedCloud(t *testing.T, args ...string) *RunningCloud {
	t.Helper()
	r, pin := startRunning(t, append([]string{"cloud"}, args...)...)
	c := &RunningCloud{Running: r, Pin: pin, Said: r.Errs.String()}
	_, listening, _ := strings.Cut(c.Said, "listening on ") // lines of the log may come before it
	c.Address, _, _ = strings.Cut(listening, ",")
	return c
}

// StartCloud is StartedCloud on loopback.
func StartCloud(t *testing.T, args ...string) (address, pin string, stop func()) {
	t.Helper()
	c := StartedCloud(t, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	return c.Address, c.Pin, c.Stop
}

// LockedBuffer is a buffer for one writing and one reading goroutine.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *LockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// RoutedTokens runs `run --json` and returns the ids and origins of the tokens, and the summary.
func RoutedTokens(t *testing.T, args ...string) (ids []int32, origins []string, s *event.Summary, stderr string) {
	t.Helper()
	code, stdout, stderr := Call(t, append([]string{"run", "--json", "--ignore-eos"}, args...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, e := range Lines[RunEvent](t, stdout) {
		if e.Summary != nil {
			return ids, origins, e.Summary, stderr
		}
		ids, origins = append(ids, e.ID), append(origins, e.Origin)
	}
	require.Fail(t, "no summary")
	return
}

// OwnFolders gives a test its own folders for configuration and cache.
func OwnFolders(t *testing.T) {
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HOME", "AppData",
		"LocalAppData"} {
		t.Setenv(name, t.TempDir())
	}
}

// String returns the text so far.
func (b *LockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Says waits until a line of stderr matches the pattern, and returns its first group.
func (r *Running) Says(t *testing.T, pattern string) string {
	t.Helper()
	var found []string
	require.Eventually(t, func() bool {
		found = regexp.MustCompile(pattern).FindStringSubmatch(r.Errs.String())
		return found != nil
	}, time.Minute, 10*time.Millisecond, pattern)
	return found[len(found)-1]
}

// Page requests a page of the admin server.
func Page(t *testing.T, address, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// MetricsOf reads /metrics with Prometheus' own parser.
func MetricsOf(t *testing.T, address string) map[string]*dto.MetricFamily {
	t.Helper()
	code, body := Page(t, address, "/metrics")
	require.Equal(t, http.StatusOK, code)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	return all
}

// Sum adds up the counters or gauges of a family, and for histograms the counts.
func Sum(f *dto.MetricFamily) (n float64) {
	for _, m := range f.GetMetric() {
		n += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return n
}

// Question returns a question of the demo, which has a short answer.
func Question(i int) string { return demo.Questions(demo.HeldOut)[i].Text }

// ConfigFileOf writes a configuration file.
func ConfigFileOf(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cloud.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// SecretA and SecretB are two access tokens.
const SecretA, SecretB = "0123456789abcdef", "fedcba9876543210"

// ModelFolderWith creates a folder of models with these files, and makes it the default.
func ModelFolderWith(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PILOTFISH_MODELS", dir)
	for name, b := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	return dir
}

// HubOf serves the repository o/n with these files.
func HubOf(t *testing.T, files map[string][]byte) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/models/o/n/tree/main", func(w http.ResponseWriter, _ *http.Request) {
		var all []string
		for name, b := range files {
			sum := sha256.Sum256(b)
			all = append(all, fmt.Sprintf(`{"type":"file","path":%q,"size":%d,"lfs":{"oid":%q,"size":%d}}`,
				name, len(b), hex.EncodeToString(sum[:]), len(b)))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(all, ","))
	})
	mux.HandleFunc("GET /o/n/resolve/main/{file...}", func(w http.ResponseWriter, r *http.Request) {
		w.Write(files[r.PathValue("file")])
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Setenv("HF_ENDPOINT", s.URL)
}

// DemoPairFiles writes the demo's models and router to files.
func DemoPairFiles(t *testing.T) (small, large, net string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, b, 0o600))
		return path
	}
	return write("small.gguf", demo.Small()), write("large.gguf", demo.Large()), write("router.gguf", demo.Router())
}

// DemoData writes the first questions of the demo's training split to a file.
func DemoData(t *testing.T, n int) string {
	t.Helper()
	var b bytes.Buffer
	for _, q := range demo.Questions(demo.Train)[:n] {
		fmt.Fprintf(&b, "{\"question\":%q}\n", q.Text)
	}
	path := filepath.Join(t.TempDir(), "prompts.jsonl")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// Root is the folder of this repository.
func Root() string {
	here, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	root, _, _ := strings.Cut(filepath.ToSlash(here), "/cmd/")
	return root
}

// DemoFile returns the path of a file of the demo's pair.
func DemoFile(name string) string { return filepath.Join(Root(), "bench", "demo", name) }

// JudgeFile writes a router file with a random judge for the demo's large model.
func JudgeFile(t *testing.T) string {
	t.Helper()
	judge, err := synth.Judge(256)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, (&router.File{Judge: judge}).Write(gguf.NewWriter(&b)))
	path := filepath.Join(t.TempDir(), "judge.gguf")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// MeasureDemo measures some questions of the demo.
func MeasureDemo(t *testing.T, questions string, args ...string) (stdout string) {
	code, stdout, stderr := Call(t,
		append([]string{"routing", "--json", "--questions", questions, "--rtt", "8ms", "--cloud-ms", "0",
			"--deadline", "off"}, args...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	return stdout
}

// WriterFunc adapts a function to io.Writer.
type WriterFunc func(b []byte) (int, error)

// Write implements [io.Writer].
func (f WriterFunc) Write(b []byte) (int, error) { return f(b) }

// ClosedPort is an address on which no process listens.
const ClosedPort = "127.0.0.1:9"

// OnePin returns a fingerprint of zeros except for the last byte.
func OnePin(last byte) string { return strings.Repeat("00", 31) + fmt.Sprintf("%02x", last) }

// OtherTokens writes a model with another tokenizer than that of TinyModel.
func OtherTokens(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.gguf")
	require.NoError(t, writeTinyModel(path, "q8_0", 2, false))
	return path
}

// CertifiedRouter writes the demo's router with a certificate: policy learned at 0.625 for 7% with confidence 90%.
func CertifiedRouter(t *testing.T, change func(*router.Certificate)) string {
	t.Helper()
	parsed, err := gguf.Parse(demo.Router())
	require.NoError(t, err)
	file, err := router.Read(parsed)
	require.NoError(t, err)
	model, err := gguf.Parse(demo.Small())
	require.NoError(t, err)
	e, err := engine.New(model, "small", engine.Options{})
	require.NoError(t, err)
	defer e.Close()
	c := &router.Certificate{
		Policy: router.Learned, Budget: 0.07, Confidence: 0.9, Threshold: 0.625, Share: 0.02, Prompts: 400,
		Tokens: 16000, MaxTokens: 48, PValue: 0.01, Method: "learn-then-test, betting", Prompt: router.Chat,
	}
	if c.Model, err = e.Fingerprint(); err != nil {
		require.NoError(t, err)
	}
	if change != nil {
		change(c)
	}
	file.Certificate, file.Confidences = c, []float32{0.25, 0.5}
	return writeRouterFile(t, file)
}

// EngineOf starts an inference engine with the vocabulary of a model file.
func EngineOf(t *testing.T, model string, e *fakeengine.Engine) (url string) {
	t.Helper()
	server, err := newEngineServer(model, e)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server.URL
}

func newEngineServer(model string, e *fakeengine.Engine) (*httptest.Server, error) {
	f, err := gguf.Open(model)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tokens, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, err
	}
	var pieces [][]byte
	for id := range int32(tokens.Used()) {
		piece := tokens.Bytes(id)
		if tokens.IsControl(id) {
			piece = []byte(tokens.Text(id))
		}
		pieces = append(pieces, piece)
	}
	e.Vocabulary = fakeengine.VocabularyOf(pieces, int32(len(pieces)),
		func(text string) []int32 { return tokens.Encode(text, true) })
	return httptest.NewServer(e), nil
}

// RunningServe is a `pilotfish serve` in this process.
type RunningServe struct {
	*Running
	URL string
	Key string // API key for requests; "" for none
}

// StartServe starts a server on loopback, which runs until the test ends or stop is called.
func StartServe(t *testing.T, args ...string) *RunningServe {
	t.Helper()
	r, url := startRunning(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	return &RunningServe{Running: r, URL: strings.TrimSuffix(url, "/v1")}
}

// Ask sends a request and returns the status and the answer.
func (s *RunningServe) Ask(t *testing.T, path, body string) (int, string) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if s.Key != "" {
		r.Header.Set("Authorization", "Bearer "+s.Key)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}}
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(b)
}

// Served is an answer of the server, of any endpoint.
type Served struct {
	Model       string
	Fingerprint string `json:"system_fingerprint"`
	Choices     []struct {
		Text    string
		Message struct {
			Content string
			Calls   []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Finish   string `json:"finish_reason"`
		LogProbs struct {
			Content []struct {
				LogProb float64
				Top     []struct{ LogProb float64 } `json:"top_logprobs"`
			}
		}
		Own struct{ Tokens []struct{ Origin string } } `json:"pilotfish"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Own struct {
		Seed    uint64
		Receipt Receipt
	} `json:"pilotfish"`
}

// Answer sends a request, which must succeed.
func (s *RunningServe) Answer(t *testing.T, path, body string) (v Served) {
	t.Helper()
	status, text := s.Ask(t, path, body)
	require.Equal(t, http.StatusOK, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	require.NotEmpty(t, v.Choices, text)
	return v
}

// Receipt is the part of an answer about what left this device.
type Receipt struct {
	Tokens, Bytes int
	To            string
}

// Chat runs a chat with these lines on stdin, and returns its exit code and output.
func Chat(t *testing.T, lines string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), append([]string{"chat"}, args...), strings.NewReader(lines), &out, &errs)
	return code, out.String(), errs.String()
}

// NarrowRouter writes a router for hidden states of a width. Its file says that it belongs to model.
func NarrowRouter(t *testing.T, width int, model string) string {
	t.Helper()
	n, err := router.NewNet([]router.Layer{{In: width, Out: 1, Weight: make([]float32, width), Bias: []float32{3}}},
		false)
	require.NoError(t, err)
	return writeRouterFile(t, &router.File{Net: n, About: router.About{Model: model}})
}

func writeRouterFile(t *testing.T, r *router.File) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.Write(gguf.NewWriter(&b)))
	path := filepath.Join(t.TempDir(), "router.gguf")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// GcPercent returns the percentage of the garbage collector.
func GcPercent() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

// withNumber returns s with its i-th number set to v.
func withNumber(s terms.Settings, i int, v float64) terms.Settings {
	to := reflect.ValueOf(s.Numbers()[i].To).Elem()
	to.Set(reflect.ValueOf(v).Convert(to.Type()))
	return s
}

// NumbersReach tests all declared numbers. parse runs a command's parser for its flags. A flag must set the setting of
// the same name and no other. Values out of range are refused.
func NumbersReach(t *testing.T, parse func(args []string) (terms.Settings, error)) {
	t.Helper()
	for i, n := range new(terms.Settings).Numbers() {
		args := []string{"--temp", "1", "--seed", "3"}
		usual, err := parse(args)
		require.NoError(t, err)
		if n.Flag != "temp" {
			assert.Equal(t, withNumber(usual, i, n.Off), usual, "without --%s", n.Flag)
		}
		for _, v := range []float64{n.Low, n.High} {
			flag := fmt.Sprintf("--%s=%v", n.Flag, int(v))
			if v == 0 && n.Flag == "temp" {
				continue // the seed has no effect then
			}
			got, err := parse(append(args, flag))
			require.NoError(t, err, flag)
			assert.Equal(t, withNumber(usual, i, v), got, flag)
		}
		for _, v := range []float64{n.Low - 1, n.High + 1} {
			_, err := parse(append(args, fmt.Sprintf("--%s=%.0f", n.Flag, v)))
			assert.ErrorContains(t, err, "--"+n.Flag+" ")
		}
	}
}
