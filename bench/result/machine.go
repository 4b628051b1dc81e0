package result

import (
	"os"
	"runtime"

	"github.com/klauspost/cpuid/v2"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
)

// Machine is what a measurement ran on. What the system does not tell is absent.
type Machine struct {
	CPU       string `json:"cpu"`                    // as it names itself
	Cores     int    `json:"cores"`                  // logical ones that this process may use
	OS        string `json:"os"`                     //
	Arch      string `json:"arch"`                   //
	Kernels   string `json:"kernels"`                // those of package kernels/cpu in use
	Memory    int64  `json:"memory_bytes,omitempty"` //
	Cache     int64  `json:"cache_bytes,omitempty"`  // the last one before memory
	Page      int    `json:"page_bytes"`             //
	HugePages string `json:"huge_pages,omitempty"`   // Linux: when the kernel gives them, such as madvise
	// 1e9 bytes per second: all cores reading memory, just before the measurement
	Bandwidth  float64 `json:"bandwidth_gbs,omitempty"`
	Load       float64 `json:"load,omitempty"`    // processes that wanted to run, mean of the minute before
	VirtualCPU bool    `json:"virtual,omitempty"` // in a virtual machine
}

// ThisMachine describes the machine, without its bandwidth: [Bandwidth] takes time.
func ThisMachine() Machine {
	m := Machine{
		CPU: cpuid.CPU.BrandName, Cores: runtime.GOMAXPROCS(0), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Kernels: cpu.Features(), Page: os.Getpagesize(), HugePages: hugePages(), VirtualCPU: cpuid.CPU.VM(),
		Cache: CacheBytes(),
	}
	if v, err := mem.VirtualMemory(); err == nil {
		m.Memory = int64(v.Total)
	}
	if l, err := load.Avg(); err == nil {
		m.Load = l.Load1
	}
	return m
}

// minFar and maxFar bound the memory that bandwidths are measured with, in bytes.
const (
	minFar = 256 << 20
	maxFar = 512 << 20
)

// CacheBytes is the size of the last cache before memory; 0 where the CPU does not say.
func CacheBytes() int64 { return int64(max(cpuid.CPU.Cache.L3, cpuid.CPU.Cache.L2, 0)) }

// FarBytes is the size of a memory of which the caches hold only a part: at least 256 MiB.
func FarBytes() int { return int(min(max(minFar, 2*CacheBytes()), maxFar)) }

// Touched writes to every page of b, which it returns: pages that were not written may all be one page of zeros.
func Touched(b []byte) []byte {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// Bandwidth is how fast all cores read memory that no cache holds, in 1e9 bytes per second: the better of two passes,
// in a quarter of a second or so.
func Bandwidth() float64 {
	far, n := Touched(make([]byte, FarBytes())), runtime.GOMAXPROCS(0)
	return max(cpu.ReadBandwidth(n, far), cpu.ReadBandwidth(n, far)) / 1e9
}
