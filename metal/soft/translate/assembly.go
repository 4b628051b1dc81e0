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

// gpuFlags compile for a GPU of which clang knows the instructions: an RDNA 3 of AMD, with simdgroups of 32. Loops are
// not repeated in their bodies beyond what the source says, so that a body stands for one iteration.
var gpuFlags = []string{"-O3", "-ffp-contract=off", "-mllvm", "-unroll-runtime=false",
	"-mllvm", "-unroll-allow-partial=false", "-mllvm", "-inline-threshold=100000",
	"-DMSL_STRICT", "-DMSL_GPU", "-include", "metal.h", "-S", "-o", "-"}

// Assembly returns what clang makes of the named kernels of a source for a GPU, in the assembler's language. It is
// there to be read: nothing can run it, and what it says of Apple's GPUs is an estimate. What a simdgroup does together
// is a comment of one line there: "; simd_sum", "; simdgroup_multiply" and so on. The text is kept in the cache. What
// is wrong with the source is a [*metal.CompileError]; a clang that was built without this GPU is [metal.ErrNoDevice].
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

// keep puts a text into the cache.
func (c *Compiler) keep(path, text string) error {
	f, err := os.CreateTemp(c.cache, "new-")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close(), os.Rename(f.Name(), path))
}

// gpuText is the source as the strict pass reads it, and an entry for each of the named kernels.
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

// gpuIDs are the attributes of parameters that a GPU knows by itself, in clang's words. The number of a simdgroup is
// the same for all its threads.
var gpuIDs = map[string]string{
	"thread_index_in_threadgroup":    "__builtin_amdgcn_workitem_id_x()",
	"thread_index_in_simdgroup":      "__builtin_amdgcn_workitem_id_x() % 32",
	"simdgroup_index_in_threadgroup": "(uint)__builtin_amdgcn_readfirstlane(__builtin_amdgcn_workitem_id_x() / 32)",
}

// gpuEntry is a function that a GPU can begin with, under the name of the kernel: it fetches the kernel's arguments and
// calls it. Sizes are one more argument, of which nothing is known.
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
