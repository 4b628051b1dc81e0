package collect

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// open opens one of the demo's models until the test ends.
func open(t testing.TB, b []byte, o engine.Options) *engine.Engine {
	f, err := gguf.Parse(b)
	require.NoError(t, err)
	e, err := engine.New(f, "demo", o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// questions returns n questions of the demo.
func questions(t testing.TB, n int) *task.Set {
	set, err := task.Open(task.DemoTrain, task.Options{Most: n})
	require.NoError(t, err)
	return set
}

// demoOptions returns options for n questions to the demo's pair, with all rules.
func demoOptions(t testing.TB, n int, o engine.Options) Options {
	edge, large := open(t, demo.Small(), o), open(t, demo.Large(), o)
	service, err := large.Serve(engine.ServeOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := service.Local(0).Ask(context.Background(), engine.CloudQuestion{Context: []int32{1}})
		if !errors.Is(err, engine.ErrClosed) { // a test may close the model
			assert.NoError(t, err) // the service has then handled what came before
			assert.LessOrEqual(t, service.Stats().Sessions, 1, "sessions that nothing ended")
		}
		service.Close()
	})
	f, err := gguf.Parse(demo.Router())
	require.NoError(t, err)
	net, err := router.ReadNet(f)
	require.NoError(t, err)
	return Options{
		Edge: edge, Large: large, Far: service, Data: questions(t, n), MaxTokens: 64, Temperature: 2, Seed: 3,
		Router: router.Options{Policy: router.Learned, Net: net}, RouterHash: "abc", Labels: rules(),
	}
}

// viaGateway returns o with its large model at a gateway on loopback.
func viaGateway(t testing.TB, o Options) Options {
	g, err := o.Far.(*engine.Service).Gateway(engine.GatewayOptions{})
	require.NoError(t, err)
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
		assert.NoError(t, socket.Close())
	})
	r, err := o.Edge.Dial(t.Context(), socket.LocalAddr().String(), engine.DialOptions{Pin: g.Fingerprint()})
	require.NoError(t, err)
	far := &openSessions{Remote: r}
	t.Cleanup(func() {
		assert.Zero(t, far.n.Load(), "sessions that nothing ended")
		assert.NoError(t, r.Close())
	})
	o.Large, o.Far = nil, far
	return o
}

// openSessions counts the sessions of a gateway that have not ended.
type openSessions struct {
	*engine.Remote
	n atomic.Int32
}

func (o *openSessions) Session(ctx context.Context) (engine.Cloud, func(), error) {
	cloud, end, err := o.Remote.Session(ctx)
	if err == nil {
		o.n.Add(1)
	}
	return cloud, func() { o.n.Add(-1); end() }, err
}

// plan returns the plan of o, which must be valid.
func plan(t testing.TB, o Options) *Plan {
	p, err := NewPlan(o)
	require.NoError(t, err)
	return p
}

// gather collects into a new file and opens it.
func gather(t testing.TB, o Options) (*trace.Set, *Summary) {
	path := newFile(t)
	sum, err := plan(t, o).Run(t.Context(), path, nil)
	require.NoError(t, err)
	set, err := trace.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, set.Close()) })
	return set, sum
}

// newFile returns the path of a file that does not exist.
func newFile(t testing.TB) string { return filepath.Join(held.TempDir(t), "traces") }

// bytesOf returns the bytes of a file.
func bytesOf(t testing.TB, path string) string {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func references() []Reference { return []Reference{Given, Small, Large, Sampled, Routed} }

func rules() []string { return []string{RuleDisagreement, RuleCiter, RuleConsequence} }
