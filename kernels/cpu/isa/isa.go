// Package isa lists the instruction sets that kernels are written for, detects which of them this CPU offers, and
// chooses the one in use. Kernels of different packages ask here, so that all of them use the same one.
package isa

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Env is the environment variable that names the instruction set to use in place of the best one.
const Env = "PILOTFISH_CPU"

// The names of the instruction sets.
const (
	Generic = "generic" // plain Go

	AVX2       = "avx2"       // amd64: AVX2, FMA and F16C
	AVXVNNI    = "avxvnni"    // and AVX-VNNI
	AVX512VNNI = "avx512vnni" // AVX2's and AVX-512 F, BW, DQ, VL and VNNI
	AMX        = "amx"        // and AMX for signed bytes

	NEON    = "neon"    // arm64: every CPU
	DotProd = "dotprod" // and SDOT: nearly all since 2018
	I8MM    = "i8mm"    // and SMMLA: Apple's from the M2 on, Arm's from 2021 on
)

// Choose returns the instruction set that [Env] names, or the last of offered if [Env] is empty. If [Env] names one
// that is not offered, it returns the first, and an error that lists the offered ones.
func Choose(offered []string) (string, error) { return chooseNamed(os.Getenv(Env), offered) }

func chooseNamed(name string, offered []string) (string, error) {
	switch {
	case name == "":
		return offered[len(offered)-1], nil
	case slices.Contains(offered, name):
		return name, nil
	}
	return offered[0], fmt.Errorf("%s=%s: this CPU and build offer %s", Env, name, strings.Join(offered, ", "))
}
