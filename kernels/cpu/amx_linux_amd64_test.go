//go:build !noasm

package cpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"
)

// amxChild is set in the environment of the process that TestAMX starts: it offers the variant amx on any CPU.
const amxChild = "PILOTFISH_TEST_AMX"

func init() {
	if os.Getenv(amxChild) != "" {
		offered = func() []string { return append(isa.Offered(), isa.AMX) }
	}
}

// TestAMX runs tests of this package with the variant amx on a CPU without AMX, in another process, which stops with
// SIGILL at each AMX instruction. This process then executes the instruction in its place, with the checks of a CPU.
func TestAMX(t *testing.T) {
	racing.Spare(t)
	switch names := Variants(); {
	case slices.Contains(names, "amx"):
		return // all tests of this package run natively
	case slices.Contains(isa.Offered(), isa.AMX):
		t.Fatal("the microkernels for AMX give other results than those for AVX-512 on this CPU")
	case !slices.Contains(names, "avx512vnni"):
		t.Skip("the microkernels for AMX also use AVX-512, which this CPU lacks")
	}
	runtime.LockOSThread() // a process is traced by one thread
	defer runtime.UnlockOSThread()
	out, err := os.CreateTemp(t.TempDir(), "output")
	require.NoError(t, err)
	defer out.Close()
	const tests = "-test.run=^Test(Tile|MatMul|Peak$)/^amx$"
	args := []string{os.Args[0], tests, "-test.v", "-test.timeout=2m"}
	pid, err := syscall.ForkExec(os.Args[0], args, &syscall.ProcAttr{
		Env:   append(os.Environ(), amxChild+"=1"),
		Files: []uintptr{0, out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		sharedtest.Missing(t, fmt.Errorf("processes cannot be traced here: %w", err))
	}
	tr := tracer{pid: pid, tiles: map[int]*amxState{}, done: map[string]int{}}
	status, err := tr.run()
	printed, _ := os.ReadFile(out.Name())
	require.NoError(t, err, "%s", printed)
	require.True(t, status.Exited() && status.ExitStatus() == 0, "the tests: %s", printed)
	require.Contains(t, string(printed), "--- PASS: TestTile/amx")
	for _, name := range []string{"LDTILECFG", "TILERELEASE", "TILELOADD", "TILESTORED", "TILEZERO", "TDPBSSD"} {
		require.NotZero(t, tr.done[name], name)
	}
	t.Log(tr.done)
}

// TestSameTiles: a microkernel with a wrong sum in one format is not used.
func TestSameTiles(t *testing.T) {
	if !slices.Contains(Variants(), "avx512vnni") {
		t.Skip("this CPU lacks AVX-512")
	}
	require.True(t, sameTiles(avx512vnni(), avx512vnni()))
	for f := range formats {
		wrong := avx512vnni()
		right := wrong.tile[f]
		wrong.tile[f] = func(a *tileArgs) {
			right(a)
			acc := unsafe.Slice(a.acc, a.accBytes/4)
			acc[len(acc)/2+int(f)]++
		}
		require.False(t, sameTiles(wrong, avx512vnni()), f.blockType())
	}
}

// tracer executes the tile instructions of a process.
type tracer struct {
	pid   int
	tiles map[int]*amxState // by thread
	done  map[string]int    // number of instructions by name
}

// run lets the process run until it exits, or until a wrong instruction.
func (tr *tracer) run() (syscall.WaitStatus, error) {
	defer syscall.Kill(tr.pid, syscall.SIGKILL)
	const killed = 0x100000 // PTRACE_O_EXITKILL
	started := false
	var wrong error
	for {
		var ws syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &ws, syscall.WALL|syscall.WNOTHREAD, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return ws, errors.Join(wrong, err)
		case !ws.Stopped():
			if s := tr.tiles[tid]; s != nil && s.configured {
				wrong = errors.Join(wrong, errors.New("a thread ends with tiles that are not released"))
			}
			if tid == tr.pid {
				return ws, wrong
			}
			continue
		}
		if !started {
			started = true
			const options = syscall.PTRACE_O_TRACECLONE | syscall.PTRACE_O_TRACEEXEC | killed
			if err := syscall.PtraceSetOptions(tid, options); err != nil {
				return ws, err
			}
		}
		sig := ws.StopSignal()
		switch sig {
		case syscall.SIGSTOP, syscall.SIGTRAP: // a new thread or program
			sig = 0
		case syscall.SIGILL:
			if err := tr.step(tid); err != nil {
				wrong = errors.Join(wrong, err) // and the process dies of the signal, with its position
			} else {
				sig = 0
			}
		}
		if err := syscall.PtraceCont(tid, int(sig)); err != nil && err != syscall.ESRCH {
			return ws, errors.Join(wrong, err)
		}
	}
}

// step executes the instruction at which thread tid has stopped.
func (tr *tracer) step(tid int) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	var code [16]byte
	if err := readMemory(tr.pid, regs.Rip, code[:]); err != nil {
		return err
	}
	if tr.tiles[tid] == nil {
		tr.tiles[tid] = new(amxState)
	}
	i, err := decode(code[:], &regs)
	if err == nil {
		err = tr.tiles[tid].do(i, tr.pid)
	}
	if err != nil {
		return fmt.Errorf("%s (% x): %w", i.name, code, err)
	}
	tr.done[i.name]++
	regs.Rip += uint64(i.size)
	return syscall.PtraceSetRegs(tid, &regs)
}

