package cpu

import (
	"sync"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"
)

// Env is the environment variable that names the instruction set to use in place of the best one: "generic", "avx2", …
const Env = isa.Env

// of returns the table of an instruction set.
func of(set string) *kernels {
	k := functions(set)
	k.name = set
	return k
}

// offered returns the names of the instruction sets that this CPU offers, plain Go first, the best one last.
var offered = sync.OnceValue(isa.Offered)

// variants returns the tables of the offered instruction sets, in the same order.
func variants() []*kernels {
	var all []*kernels
	for _, set := range offered() {
		if k := of(set); right(k) {
			all = append(all, k)
		}
	}
	return all
}

// chosen is the table in use, decided once.
var chosen = sync.OnceValues(func() (*kernels, error) {
	set, err := isa.Choose(Variants())
	return of(set), err
})

// kernelsInUse returns the table in use. If [Detect] refuses the name in [Env], it is the generic one.
func kernelsInUse() *kernels {
	k, _ := chosen()
	return k
}

// Detect returns the name of the instruction set in use, such as "avx2", and an error if [Env] names one that this CPU
// or build does not have. A program calls it once at start; the operations do not report the error and run in plain Go
// in that case.
func Detect() (string, error) {
	k, err := chosen()
	return k.name, err
}

// Features returns the name of the instruction set in use, for reports.
func Features() string { return kernelsInUse().name }

// Variants returns the names of all instruction sets that this CPU and build offer, plain Go first, the best one last.
func Variants() []string {
	var names []string
	for _, k := range variants() {
		names = append(names, k.name)
	}
	return names
}
