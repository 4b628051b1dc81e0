package translate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// gpuFlags compile for a GPU that clang supports: an RDNA 3 of AMD, with simdgroups of 32. Loops are not unrolled
// beyond the source, so that a body stands for one iteration.
var gpuFlags = []string{"-O3", "-ffp-contract=off", "-mllvm", "-unroll-runtime=false",
	"-mllvm", "-unroll-allow-partial=false", "-mllvm", "-inline-threshold=100000",
	"-DMSL_STRICT", "-DMSL_GPU", "-include", "metal.h", "-S", "-o", "-"}

// Assembly returns clang's code for the named kernels of a source on a GPU, in assembly language. It is meant for
// reading: it cannot be run, and it only gives an estimate for Apple's GPUs. An operation of a simdgroup is a one-line
// comment: "; simd_sum", "; simdgroup_multiply" and so on. The text is kept in the cache. An error in the source is a
// [*metal.CompileError]; if clang was built without this GPU the error is [metal.ErrNoDevice].
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
	own, err := ownText()
	if err != nil {
		return "", err
	}
	kept := filepath.Join(c.cache, "assembly-"+gpu.key(text, own, gpuFlags)+".s")
	if inCache(kept) {
		assembly, err := os.ReadFile(kept)
		return string(assembly), err
	}
	assembly, err := gpu.clangRun(text, gpuFlags...)
	if e, ok := errors.AsType[*metal.CompileError](err); ok && strings.Contains(e.Log, "unable to create target") {
		return "", fmt.Errorf("%w: %s does not know the GPU: %s", metal.ErrNoDevice, c.clang, e.Log)
	}
	if err != nil {
		return "", err
	}
	return assembly, c.keep(kept, assembly)
}

// keep stores a text in the cache: the whole text, or nothing after an error.
func (c *Compiler) keep(path, text string) error {
	scratch, err := os.MkdirTemp(c.cache, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) // leftovers do no harm
	file := filepath.Join(scratch, "text")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		return err
	}
	return os.Rename(file, path)
}

// gpuText returns the source for the strict pass, and an entry point for each of the named kernels.
func (u *unit) gpuText(names []string) (string, error) {
	var b strings.Builder
	b.WriteString(apply(u.text, u.strict))
	for _, name := range names {
		i := slices.IndexFunc(u.kernels, func(k kernel) bool { return k.Name == name })
		if i < 0 {
			return "", fmt.Errorf("the source has no kernel %s", name)
		}
		b.WriteString(u.kernels[i].gpuEntry())
	}
	return b.String(), nil
}

// gpuIDs are the attributes of parameters that a GPU provides, in clang's notation. The number of a simdgroup is the
// same for all its threads.
var gpuIDs = map[string]string{
	"thread_index_in_threadgroup":    "__builtin_amdgcn_workitem_id_x()",
	"thread_index_in_simdgroup":      "__builtin_amdgcn_workitem_id_x() % 32",
	"simdgroup_index_in_threadgroup": "(uint)__builtin_amdgcn_readfirstlane(__builtin_amdgcn_workitem_id_x() / 32)",
}

// gpuEntry returns the entry point of a kernel on a GPU, with the kernel's name: it fetches the kernel's arguments and
// calls it. Sizes are another argument with an unknown value.
func (k kernel) gpuEntry() string {
	var params, args []string
	for n, p := range k.Params {
		switch components, number := builtins[p.Kind]; {
		case !number:
			space := p.Space
			if space == "constant" {
				space = "MSL_CONSTANT"
			}
			params = append(params, fmt.Sprintf("%s uchar *p%d", space, n))
			args = append(args, fmt.Sprintf("msl_%s_buffer{p%d}", p.Space, n))
		case components:
			args = append(args, "msl_position{msl_ids}")
		case gpuIDs[p.Kind] != "":
			args = append(args, "msl_number{"+gpuIDs[p.Kind]+"}")
		default:
			args = append(args, "msl_number{msl_size}")
		}
	}
	head := fmt.Sprintf("__attribute__((amdgpu_kernel)) void msl_entry_%s(%s)",
		k.Name, strings.Join(append(params, "uint msl_size"), ", "))
	return fmt.Sprintf("\n%s __asm__(%s);\n%s { const uint msl_ids[3] = {__builtin_amdgcn_workgroup_id_x(), "+
		"__builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()}; %s(%s); }\n",
		head, quote(k.Name), head, oneLine(k.call), strings.Join(args, ", "))
}