// instruction is an AMX instruction: tiles by number, and the address in memory if there is one.
type instruction struct {
	name         string
	size         int
	dst, a, b    int
	addr, stride uint64
	strided      bool
}

// decode splits an instruction: three bytes of VEX, opcode, ModRM, perhaps SIB and a displacement.
func decode(code []byte, regs *syscall.PtraceRegs) (i instruction, err error) {
	modrm := code[4]
	mod, reg, rm := modrm>>6, int(modrm>>3&7), int(modrm&7)
	const register, operand = true, false
	names := map[[3]any]string{ // by prefix, opcode, kind of operand
		{byte(0), byte(0x49), operand}: "LDTILECFG", {byte(0), byte(0x49), register}: "TILERELEASE",
		{byte(3), byte(0x4b), operand}: "TILELOADD", {byte(2), byte(0x4b), operand}: "TILESTORED",
		{byte(3), byte(0x49), register}: "TILEZERO", {byte(3), byte(0x5e), register}: "TDPBSSD",
	}
	i.name = names[[3]any{code[2] & 3, code[3], mod == 3}]
	i.dst, i.a, i.b, i.size = reg, rm, int(^code[2]>>3&15), 5
	switch {
	case code[0] != 0xc4 || code[1]&0x9f != 0x82 || code[2]&0x84 != 0 || i.name == "":
		return i, errors.New("not a known instruction")
	case i.name != "TDPBSSD" && i.b != 0:
		return i, errors.New("an unused second source")
	case (i.name == "LDTILECFG" || i.name == "TILERELEASE") && reg != 0,
		(i.name == "TILERELEASE" || i.name == "TILEZERO") && rm != 0:
		return i, errors.New("not an instruction")
	case i.name == "TDPBSSD" && (i.b > 7 || code[1] != 0xe2):
		return i, errors.New("no such tile")
	case mod == 3:
		return i, nil
	}
	values := []uint64{
		regs.Rax, regs.Rcx, regs.Rdx, regs.Rbx, regs.Rsp, regs.Rbp, regs.Rsi, regs.Rdi,
		regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15,
	}
	base := rm
	if rm == 4 {
		sib := code[5]
		base = int(sib & 7)
		if index := int(sib>>3&7) | int(^code[1]>>6&1)<<3; index != 4 {
			i.stride, i.strided = values[index]<<(sib>>6), true
		}
		i.size++
	}
	if mod == 0 && base == 5 {
		return i, errors.New("an address without a base")
	}
	i.addr = values[base|int(^code[1]>>5&1)<<3]
	switch mod {
	case 1:
		i.addr += uint64(int8(code[i.size]))
		i.size++
	case 2:
		i.addr += uint64(int32(binary.LittleEndian.Uint32(code[i.size:])))
		i.size += 4
	}
	return i, nil
}

// amxState is the AMX state of a thread.
type amxState struct {
	configured bool
	tile       [8]amxTile
}

type amxTile struct {
	rows, bytes int
	data        [16][64]byte
}

