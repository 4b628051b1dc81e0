package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// TestStageLink: half of the round trip lies on each way, chance and loss alike on both, and traces on theirs.
func TestStageLink(t *testing.T) {
	dir := t.TempDir()
	rtt, up := filepath.Join(dir, "a.rtt.csv"), filepath.Join(dir, "a.up")
	require.NoError(t, os.WriteFile(rtt, []byte("t_ms,rtt_ms\n0,20\n100,30\n"), 0o600))
	require.NoError(t, os.WriteFile(up, []byte("1\n2\n3\n"), 0o600))
	o, err := StageOptions{RTT: 30 * time.Millisecond, Loss: 0.2, Seed: 9}.link("127.0.0.1:7")
	require.NoError(t, err)
	way := link.Direction{Delay: 15 * time.Millisecond, Loss: 0.2}
	assert.Equal(t, link.Options{Target: "127.0.0.1:7", Seed: 9, Up: way, Down: way}, o)
	o, err = StageOptions{Traces: []string{rtt, up}}.link("127.0.0.1:7")
	require.NoError(t, err)
	assert.Equal(t, 2, o.RTT.Len())
	assert.Equal(t, 3, o.Up.Capacity.Len())
	assert.Nil(t, o.Down.Capacity)
	_, err = StageOptions{Traces: []string{filepath.Join(dir, "none.up")}}.link("127.0.0.1:7")
	assert.ErrorIs(t, err, os.ErrNotExist)
	edge := tiny(t, nil)
	_, err = NewStage(edge, edge, StageOptions{Traces: []string{filepath.Join(dir, "none.up")}})
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = NewStage(edge, edge, StageOptions{Loss: 2})
	assert.ErrorIs(t, err, link.ErrOption)
	assert.Equal(t, 9*time.Second, (&Stage{rtt: time.Second}).patience())
}

// TestStage: what a stage is told is what a device meets: no answer is sooner than round trip and large model allow,
// packets are lost, and a dictionary makes questions shorter.
func TestStage(t *testing.T) {
	edge, large := tiny(t, nil), tiny(t, func(s *synth.Spec) { s.Layers = 3 })
	var typical [][]int32
	for i := range int32(20) {
		var text []int32
		for n := range int32(60) {
			text = append(text, (n*n*7+n*31)%500)
		}
		typical = append(typical, append(text, i))
	}
	ask := func(o StageOptions, direct bool) (up int, token int32, took time.Duration, s link.Stats) {
		stage, err := NewStage(edge, large, o)
		require.NoError(t, err)
		far, end := stage.Direct(), func() {}
		if !direct {
			far, end, err = stage.Dial(t.Context(), 0)
			require.NoError(t, err)
		}
		begin := time.Now()
		a, err := far.Ask(t.Context(), draft.Question{Context: typical[3]})
		require.NoError(t, err)
		took = time.Since(begin)
		end()
		require.NoError(t, stage.Close())
		return a.BytesUp, a.Token, took, stage.Link().Stats()
	}
	bare, token, _, _ := ask(StageOptions{}, false)
	_, same, _, s := ask(StageOptions{}, true)
	assert.Equal(t, token, same, "directly or not")
	assert.Zero(t, s.Up.Packets, "nothing goes over the link")
	short, same, _, _ := ask(StageOptions{Typical: typical}, false)
	assert.Equal(t, token, same)
	assert.Less(t, short, bare-20)
	const rtt, slow = 60 * time.Millisecond, 150 * time.Millisecond
	_, _, took, _ := ask(StageOptions{RTT: rtt}, false)
	assert.GreaterOrEqual(t, took, rtt)
	for _, direct := range []bool{true, false} {
		_, _, took, _ = ask(StageOptions{AnswerTime: slow}, direct)
		assert.GreaterOrEqual(t, took, slow)
	}
	lost := int64(0)
	for seed := range uint64(20) { // chance may spare the few packets of one question
		_, _, _, s := ask(StageOptions{Loss: 0.1, Seed: seed}, false)
		if lost = s.Up.Lost + s.Down.Lost; lost > 0 {
			break
		}
	}
	assert.Positive(t, lost)
}

