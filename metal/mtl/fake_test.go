//go:build linux && (amd64 || arm64)

package mtl

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/stretchr/testify/require"
)

// fake is an Objective-C runtime with the part of Metal that this package uses. It runs kernels on another
// metal.Device, and records every use that would cause a crash, a leak or wrong results with Apple's: see fault. C
// code, which the test compiles, forwards each call to fake.receive.
type fake struct {
	gpu     metal.Device      // runs the kernels
	without map[string]bool   // selectors that this system lacks, because they are newer
	none    bool              // there is no device
	name    string            // of the device; empty: that of gpu
	limits  func(*fakeLimits) // changes the limits of pipelines and the device
	failure string            // error of the next command buffer that is committed
	dead    map[*object]bool  // command queues with a command buffer that failed
	refuses map[string]bool   // selectors that return nil: out of memory

	abandoned bool // a fault was planted: leaks do not count

	mu        sync.Mutex
	faults    []string
	methods   map[string]map[string]method // by class and selector
	selectors map[uintptr]string
	objects   map[uintptr]*object // including released ones
	classes   map[string]*object
	pools     map[int][]*fakePool // by thread
	inFlight  []*object           // command buffers, committed and not known to be complete
	families  []uintptr           // of the GPU
	encodings map[string]string   // of methods, by selector: testdata/apple.txt
	counts    map[string]int      // messages by selector
	last      [2]metal.Size       // threadgroups and threads of the last dispatch
	next      uintptr
}

// method handles a message to an object.
type method func(f *fake, self *object, c *fakeCall)

// fakeCall is struct call of fake.c.
type fakeCall struct {
	function uintptr
	words    [8]uintptr
	stack    *[16]uintptr
	result   *size
	value    uintptr
	seconds  float64
}

// The numbers of the C functions in fakeCall.
const (
	callSend = iota
	callSendStret
	callRegisterName
	callGetClass
	callPoolPush
	callPoolPop
	callCreateDevice
	callThreadSelf
	callGetObjectClass
	callGetTypeEncoding
	callGetInstanceMethod
)

// arg returns the argument after the i-th colon of a message without arguments that are structures.
func (c *fakeCall) arg(i int) uintptr {
	registers := 6 // of integer arguments on amd64
	if runtime.GOARCH == "arm64" {
		registers = 8
	}
	if i+2 < registers {
		return c.words[i+2]
	}
	return c.stack[i+2-registers]
}

// sizes returns the arguments of a message with two MTLSize.
func (c *fakeCall) sizes() (a, b size) {
	if runtime.GOARCH == "arm64" {
		return *(*size)(cPointer(c.words[2])), *(*size)(cPointer(c.words[3]))
	}
	return *(*size)(unsafe.Pointer(&c.stack[0])), *(*size)(unsafe.Pointer(&c.stack[3]))
}

// returnSize returns an MTLSize like objc_msgSend, or objc_msgSend_stret on amd64.
func (c *fakeCall) returnSize(f *fake, s size) {
	if c.result == nil || (c.function == callSendStret) != (runtime.GOARCH == "amd64") {
		f.fault("a large result through the wrong entry point")
		return
	}
	*c.result = s
}

//go:embed testdata/fake/fake.c
var fakeSource []byte

// current is the fake that handles C calls. Tests of this package run one after the other.
var current atomic.Pointer[fake]

// folder is the build folder of fake.c, which is removed when the tests end.
var folder = filepath.Join(os.TempDir(), fmt.Sprintf("pilotfish-fake-objc-%d", os.Getpid()))

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// fakeLibrary compiles fake.c and loads it, once: also on an emulated arm64 (make arm64), with the clang of the host.
// PILOTFISH_FAKE_OBJC names a compiled one for machines without clang.
var fakeLibrary = sync.OnceValues(func() (path string, err error) {
	if path = os.Getenv("PILOTFISH_FAKE_OBJC"); path == "" {
		path = filepath.Join(folder, "libfakeobjc.so")
		if err := compileFake(path); err != nil {
			return "", err
		}
	}
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return "", err
	}
	setReceiver, err := purego.Dlsym(library, "fake_set_receiver")
	if err != nil {
		return "", err
	}
	purego.SyscallN(setReceiver, purego.NewCallback(func(c *fakeCall) uintptr {
		current.Load().receive(c)
		return 0
	}))
	return path, nil
})