// do executes instruction i of process pid, or returns why a CPU would fault. It also refuses to configure tiles that
// are configured: a microkernel that does not release them would leave them to Go code.
func (s *amxState) do(i instruction, pid int) error {
	dst := &s.tile[i.dst]
	switch {
	case i.name == "LDTILECFG":
		if s.configured {
			return errors.New("the tiles were not released")
		}
		return s.configure(i, pid)
	case !s.configured:
		return errors.New("the tiles are not configured")
	case i.name == "TILERELEASE":
		*s = amxState{}
		return nil
	case dst.rows == 0:
		return errors.New("the tile is not configured")
	case i.name == "TILEZERO":
		dst.data = [16][64]byte{}
		return nil
	case i.name == "TDPBSSD":
		return s.multiply(i)
	case !i.strided:
		return errors.New("the rows of a tile in memory have no stride")
	}
	if i.name == "TILELOADD" {
		dst.data = [16][64]byte{}
	}
	for r := range dst.rows {
		move := readMemory
		if i.name == "TILESTORED" {
			move = writeMemory
		}
		if err := move(pid, i.addr+uint64(r)*i.stride, dst.data[r][:dst.bytes]); err != nil {
			return err
		}
	}
	return nil
}

func (s *amxState) configure(i instruction, pid int) error {
	var c [64]byte
	if err := readMemory(pid, i.addr, c[:]); err != nil {
		return err
	}
	if c[0] != 1 || c[1] != 0 {
		return fmt.Errorf("palette %d, first row %d", c[0], c[1])
	}
	for _, zero := range [][]byte{c[2:16], c[32:48], c[56:]} {
		if slices.Max(zero) != 0 {
			return errors.New("a reserved byte is not zero")
		}
	}
	for n := range s.tile {
		rows, bytes := int(c[48+n]), int(binary.LittleEndian.Uint16(c[16+2*n:]))
		if rows > 16 || bytes > 64 || (rows == 0) != (bytes == 0) {
			return fmt.Errorf("tile %d of %d rows of %d bytes", n, rows, bytes)
		}
		s.tile[n] = amxTile{rows: rows, bytes: bytes}
	}
	s.configured = true
	return nil
}

// multiply adds to the dwords of dst the products of signed bytes of a and b: dst[m,n] += Σₖ Σⱼ a[m,4k+j]·b[k,4n+j].
func (s *amxState) multiply(i instruction) error {
	c, a, b := &s.tile[i.dst], &s.tile[i.a], &s.tile[i.b]
	switch {
	case i.dst == i.a || i.dst == i.b || i.a == i.b:
		return errors.New("the same tile twice")
	case c.bytes%4 != 0 || a.bytes%4 != 0 || b.bytes%4 != 0,
		c.rows != a.rows || c.bytes != b.bytes || a.bytes/4 != b.rows:
		return fmt.Errorf("tiles of %d x %d, %d x %d and %d x %d bytes",
			c.rows, c.bytes, a.rows, a.bytes, b.rows, b.bytes)
	}
	for m := range c.rows {
		for n := range c.bytes / 4 {
			word := c.data[m][4*n:]
			sum := int32(binary.LittleEndian.Uint32(word))
			for k := range b.rows {
				for j := range 4 {
					sum += int32(int8(a.data[m][4*k+j])) * int32(int8(b.data[k][4*n+j]))
				}
			}
			binary.LittleEndian.PutUint32(word, uint32(sum))
		}
	}
	return nil
}

// readMemory copies the memory of process pid at addr to p; writeMemory the other way. They fail if the process itself
// would fault.
func readMemory(pid int, addr uint64, p []byte) error {
	return transfer(unix.ProcessVMReadv, pid, addr, p)
}

func writeMemory(pid int, addr uint64, p []byte) error {
	return transfer(unix.ProcessVMWritev, pid, addr, p)
}

func transfer(f func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), pid int, addr uint64, p []byte) error {
	local := []unix.Iovec{{Base: &p[0], Len: uint64(len(p))}}
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}
	if n, err := f(pid, local, remote, 0); err != nil || n != len(p) {
		return fmt.Errorf("memory at %#x: %d of %d bytes: %w", addr, n, len(p), err)
	}
	return nil
}
