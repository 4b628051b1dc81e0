package record

import (
	"runtime"

	"github.com/klauspost/cpuid/v2"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
)

// Machine describes the machine of a measurement. Fields that the system does not report are absent.
type Machine struct {
	CPU     string `json:"cpu"`                    // its model name
	Cores   int    `json:"cores"`                  // logical cores available to this process
	System  string `json:"system"`                 // such as linux/amd64
	Kernels string `json:"kernels"`                // the variant of package kernels/cpu in use
	Memory  int64  `json:"memory_bytes,omitempty"` //
	// 1e9 bytes per second: all cores reading memory, just before the measurement
	Bandwidth  float64 `json:"bandwidth_gbs,omitempty"`
	Load       float64 `json:"load,omitempty"`    // average number of runnable processes in the minute before
	VirtualCPU bool    `json:"virtual,omitempty"` // it is a virtual machine
}

// ThisMachine describes the machine, without its bandwidth, since measuring [Bandwidth] takes time.
func ThisMachine() Machine {
	m := Machine{
		CPU: cpuid.CPU.BrandName, Cores: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH,
		Kernels: cpu.Features(), VirtualCPU: cpuid.CPU.VM(),
	}
	if v, err := mem.VirtualMemory(); err == nil {
		m.Memory = int64(v.Total)
	}
	if l, err := load.Avg(); err == nil {
		m.Load = l.Load1
	}
	return m
}

// minFar and maxFar are limits of the size of memory for measuring bandwidths, in bytes.
const (
	minFar = 256 << 20
	maxFar = 512 << 20
)

// CacheBytes returns the size of the last-level cache; 0 if the CPU does not report it.
func CacheBytes() int64 { return int64(max(cpuid.CPU.Cache.L3, cpuid.CPU.Cache.L2, 0)) }

// FarBytes returns a size of memory that is larger than the caches: at least 256 MiB.
func FarBytes() int { return farBytesFor(CacheBytes()) }

func farBytesFor(cache int64) int { return int(min(max(minFar, 2*cache), maxFar)) }

// Touched writes to every page of b, which it returns: unwritten pages may all be mapped to the same page of zeros.
func Touched(b []byte) []byte {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// Bandwidth measures how fast all cores read uncached memory, in 1e9 bytes per second: the better of two passes, which
// take about a quarter of a second.
func Bandwidth() float64 {
	return measureBandwidth(cpu.ReadBandwidth)
}

func measureBandwidth(read func(threads int, memory ...[]byte) float64) float64 {
	far, n := Touched(make([]byte, FarBytes())), runtime.GOMAXPROCS(0)
	return max(read(n, far), read(n, far)) / 1e9
}
