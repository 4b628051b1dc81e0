// Package translate makes a shared library for this processor of the source of Metal kernels: a compiler driver.
// Package soft, the software Metal device, loads the library and runs it; nothing is loaded or run here.
//
//	.metal source
//	     │  clang -E             clang.go: macros are expanded, line markers keep the locations of the source
//	  preprocessed text
//	     │  lex                  lexer.go
//	  tokens
//	     │  parse                parse.go: declarations; among them kernels (kernel.go, templates.go), function
//	     │                       constants (constants.go), bodies (body.go), constructors of vectors (vectors.go)
//	  translation unit           unit.go: kernels, function constants, problems, and edits of the text (edit.go)
//	     │  lint                 lint.go: what clang takes and Metal does not is a problem
//	     │  emit                 emit.go: C++ of two kinds
//	     ├────────────┐
//	  text to run  strict text   the source with its edits, and a call of each kernel
//	     │            └─────▶    clang -fsyntax-only: address spaces apart, refuses what Metal would refuse
//	     │  clang -c             with msl/metal.h in place of <metal_stdlib>, optimised as a [Variant] says
//	  object file
//	     │  ld.lld               with msl/runtime.cpp and msl/check.cpp, the runtime that kernels call
//	  library-….so               compiler.go, cache.go: named by all that it is made from, so that it is made once
//
// The seam to package soft: [Compiler.Build] returns the path of a library. The library exports six functions, marked
// EXPORT in msl/runtime.cpp: msl_describe returns a [Description] as JSON, msl_run runs a dispatch. [ReadLines] tells
// from which line of the source an instruction of the library comes.
//
// Errors in the source are a [*metal.CompileError] with file and line; #line directives are obeyed. Where there is no
// compiler or linker the error is [metal.ErrNoDevice].
package translate

// Variant says how kernels are compiled, and so what is checked as they run.
type Variant string

// The variants.
const (
	Fast  Variant = "fast"  // optimised; finds divergence only
	Check Variant = "check" // checks every access, on one thread, and finds what UBSan finds
)

// Limits of kernels in the parser and the runtime. Those of Metal are Apple's.
const (
	MaxThreads    = 1024 // of a threadgroup
	MaxBuffers    = 31   // [[buffer(0)]] to [[buffer(30)]], and as many of threadgroup memory
	MaxConditions = 64   // function constants that decide whether parameters are there: msl/runtime.h has room for them
	maxVariables  = 64   // of threadgroup memory in a kernel: msl/runtime.h has room for them
)

// Description is a library's description of itself.
type Description struct {
	Kernels   []Kernel
	Constants []Constant
	// Conditions are the constants that decide whether parameters exist. The thunk after that of the last kernel
	// computes them.
	Conditions []string
}

// Kernel is a kernel that can run: a function, or a named instance of a template.
type Kernel struct {
	Name       string // as the host calls it
	Params     []Parameter
	MaxThreads int      // of [[max_total_threads_per_threadgroup]], 1 to MaxThreads; 0 means no limit of its own
	Constants  []string // function constants that the kernel or what it calls mentions
}

// Parameter is a parameter of a kernel.
type Parameter struct {
	Kind  string // buffer, threadgroup, or the name of a built-in such as thread_position_in_grid
	Index int    // of a buffer or of threadgroup memory, 0 to MaxBuffers-1
	Name  string
	Space string // device, constant or threadgroup; empty for a built-in
	Const bool   // the kernel only reads it
	If    string // the function constant that must be true for the parameter to exist; empty means always
}

// Constant is a function constant.
type Constant struct {
	Name, Type string // Type is bool, int, uint, float, int32_t or uint32_t
	Index      int    // of [[function_constant]], 0 to 65535
	Optional   bool   // the source asks is_function_constant_defined
}