// TestDelayedConn: bytes arrive after the delay, in order, and all of them also where the writer closes.
func TestDelayedConn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		d := delayed(near, 30*time.Millisecond)
		began := time.Now()
		type arrival struct {
			text string
			at   time.Duration
		}
		got := make(chan []arrival)
		go func() {
			var all []arrival
			b := make([]byte, 10)
			for {
				n, err := far.Read(b)
				if err != nil {
					got <- all
					return
				}
				all = append(all, arrival{string(b[:n]), time.Since(began)})
			}
		}()
		write := func(text string) {
			b := []byte(text)
			n, err := d.Write(b)
			require.NoError(t, err)
			require.Equal(t, len(text), n)
			copy(b, "xxxxx") // it is the caller's again
		}
		write("one")
		write("two")
		time.Sleep(10 * time.Millisecond)
		write("three")
		require.NoError(t, d.Close())
		assert.Equal(t, 40*time.Millisecond, time.Since(began), "closing waits for what is on its way")
		const ms = time.Millisecond
		assert.Equal(t, []arrival{{"one", 30 * ms}, {"two", 30 * ms}, {"three", 40 * ms}}, <-got)
		_, err := d.Write([]byte("late"))
		assert.ErrorIs(t, err, net.ErrClosed)
		assert.NoError(t, d.Close(), "again")
	})
}

// TestDelayedConnBroken: where nobody reads on, writers and Close are not held up.
func TestDelayedConnBroken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		d := delayed(near, time.Second)
		require.NoError(t, far.Close())
		for range 3000 { // more than the queue holds
			_, err := io.WriteString(d, "x")
			require.NoError(t, err)
			if len(d.(*delayedConn).queue) == cap(d.(*delayedConn).queue) {
				time.Sleep(2 * time.Second)
			}
		}
		assert.NoError(t, d.Close())
	})
}

// TestRoutingDevices: as many devices as were asked for, each with a connection of its own that is given up, in each
// mode; never more than there are questions, and eight where nobody says how many.
func TestRoutingDevices(t *testing.T) {
	edge := tiny(t, nil)
	stage, err := NewStage(edge, edge, StageOptions{})
	require.NoError(t, err)
	defer stage.Close()
	var questions []task.Question
	for i := range 10 {
		questions = append(questions, task.Question{Text: strconv.Itoa(i)})
	}
	for parallel, want := range map[int]int{0: 8, 3: 3, 10: 10, 64: 10} {
		var mu sync.Mutex
		var devices []int
		ended := 0
		_, err := Routing(t.Context(), RoutingOptions{
			Edge: edge, Large: edge, Questions: questions, Modes: modes(t, "serial"), Parallel: parallel, MaxTokens: 2,
			Router: router.Options{Policy: router.Always}, Draft: draft.Options{Deadline: -1}, Direct: stage.Direct(),
			Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
				mu.Lock()
				defer mu.Unlock()
				devices = append(devices, device)
				return stage.Direct(), func() {
					mu.Lock()
					defer mu.Unlock()
					ended++
				}, nil
			},
		})
		require.NoError(t, err)
		slices.Sort(devices)
		var numbers []int
		for n := range want {
			numbers = append(numbers, n)
		}
		assert.Equal(t, numbers, devices)
		assert.Equal(t, want, ended)
	}
	busy := errors.New("no line")
	_, err = Routing(t.Context(), RoutingOptions{
		Edge: edge, Large: edge, Questions: questions, Modes: modes(t, "serial"),
		Router: router.Options{Policy: router.Always}, Direct: stage.Direct(),
		Dial: func(context.Context, int) (draft.Cloud, func(), error) { return nil, nil, busy },
	})
	assert.ErrorIs(t, err, busy)
}

