package translate

import (
	"fmt"
	"slices"
	"strings"
)

// OpenCL is a source in C++ for OpenCL 2021.
type OpenCL struct {
	Kernels   []Kernel
	Constants []Constant // each has its value from a macro MSL_VALUE_ and its index, which a compiler's options define
	unit      *unit
	text      string
}

// OpenCL translates a source. An error in it is a [*metal.CompileError].
func (c *Compiler) OpenCL(source string) (*OpenCL, error) {
	u, err := c.parseSource(source)
	if err != nil {
		return nil, err
	}
	header, err := headers.ReadFile("msl/opencl.h")
	d := u.libraryDescription()
	return &OpenCL{d.Kernels, d.Constants, u, string(header) + applyEdits(u.text, u.opencl)}, err
}

// OpenCLKernel is the name of the kernel in each program of [OpenCL].
const OpenCLKernel = "msl_entry"

// Program returns a program with the named one of Kernels. Its buffers and its threadgroup memory are parameters, in
// the order of Params.
func (o *OpenCL) Program(name string) (string, Kernel, error) {
	i := slices.IndexFunc(o.Kernels, func(k Kernel) bool { return k.Name == name })
	if i < 0 {
		return "", Kernel{}, fmt.Errorf("the source has no kernel %s", name)
	}
	return o.text + o.unit.kernels[i].openclEntry(), o.Kernels[i], nil
}

// gatherThreadgroupMemory makes a struct of the threadgroup variables of the kernel that was read last, from the
// declaration at i and with parameters at params. It precedes the kernel, which gets a reference to it: in OpenCL only
// an entry point has such variables.
func (u *unit) gatherThreadgroupMemory(i, params int) {
	k := &u.kernels[len(u.kernels)-1]
	if len(k.variables) == 0 {
		return
	}
	var b strings.Builder
	if k.generic {
		b.WriteString(u.joinTokens(i, u.skipAngles(i+1)) + " ")
	}
	b.WriteString("struct msl_memory_" + k.function + " { ")
	for _, v := range k.variables {
		b.WriteString(v.typ + " " + v.name + v.dims + "; ")
	}
	u.insertIn(&u.opencl, i, b.String()+"}; ")
	comma := ", "
	if len(k.Params) == 0 {
		comma = ""
	}
	u.insertIn(&u.opencl, u.skipBrackets(params)-1, comma+"threadgroup msl_memory_"+k.call+" &msl_memory")
}

// disableUnrolling reverses the pragmas that unroll loops, for OpenCL: what they make of matrices takes minutes to
// compile for vectors of 32 lanes.
func (u *unit) disableUnrolling() {
	for i, t := range u.tokens {
		if t.kind == directive && strings.Join(strings.Fields(t.text), " ") == "#pragma unroll" {
			u.replaceIn(&u.opencl, i, i+1, "#pragma nounroll")
		}
	}
}

func (v variable) openclDeclaration() string {
	typ := "msl_type_" + v.name
	return fmt.Sprintf("typedef %s %s%s; threadgroup %s &%s = msl_memory.%s; ",
		v.typ, typ, v.dims, typ, v.name, v.name)
}

// openclIDs are the attributes of parameters that OpenCL provides as a number.
var openclIDs = map[string]string{
	"thread_index_in_threadgroup":    "get_local_linear_id()",
	"thread_index_in_simdgroup":      "get_sub_group_local_id()",
	"simdgroup_index_in_threadgroup": "get_sub_group_id()",
	"simdgroups_per_threadgroup":     "get_num_sub_groups()",
	"threads_per_simdgroup":          "32",
	"thread_execution_width":         "32",
}

// openclPositions are those that it provides as functions of the number of a dimension.
var openclPositions = map[string]string{
	"thread_position_in_grid":          "get_global_id",
	"thread_position_in_threadgroup":   "get_local_id",
	"threadgroup_position_in_grid":     "get_group_id",
	"threads_per_grid":                 "get_global_size",
	"threads_per_threadgroup":          "get_local_size",
	"threadgroups_per_grid":            "get_num_groups",
	"dispatch_threads_per_threadgroup": "get_local_size",
}

func (k kernel) openclEntry() string {
	var params, args []string
	for n, p := range k.Params {
		if p.Space == "" {
			if f := openclPositions[p.Kind]; f != "" {
				args = append(args, fmt.Sprintf("msl_position{(uint)%s(0), (uint)%s(1), (uint)%s(2)}", f, f, f))
			} else {
				args = append(args, "msl_number{(uint)"+openclIDs[p.Kind]+"}")
			}
			continue
		}
		params = append(params, fmt.Sprintf("%s uchar *msl_p%d", p.Space, n))
		args = append(args, fmt.Sprintf("msl_%s_buffer{msl_p%d}", p.Space, n))
	}
	memory := ""
	if len(k.variables) > 0 {
		memory = "threadgroup msl_memory_" + oneLine(k.call) + " msl_memory; "
		args = append(args, "msl_memory")
	}
	return fmt.Sprintf("\n# %d %s\n__kernel __attribute__((intel_reqd_sub_group_size(32))) void %s(%s) { %s%s(%s); }\n",
		k.at.line, quoteASCII(k.at.file), OpenCLKernel, strings.Join(params, ", "), memory, oneLine(k.call),
		strings.Join(args, ", "))
}