func compileFake(path string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path+".c", fakeSource, 0o600); err != nil {
		return err
	}
	target := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	out, err := exec.Command("clang-19", "--target="+target, "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
		"-nostdlib", "-fuse-ld=lld", "-fvisibility=hidden", "-o", path, path+".c").CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile fake.c: %w\n%s", err, out)
	}
	return nil
}

// buildFake returns the path of the compiled fake.
func buildFake(t testing.TB) string {
	t.Helper()
	if os.Getenv("PILOTFISH_FAKE_OBJC") == "" {
		needClang(t)
	}
	path, err := fakeLibrary()
	require.NoError(t, err)
	return path
}

// objectsFrom is beyond all addresses of memory, so that an object in place of an address or a number is detected.
const objectsFrom = 1 << 48

// newFake installs a fake that runs kernels on gpu. At the end of the test it must have recorded no fault, and no
// object or pool may be left.
func newFake(t testing.TB, gpu metal.Device) *fake {
	t.Helper()
	buildFake(t)
	f := &fake{
		gpu:       gpu,
		without:   map[string]bool{},
		dead:      map[*object]bool{},
		refuses:   map[string]bool{},
		methods:   fakeMethods(),
		selectors: map[uintptr]string{},
		objects:   map[uintptr]*object{},
		classes:   map[string]*object{},
		pools:     map[int][]*fakePool{},
		counts:    map[string]int{},
		next:      objectsFrom,
		families:  []uintptr{1007, 2002, 3003, 5001}, // Apple7, Mac2, Common3, Metal3
		encodings: appleEncodings(),
	}
	require.Nil(t, current.Swap(f), "a fake is already installed")
	t.Cleanup(func() {
		defer current.Store(nil)
		if f.abandoned {
			return
		}
		for _, fault := range f.takeFaults() {
			t.Errorf("fault: %s", fault)
		}
		for _, left := range f.left() {
			t.Errorf("left over: %s", left)
		}
		require.NoError(t, gpu.Close())
	})
	return f
}

// open opens the fake's device. It is closed at the end of the test.
func (f *fake) open(t testing.TB) *Device {
	t.Helper()
	d, err := Open(Options{Libraries: []string{buildFake(t)}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// receive handles every C call.
func (f *fake) receive(c *fakeCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.value, c.seconds = 0, 0
	switch c.function {
	case callSend, callSendStret:
		f.send(c)
	case callRegisterName:
		c.value = f.registerName(cText(c.words[0]))
	case callGetClass:
		c.value = f.getClass(cText(c.words[0]))
	case callPoolPush:
		c.value = f.pushPool(syscall.Gettid())
	case callPoolPop:
		f.popPool(syscall.Gettid(), c.words[0])
	case callCreateDevice:
		if !f.none {
			c.value = f.newObject("MTLDevice", nil).address
		}
	case callThreadSelf:
		c.value = uintptr(syscall.Gettid())
	case callGetObjectClass:
		c.value = c.words[0] // the checks below need the object itself
	case callGetInstanceMethod:
		c.value = f.getMethod(c.words[0], c.words[1])
	case callGetTypeEncoding:
		c.value = c.words[0]
	}
}

// fault records a use that would be an error with Apple's runtime.
func (f *fake) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// takeFaults returns the faults since the last call.
func (f *fake) takeFaults() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.faults
	f.faults = nil
	return taken
}

// left returns the live objects and pools.
func (f *fake) left() (left []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.objects {
		if o.refs > 0 && !o.isClass {
			left = append(left, fmt.Sprintf("%s with %d references", o.class, o.refs))
		}
	}
	for thread, pools := range f.pools {
		for range pools {
			left = append(left, fmt.Sprintf("an autorelease pool of thread %d", thread))
		}
	}
	slices.Sort(left)
	return left
}

// abandon disables the check for leaks after a planted fault.
func (f *fake) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.abandoned = true
	for _, o := range f.objects {
		if o.class == "NSString" && o.refs > 0 {
			o.dealloc()
		}
	}
}