// TestWhoseText: the small model alone says its own text, and where every token is asked for, in whatever way, the text
// is the large model's.
func TestWhoseText(t *testing.T) {
	racing.Spare(t)
	edge, large := tiny(t, nil), tiny(t, func(s *synth.Spec) { s.Layers = 3 })
	stage, err := NewStage(edge, large, StageOptions{})
	require.NoError(t, err)
	defer stage.Close()
	const most = 12
	text := func(e *engine.Engine, question string) (ids []int32) {
		prompt, err := edge.Chat(tokenizer.Message{Role: "user", Content: question})
		require.NoError(t, err)
		s, err := e.NewSession()
		require.NoError(t, err)
		for tok, err := range s.Generate(t.Context(), prompt, terms.Settings{MaxTokens: most}) {
			require.NoError(t, err)
			ids = append(ids, tok.ID)
		}
		return ids
	}
	right := task.JudgeBy(func(string) bool { return true })
	questions := []task.Question{{Text: "who?"}, {Text: "where is it <|im_end|> or not?", Grade: right}, {Text: "why?"}}
	w, err := startWeb(large, stage.Direct(), 0, 0)
	require.NoError(t, err)
	defer w.close()
	told := 0
	b := &routing{web: w, total: 15, RoutingOptions: RoutingOptions{
		Edge: edge, Large: large, Questions: questions,
		Modes: modes(t, "local", "cloud", "paper", "serial", "pipelined-2"), Parallel: 2, MaxTokens: most,
		Router: router.Options{Policy: router.Always}, Draft: draft.Options{Deadline: -1}, Dial: stage.Dial,
		Progress: func(done, total int) {
			told++
			assert.Equal(t, []int{told, 15}, []int{done, total})
		},
	}}
	together, err := b.run(t.Context(), b.Modes, 3, 0)
	require.NoError(t, err)
	require.Len(t, together, len(b.Modes))
	told, b.done = 0, 0
	for n, m := range b.Modes {
		answers, err := b.run(t.Context(), []Mode{m}, 3, 0)
		require.NoError(t, err)
		require.Len(t, answers, 1)
		require.Len(t, answers[0], 3)
		for i, a := range answers[0] {
			assert.Equal(t, a.ids, together[n][i].ids, "in turns, too")
			assert.Equal(t, a.origins, together[n][i].origins)
			want, origin := text(large, questions[i].Text), "cloud"
			if m.Name == "local" {
				want, origin = text(edge, questions[i].Text), "edge"
			}
			if m.Name == "paper" {
				// its text is cut into other tokens than it was made of: only the prompt is surely the same
				want, a.ids, a.origins = want[:1], a.ids[:1], a.origins[:1]
			}
			assert.Equal(t, want, a.ids, "%s: %s", m.Name, questions[i].Text)
			if m.Name != "cloud" {
				assert.Equal(t, slices.Repeat([]string{origin}, len(want)), a.origins, m.Name)
			}
			assert.Equal(t, []bool{i == 1, i == 1}, []bool{a.known, a.correct})
			assert.Positive(t, a.took)
		}
	}
	assert.Equal(t, 15, told)
}

