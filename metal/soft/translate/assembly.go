package translate

import (
	"fmt"
	"slices"
	"strings"
)

// gpuFlags compile for a GPU of which clang knows the instructions: an RDNA 3 of AMD, with simdgroups of 32. Loops are
// not repeated in their bodies beyond what the source says, so that a body stands for one iteration.
var gpuFlags = []string{"-O3", "-ffp-contract=off", "-mllvm", "-unroll-runtime=false",
	"-mllvm", "-unroll-allow-partial=false", "-DMSL_STRICT", "-DMSL_GPU", "-include", "metal.h", "-S", "-o", "-"}

// Assembly returns what clang makes of the named kernels of a source for a GPU, in the assembler's language. It is
// there to be read: nothing can run it, and what it says of Apple's GPUs is an estimate. What is wrong with the source
// is a [*metal.CompileError].
func (c *Compiler) Assembly(source string, names ...string) (string, error) {
	u, err := c.translate(source)
	if err != nil {
		return "", err
	}
	gpu := *c
	gpu.arch = "amdgcn"
	text, err := u.gpuText(names)
	if err != nil {
		return "", err
	}
	return gpu.clangRun(text, gpuFlags...)
}

// gpuText is the source as the strict pass reads it, and an entry for each of the named kernels that fetches its
// arguments.
func (u *unit) gpuText(names []string) (string, error) {
	var b strings.Builder
	b.WriteString(apply(u.text, u.strict))
	for _, name := range names {
		i := slices.IndexFunc(u.kernels, func(k kernel) bool { return k.Name == name })
		if i < 0 {
			return "", fmt.Errorf("the source has no kernel %s", name)
		}
		k := u.kernels[i]
		var params, args []string
		for n, p := range k.Params {
			switch components, number := builtins[p.Kind]; {
			case !number:
				space := map[string]string{"constant": "MSL_CONSTANT"}[p.Space]
				if space == "" {
					space = p.Space
				}
				params = append(params, fmt.Sprintf("%s uchar *p%d", space, n))
				args = append(args, fmt.Sprintf("msl_%s_buffer{p%d}", p.Space, n))
			case components:
				args = append(args, "msl_position{msl_ids}")
			case p.Kind == "thread_index_in_simdgroup":
				args = append(args, "msl_number{__builtin_amdgcn_workitem_id_x() % 32}")
			case p.Kind == "simdgroup_index_in_threadgroup": // the same for all threads of a simdgroup
				args = append(args, "msl_number{(uint)__builtin_amdgcn_readfirstlane("+
					"__builtin_amdgcn_workitem_id_x() / 32)}")
			case p.Kind == "thread_index_in_threadgroup":
				args = append(args, "msl_number{__builtin_amdgcn_workitem_id_x()}")
			default:
				args = append(args, "msl_number{msl_size}")
			}
		}
		fmt.Fprintf(&b, "\nextern \"C\" __attribute__((amdgpu_kernel)) "+
			"void %s(%s, uint msl_size) { const uint msl_ids[3] = {__builtin_amdgcn_workgroup_id_x(), "+
			"__builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()}; %s(%s); }\n",
			name, strings.Join(params, ", "), oneLine(k.call), strings.Join(args, ", "))
	}
	return b.String(), nil
}
