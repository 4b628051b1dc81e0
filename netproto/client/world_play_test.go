package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// world is all that a simulation follows from.
type world struct {
	Seed   uint64  `json:"seed"`
	Script []fault `json:"script"`
}

// course is how a simulation went.
type course struct {
	Wrong []string `json:"wrong"` // what must not happen
	Ahead int      `json:"ahead"` // tokens that came after answers
	Sent  uint64   `json:"sent"`  // a hash of all datagrams, and when they were sent
}

// lessons are scripts in which something went wrong once.
var lessons = [][]fault{
	{ // the address changes while answers are lost: they were only sent again after three minutes
		{"loss", ms(1975), ms(227), 1}, {"an engine hangs", ms(4106), ms(1045), 2},
		{"the access tokens are read again", ms(7968), ms(1876), 0}, {"blackhole", ms(9322), ms(2361), 2},
		{"copies and disorder", ms(13313), ms(3166), 0}, {"another address", ms(13955), ms(3387), 2},
		{"another address", ms(14002), ms(2195), 2}, {"loss", ms(14308), ms(3444), 2},
		{"an engine is full", ms(15622), ms(2705), 1},
	},
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// TestWorlds plays some worlds, and for as many seconds as PILOTFISH_WORLDS says others, with seeds from the second
// number there on, or random ones. Of a world in which something goes wrong it prints the shortest script, as
// PILOTFISH_WORLD of TestWorld.
func TestWorlds(t *testing.T) {
	seconds, first := 0.0, rand.Uint64()
	_, _ = fmt.Sscan(os.Getenv("PILOTFISH_WORLDS"), &seconds, &first) // what is not there stays
	for seed := range uint64(worldKinds) {
		assert.Positive(t, world{Seed: seed}.play(t).Ahead, "without faults")
	}
	for seed := range uint64(16) {
		for _, script := range lessons {
			require.Empty(t, world{seed, script}.play(t).Wrong, "%v", script)
		}
	}
	begin := time.Now()
	var begun, played atomic.Uint64
	var failed atomic.Bool
	more := func() {
		for !failed.Load() {
			seed := begun.Add(1) - 1
			if seed >= 20 {
				if time.Since(begin).Seconds() > seconds {
					return
				}
				seed += first
			}
			w := world{seed, scriptOf(seed)}
			if wrong := w.play(t).Wrong; len(wrong) > 0 && !failed.Swap(true) {
				assert.Fail(t, "a world went wrong", "%v", w.shrink(t, wrong))
			}
			played.Add(1)
		}
	}
	var all sync.WaitGroup
	if bubble.Exact { // in processes of one thread each
		for range runtime.NumCPU() - 1 {
			all.Go(more)
		}
	}
	more()
	all.Wait()
	t.Logf("%d worlds", played.Load())
}

// courseMark is printed before the course of a world.
const courseMark = "\ncourse: "

// shrink leaves out the faults without which something still goes wrong, for a minute, and describes what is left. What
// went wrong at first is kept: where bubbles are not exact, it may not go wrong again.
func (w world) shrink(t *testing.T, wrong []string) string {
	begin := time.Now()
	for i := 0; i < len(w.Script) && time.Since(begin) < time.Minute; {
		fewer := world{w.Seed, slices.Delete(slices.Clone(w.Script), i, i+1)}
		if still := fewer.play(t).Wrong; len(still) > 0 {
			w, wrong = fewer, still
		} else {
			i++
		}
	}
	text, _ := json.Marshal(w) // cannot fail
	return fmt.Sprintf("%v\nmake worlds WORLD='%s'", wrong, text)
}

// play plays a world. Where bubbles are exact it does so in another process, in which nothing was before, and which is
// ended after a minute: usual is a tenth of a second.
func (w world) play(t *testing.T) (c course) {
	if !bubble.Exact {
		return w.playHere(t)
	}
	text, err := json.Marshal(w)
	if err != nil {
		return course{Wrong: []string{err.Error()}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestWorld$", "-test.v")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it prints its stacks
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "PILOTFISH_WORLD="+string(text))
	out, ended := cmd.CombinedOutput()
	if _, text, found := bytes.Cut(out, []byte(courseMark)); found {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&c)
	} else {
		err = fmt.Errorf("%w: %s", ended, out[:min(len(out), 4000)])
	}
	if err != nil {
		c.Wrong = append(c.Wrong, err.Error())
	}
	return c
}

func (w world) playHere(t *testing.T) (c course) {
	defer func() {
		if p := recover(); p != nil { // something was left at the end
			panic(fmt.Sprintf("seed %d: %v", w.Seed, p))
		}
	}()
	bubble.Seeded(t, w.Seed, func(t *testing.T) {
		certificate, key, err := gateway.NewCertificate("gateway")
		require.NoError(t, err)
		pair, err := tls.X509KeyPair(certificate, key)
		require.NoError(t, err)
		s := newSimulation(w.Seed, pair)
		s.play(w.Script)
		c = course{Wrong: s.wrong, Ahead: s.ahead, Sent: s.sky.sent.Sum64()}
	})
	return c
}

func newSimulation(seed uint64, pair tls.Certificate) *simulation {
	random := rand.New(rand.NewPCG(seed, 3))
	w := &simulation{seed: seed, sky: &sky{r: random, port: 50000, sent: fnv.New64a()}, pair: pair,
		keys: []gateway.TicketKey{{1}}}
	for i := range worldReplicas {
		w.replicas = append(w.replicas, newReplica(w, i))
	}
	for _, name := range []string{"a", "b"} {
		secret := netproto.Secret("sixteen bytes of " + name)
		w.tokens = append(w.tokens, gateway.Token{Name: name, Secret: secret})
	}
	for i := range worldDevices {
		w.links = append(w.links, &skyLink{sky: w.sky, home: netip.AddrFrom4([4]byte{10, 1, byte(i), 1}),
			nodes: map[uint16]simnet.PacketReceiver{}})
	}
	w.sky.links = w.links
	return w
}

// play lets the devices write for 20 s, while the faults of the script come and go.
func (w *simulation) play(script []fault) {
	w.openAll()
	w.begin = time.Now()
	var all sync.WaitGroup
	for i := range worldDevices {
		all.Go(func() { w.device(i, w.begin.Add(20*time.Second)) })
	}
	for _, f := range script {
		all.Go(func() {
			time.Sleep(f.At)
			w.change(faults[f.Kind].begin, f)
			time.Sleep(f.Lasts)
			w.change(faults[f.Kind].end, f)
		})
	}
	all.Wait()
	for _, r := range w.replicas {
		r.drain()
	}
	if w.sky.open > 0 {
		w.sayf("%d sockets are left", w.sky.open)
	}
	if w.answered < 20 { // usually some hundreds: a world without answers proves nothing
		w.sayf("only %d questions were answered, %d were not", w.answered, w.refused)
	}
}