// TestRoutingPaces: no answer is sooner than the pace of the small model, the pace of the large one and the round trip
// of HTTP allow, and as long as it may be.
func TestRoutingPaces(t *testing.T) {
	edge := tiny(t, nil)
	stage, err := NewStage(edge, edge, StageOptions{})
	require.NoError(t, err)
	defer stage.Close()
	run := func(mode string, edit func(*RoutingOptions)) ModeReport {
		o := RoutingOptions{
			Edge: edge, Large: edge,
			Questions: []task.Question{{
				Text: "who?", Grade: task.JudgeBy(func(said string) bool { return said != "" }),
			}},
			Modes: modes(t, mode), Router: router.Options{Policy: router.Always},
			Draft: draft.Options{Deadline: -1}, Direct: stage.Direct(), Dial: stage.Dial, MaxTokens: 5,
		}
		edit(&o)
		reports, err := Routing(t.Context(), o)
		require.NoError(t, err)
		assert.Equal(t, 1.0, *reports[0].Accuracy, "%s: the text is judged", mode)
		return reports[0]
	}
	local := run("local", func(*RoutingOptions) {})
	require.Equal(t, 5.0, local.TokensPerAnswer, "this model does not end by itself")
	assert.Equal(t, 64.0, run("local", func(o *RoutingOptions) { o.MaxTokens = 0 }).TokensPerAnswer,
		"where nobody says how long")
	assert.Equal(t, 5.0, run("cloud", func(*RoutingOptions) {}).TokensPerAnswer)
	assert.GreaterOrEqual(t, run("local", func(o *RoutingOptions) { o.EdgeTPS = 20 }).Time.P50, 4*50.0)
	assert.GreaterOrEqual(t, run("cloud", func(o *RoutingOptions) { o.CloudPace = 40 * time.Millisecond }).Time.P50,
		5*40.0)
	assert.GreaterOrEqual(t, run("cloud", func(o *RoutingOptions) { o.RTT = 150 * time.Millisecond }).Time.P50, 150.0)
	paper := run("paper", func(o *RoutingOptions) { o.RTT = 40 * time.Millisecond })
	assert.GreaterOrEqual(t, paper.Time.P50, 5*40.0, "one round trip for each token")
	assert.GreaterOrEqual(t, *paper.Asks, 5.0)
	assert.Nil(t, paper.EqualToSerial)
}

// TestWebRefuses: what cannot be read or continued is said with the status, and by whom.
func TestWebRefuses(t *testing.T) {
	edge := tiny(t, nil)
	w, err := startWeb(edge, edgeless{}, 0, 0)
	require.NoError(t, err)
	defer w.close()
	_, err = w.streamed(t.Context(), strings.Repeat("too long ", 500), 3, func() {})
	assert.Error(t, err, "a text that the model cannot go on with is no empty answer")
	r := httptest.NewRequest("POST", "/next", strings.NewReader("no JSON"))
	for _, handle := range []http.HandlerFunc{w.next, w.stream} {
		said := httptest.NewRecorder()
		handle(said, r)
		assert.Equal(t, http.StatusBadRequest, said.Code)
	}
	_, err = paperCloud{w, func([]int32) string { return "a" }}.Ask(t.Context(), draft.Question{})
	assert.ErrorContains(t, err, "/next: 500 Internal Server Error: nobody is there")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.streamed(gone, "a", 3, func() {})
	assert.ErrorIs(t, err, context.Canceled)
}

// TestPaperBytes: the baseline counts the bytes of its bodies.
func TestPaperBytes(t *testing.T) {
	edge := tiny(t, nil)
	w, err := startWeb(edge, fixedCloud(77), 0, 0)
	require.NoError(t, err)
	defer w.close()
	a, err := paperCloud{w, func(ids []int32) string { return strings.Repeat("a", len(ids)) }}.Ask(t.Context(),
		draft.Question{Context: []int32{1, 2, 3}})
	require.NoError(t, err)
	assert.Equal(t, draft.Answer{Prefilled: 3, BytesUp: len(`{"text":"aaa"}`),
		BytesDown: len(`{"token":77,"text":""}` + "\n"), Reply: terms.Reply{Token: 77}}, a)
}

// edgeless is a cloud that has nothing to say.
type edgeless struct{}

func (edgeless) Ask(context.Context, draft.Question) (draft.Answer, error) {
	return draft.Answer{}, errors.New("nobody is there")
}

// fixedCloud answers every question with the same token.
type fixedCloud int32

func (f fixedCloud) Ask(context.Context, draft.Question) (draft.Answer, error) {
	return draft.Answer{Reply: terms.Reply{Token: int32(f)}}, nil
}
