package gpu

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// pipelineCache compiles each pipeline once: when a pass needs it, or before in the background, in the order in which
// passes will need them. A model has up to a hundred. macOS keeps what it has compiled, as Skia (bug 12141) and Blender
// (D14763, which says that the system may forget it) rely on too, so that only the first start has to wait.
type pipelineCache struct {
	compile func(pipelineKey) (metal.Pipeline, error)
	notice  func(string) // nil after the first notice

	mu      sync.Mutex
	all     map[pipelineKey]*compilation
	later   []pipelineKey // to be compiled in the background
	workers int
	closed  bool
	running sync.WaitGroup
}

// compilation is a pipeline that is compiled or being compiled.
type compilation struct {
	ready    chan struct{} // closed when the others are set
	pipeline metal.Pipeline
	err      error
}

// add adds a pipeline that is compiled already.
func (c *pipelineCache) add(key pipelineKey, p metal.Pipeline) {
	one := &compilation{ready: make(chan struct{}), pipeline: p}
	close(one.ready)
	c.all[key] = one
}

// get returns a pipeline. It compiles it, or waits for that, if need be.
func (c *pipelineCache) get(key pipelineKey) (metal.Pipeline, error) {
	one, mine := c.claim(key)
	select {
	case <-one.ready:
		return one.pipeline, one.err
	default:
	}
	long := time.AfterFunc(noticeAfter, c.tellWait)
	defer long.Stop()
	if mine {
		c.finish(key, one)
	}
	<-one.ready
	return one.pipeline, one.err
}

// noticeAfter is how long a pass may wait for a kernel before the user is told.
const noticeAfter = time.Second / 2

func (c *pipelineCache) tellWait() {
	c.mu.Lock()
	tell := c.notice
	c.notice = nil
	c.mu.Unlock()
	if tell != nil {
		tell("the GPU's kernels are being compiled: the first answer waits for those that it needs")
	}
}

// claim returns the compilation of key, and whether the caller has to do it.
func (c *pipelineCache) claim(key pipelineKey) (one *compilation, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one = c.all[key]; one == nil {
		one, mine = &compilation{ready: make(chan struct{})}, true
		c.all[key] = one
	}
	return one, mine
}

func (c *pipelineCache) finish(key pipelineKey, one *compilation) {
	one.pipeline, one.err = c.compile(key)
	close(one.ready)
}

// prepare has keys compiled in the background, in their order.
func (c *pipelineCache) prepare(keys []pipelineKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if c.all[key] == nil && !slices.Contains(c.later, key) {
			c.later = append(c.later, key)
		}
	}
	slices.SortFunc(c.later, pipelineKey.compareKey)
	for c.workers < min(len(c.later), runtime.GOMAXPROCS(0)) {
		c.workers++
		c.running.Go(c.compileLater)
	}
}

func (c *pipelineCache) compileLater() {
	for {
		key, ok := c.takeLater()
		if !ok {
			return
		}
		if one, mine := c.claim(key); mine {
			c.finish(key, one)
		}
	}
}

// takeLater returns the next key of those for the background; ok is false when its worker should end.
func (c *pipelineCache) takeLater() (key pipelineKey, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.later) == 0 {
		c.workers--
		return key, false
	}
	key = c.later[0]
	c.later = c.later[1:]
	return key, true
}

// await waits for the background, and returns the first error of a pipeline.
func (c *pipelineCache) await() error {
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(c.all), pipelineKey.compareKey) {
		if err := c.all[key].err; err != nil {
			return err
		}
	}
	return nil
}

// closeAll ends the background, and closes all pipelines. No pass runs or begins.
func (c *pipelineCache) closeAll() {
	c.mu.Lock()
	c.closed, c.later = true, nil
	c.mu.Unlock()
	c.running.Wait()
	for _, one := range c.all {
		if one.pipeline != nil {
			one.pipeline.Close()
		}
	}
	clear(c.all)
}
