package translate

import (
	"debug/dwarf"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzParse: any text can be parsed and rewritten; errors in it are problems, never a panic. Tokens are in order inside
// the text, and rewriting keeps its lines.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"features", "faults", "commands", "counts"} {
		f.Add(source(f, name))
	}
	for _, s := range []string{"", "#", "[[", "template [[", "kernel", "kernel void k(", "template <",
		"constant int x [[function_constant(", "threadgroup", "template [[host_name(\"x\")]] kernel void f<",
		"\"", "'\\", "# 1 \"", "a<b<c>", ")]}", "kernel void k() { threadgroup", "namespace n {", "namespace {",
		"using", "typedef", "[[a]] kernel void k [[b]] (int x) {}", "vec<", "(float4)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		end := 0
		for _, k := range lex(s, "fuzz.metal") {
			require.LessOrEqual(t, end, k.start)
			require.Less(t, k.start, k.end)
			require.Equal(t, s[k.start:k.end], k.text)
			end = k.end
		}
		u := parseUnit(s, "fuzz.metal")
		for _, e := range append(u.run, u.strict...) {
			require.True(t, 0 <= e.start && e.start <= e.end && e.end <= len(s))
		}
		run, err := u.runText()
		require.NoError(t, err)
		assert.GreaterOrEqual(t, strings.Count(run, "\n"), strings.Count(s, "\n"))
		u.strictText()
	})
}

// TestParseKernel: a kernel's parameters, limits and the function constants that it uses are found.
func TestParseKernel(t *testing.T) {
	u := parseUnit("# 1 \"stubs/metal_stdlib\"\n"+`constant bool A [[function_constant(1)]];
constant int B [[function_constant(2)]];
constant float C [[function_constant(3)]];
constant bool D = A && true;
constant bool E = !D;
static int helper(int x) { return x + B; }
template <typename T, int N = 4>
[[max_total_threads_per_threadgroup(128)]] kernel void k(
  device const T *x [[buffer(3)]], constant uint &n [[ buffer(0) ]],
  threadgroup T *s [[threadgroup(1)]], device T *const y [[buffer(2), function_constant(E)]],
  uint2 p [[thread_position_in_grid]]) { helper(1); }
template [[host_name("k_float")]] kernel void k<float, 8>(
  device const vec<float, 1> *, constant uint &, threadgroup float *, device float *, uint2);
template [[host_name("k_small"), max_total_threads_per_threadgroup(32u)]] kernel void k<half, 8>(
  device const half *, constant uint &, threadgroup half *, device half *, uint2);
`, "a.metal")
	require.Empty(t, u.problems)
	require.Len(t, u.kernels, 2)
	assert.Equal(t, 32, u.kernels[1].MaxThreads, "its own")
	k := u.kernels[0]
	assert.Equal(t, "k_float", k.Name)
	assert.Equal(t, "k<float, 8>", k.call)
	assert.Equal(t, 128, k.MaxThreads)
	assert.Equal(t, []string{"A", "B"}, k.Constants)
	assert.Equal(t, []Parameter{
		{Kind: "buffer", Index: 3, Name: "x", Space: "device", Const: true},
		{Kind: "buffer", Index: 0, Name: "n", Space: "constant", Const: true},
		{Kind: "threadgroup", Index: 1, Name: "s", Space: "threadgroup"},
		{Kind: "buffer", Index: 2, Name: "y", Space: "device", If: "E"},
		{Kind: "thread_position_in_grid", Name: "p"},
	}, k.Params)
}

// TestParseLimits: numbers up to Metal's limits are accepted, and constants that decide about parameters up to that of
// the runtime.
func TestParseLimits(t *testing.T) {
	problems := func(source string) []problem {
		return parseUnit("# 1 \"stubs/metal_stdlib\"\n"+source, "a.metal").problems
	}
	assert.Empty(t, problems(`constant bool A [[function_constant(0)]]; constant bool B [[function_constant(65535u)]];
[[max_total_threads_per_threadgroup(1024)]] kernel void k(device float *x [[buffer(30)]],
  threadgroup float *y [[threadgroup(30)]], device float *z [[buffer(0)]], threadgroup float *w [[threadgroup(0)]]) {}
[[max_total_threads_per_threadgroup(1)]] kernel void one() {}`))
	conditions := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "constant bool C%[1]d [[function_constant(%[1]d)]]; kernel void k%[1]d("+
				"device float *x [[buffer(0), function_constant(C%[1]d)]], "+
				"device float *y [[buffer(1), function_constant(C%[1]d)]]) {}\n", i)
		}
		return b.String()
	}
	assert.Empty(t, problems(conditions(MaxConditions)))
	found := problems(conditions(MaxConditions + 1))
	require.Len(t, found, 1)
	assert.Contains(t, found[0].text, "65 constants decide whether parameters are there, more than 64")
}

// TestParseRefusesWords: words of C++ that Metal does not have are refused.
func TestParseRefusesWords(t *testing.T) {
	for word := range strings.FieldsSeq("double goto new delete virtual thread_local asm noexcept register " +
		"__attribute__ __own msl_x MSL_X") {
		u := parseUnit("# 1 \"stubs/metal_stdlib\"\nkernel void k() { 1 + "+word+"; }", "a.metal")
		assert.NotEmpty(t, u.problems, word)
	}
}

// TestFind: an instruction belongs to the last line that begins before it or at it, unless its function has ended.
func TestFind(t *testing.T) {
	file := &dwarf.LineFile{Name: "a.metal"}
	lines := &Lines{entries: []dwarf.LineEntry{
		{Address: 10, File: file, Line: 3}, {Address: 20, File: file}, {Address: 30, File: file, Line: 5},
		{Address: 40, File: file, Line: 5, EndSequence: true}, {Address: 60, File: file, Line: 8},
	}}
	for pc, want := range map[uint64]int{
		9: 0, 10: 3, 19: 3, 20: 3, 29: 3, 30: 5, 39: 5, 40: 0, 59: 0, 60: 8, 1000: 8,
	} {
		name, line := lines.Find(pc)
		assert.Equal(t, want, line, "at %d", pc)
		assert.Equal(t, map[bool]string{true: "unknown place", false: "a.metal"}[want == 0], name)
	}
}

// TestParseRefuses: what the parser does not accept is a problem, with its reason. The files of testdata/rejected
// have more.
func TestParseRefuses(t *testing.T) {
	body := func(s string) string { return "kernel void k() { " + s + " }" }
	param := func(s string) string { return "kernel void k(" + s + ") {}" }
	for source, want := range map[string]string{
		body("device float x;"):                                          "a function cannot have device variables",
		body("constant float x = 1;"):                                    "a constant variable must stand outside",
		body("[[likely]] f();"):                                          "an attribute is not understood here",
		body("threadgroup float;"):                                       "a threadgroup variable is not understood",
		body("x = static_cast<float4>(y);"):                              "static_cast to a vector: write float4(...)",
		body("float *p, x;"):                                             "reference p needs an address space",
		body("const float *p;"):                                          "reference p needs an address space",
		body("float const *p;"):                                          "reference p needs an address space",
		body("float *p[4];"):                                             "reference p needs an address space",
		body("vec<float, 2> &p = q;"):                                    "reference p needs an address space",
		body("long long x;"):                                             "Metal has no long long",
		param("uint &i [[thread_position_in_grid]]"):                     "[[thread_position_in_grid]] and must be a",
		param("device float *x [[buffer(-1)]]"):                          "is not a number from 0 to 30",
		param("device float *x [[buffer(n)]]"):                           "is not a number from 0 to 30",
		param("device float *x [[buffer(0), buffer(1)]]"):                "attribute [[buffer]] stands twice",
		param("device float *x [[buffer(0) + 1]]"):                       "in an attribute is not understood",
		"kernel void k();":                                               "a kernel that is declared must have a body",
		"[[max_total_threads_per_threadgroup(0)]] kernel void k() {}":    "(0) is not a number from 1 to 1024",
		"[[max_total_threads_per_threadgroup(1025)]] kernel void k() {}": "(1025) is not a number from 1 to 1024",
		"[[nodiscard]] static int f() { return 1; }":                     "attribute [[nodiscard]] is not known here",
		"constant int A [[function_constant(65536)]];":                   "is not a number from 0 to 65535",
		"constant int A [[function_constant(-1)]];":                      "is not a number from 0 to 65535",
		"constant int A = 1 [[function_constant(1)]];":                   "a function constant must be of the form",
		"constant int A [[function_constant(1)]]; constant int B [[function_constant(1)]];": "" +
			"function constants A and B have the same index",
		"#pragma clang\n":                   "#pragma clang is not known",
		"#pragma omp\n":                     "#pragma omp is not known",
		"#pragma METAL fp contract(fast)\n": "#pragma METAL fp contract(fast) is not known",
		"#pragma\n":                         "#pragma is not known",
		"#warning unless\n":                 "#warning unless is not known",
		"int f() { return f(); }\nusing namespace std;":                "calls itself",
		"int g(); int f() { return g(); } int g() { return f(); }":     "function f calls itself",
		"using namespace std;":                                         "namespace std is not known",
		"template [[host_name(k)]] kernel void k<float>();":            "an explicit instantiation must be of the form",
		"template [[host_name(\"a\")]] kernel void k<float>();":        "there is no kernel template k",
		body("") + " kernel void k(device float *x [[buffer(0)]]) {}":  "there are two kernels k",
		"int f() { return x.register + p->asm; } int g(); double h();": "Metal has no double",
	} {
		u := parseUnit("# 1 \"stubs/metal_stdlib\"\n"+source, "a.metal")
		if assert.NotEmpty(t, u.problems, source) {
			assert.Contains(t, u.problems[0].text, want, source)
		}
	}
}

// TestParseAccepts: what looks like something that the parser refuses.
func TestParseAccepts(t *testing.T) {
	for _, source := range []string{
		"int f(int x) { return x; } int f(float x) { return f(1); }", // another function of this name
		"constant bool A [[function_constant(0)]]; constant bool B [[function_constant(1)]]; " +
			"kernel void k(device int *x [[buffer(0), function_constant(A)]], " +
			"device float *y [[buffer(0), function_constant(B)]]) {}",
		"kernel void k() { thread float *p; device const float *q = r; return *p; }",
	} {
		assert.Empty(t, parseUnit("# 1 \"stubs/metal_stdlib\"\n"+source, "a.metal").problems, source)
	}
}
