package layering

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/pilotfish-ai/pilotfish"

// goPackage is a package in the output of go list.
type goPackage struct {
	ImportPath, Name   string
	Imports, Deps      []string
	CgoFiles, CXXFiles []string
}

// short returns the folder of a package of the module, and other paths unchanged.
func short(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// ours reports whether an import path belongs to the module.
func ours(importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// is reports whether a name in the table means a package. A name that is also in the standard library means the
// module's folder: "runtime/..." is that folder, and "runtime/cgo" is the standard package, because no folder has this
// name.
func is(importPath, name string) bool {
	base, all := strings.CutSuffix(name, "...")
	base = strings.TrimSuffix(base, "/")
	if ours(importPath) {
		importPath = short(importPath)
	} else if top, _, _ := strings.Cut(base, "/"); all && slices.Contains(folders(), top) {
		return false
	}
	return importPath == base || all && (base == "" || strings.HasPrefix(importPath, base+"/"))
}

func isAny(importPath string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return is(importPath, n) })
}

// folders returns the top-level folders of the module.
func folders() []string {
	return []string{"cmd", "bench", "runtime", "netproto", "kernels", "metal", "gguf", "serve", "internal", "docs"}
}

// checkImports returns violations of the table.
func checkImports(packages []goPackage) (wrong []string) {
	for _, p := range packages {
		wrong = slices.Concat(wrong, checkTier(p), checkLinks(p), checkDirect(p), checkShape(p))
	}
	return wrong
}

// height returns the tier of a package, 0 at the top, or -1.
func height(importPath string) int {
	return slices.IndexFunc(tiers(), func(t tier) bool { return ours(importPath) && isAny(importPath, t.packages) })
}

func checkTier(p goPackage) (wrong []string) {
	mine := height(p.ImportPath)
	if mine < 0 {
		return []string{fmt.Sprintf("%s stands nowhere in the order: add it to tiers", short(p.ImportPath))}
	}
	for _, i := range p.Imports {
		if theirs := height(i); ours(i) && theirs <= mine && i != path.Dir(p.ImportPath) {
			wrong = append(wrong, fmt.Sprintf("%s (%s) imports %s: imports go down only",
				short(p.ImportPath), tiers()[mine].what, short(i)))
		}
	}
	return wrong
}

func checkLinks(p goPackage) (wrong []string) {
	for _, l := range forbiddenLinks() {
		if !is(p.ImportPath, l.from) {
			continue
		}
		for _, d := range p.Deps {
			if is(d, l.to) {
				wrong = append(wrong, fmt.Sprintf("%s links %s: %s", short(p.ImportPath), short(d), l.why))
			}
		}
	}
	return wrong
}

func checkDirect(p goPackage) (wrong []string) {
	for _, i := range p.Imports {
		for _, f := range forbiddenImports() {
			if is(p.ImportPath, f.from) && is(i, f.to) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", short(p.ImportPath), short(i), f.why))
			}
		}
		rules := onlyImporters()
		n := slices.IndexFunc(rules, func(o only) bool { return is(i, o.of) })
		if n < 0 {
			continue
		}
		if o := rules[n]; !isAny(p.ImportPath, o.by) && i != path.Dir(p.ImportPath) && !is(p.ImportPath, o.of) {
			wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", short(p.ImportPath), short(i), o.why))
		}
	}
	return wrong
}

func checkShape(p goPackage) (wrong []string) {
	if p.Name == "runtime" {
		wrong = append(wrong,
			fmt.Sprintf("%s is called runtime: it would hide the standard package", short(p.ImportPath)))
	}
	if len(p.CgoFiles)+len(p.CXXFiles) > 0 {
		wrong = append(wrong,
			fmt.Sprintf("%s needs cgo: %v", short(p.ImportPath), slices.Concat(p.CgoFiles, p.CXXFiles)))
	}
	return wrong
}

// listPackages returns the packages of the module for a system, from go list.
func listPackages(t *testing.T, goos, goarch string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Imports,Deps,CgoFiles,CXXFiles", module+"/...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%s: %s", cmd, exit.Stderr)
	}
	require.NoError(t, err)
	var packages []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := d.Decode(&p)
		if err == io.EOF {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}

// TestImports: the packages of the module follow the table, on every system.
func TestImports(t *testing.T) {
	for _, system := range [][2]string{
		{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"},
	} {
		packages := listPackages(t, system[0], system[1])
		assert.NotEmpty(t, packages)
		for _, w := range checkImports(packages) {
			t.Errorf("%s/%s: %s", system[0], system[1], w)
		}
	}
}

// TestImportsFindsFaults: a violation of each kind is found with its reason, and allowed imports are not.
func TestImportsFindsFaults(t *testing.T) {
	own := func(names ...string) []string {
		for i, n := range names {
			standard := []string{"runtime", "runtime/cgo", "runtime/debug"}
			if slices.Contains(folders(), strings.Split(n, "/")[0]) && !slices.Contains(standard, n) {
				names[i] = module + "/" + n
			}
		}
		return names
	}
	pkg := func(name string, imports ...string) goPackage {
		imports = own(imports...)
		return goPackage{ImportPath: module + "/" + name, Name: path.Base(name), Imports: imports, Deps: imports}
	}
	for _, c := range []struct {
		p    goPackage
		want string // of the first violation; "" means none
	}{
		{pkg("cmd/pilotfish", "runtime/engine", "runtime/hub", "gguf", "os", "net", "runtime",
			"github.com/spf13/cobra"), ""},
		{pkg("runtime/engine", "runtime/transformer", "runtime/backend/host", "runtime/draft", "netproto/client",
			"gguf"), ""},
		{pkg("runtime/backend/host", "runtime/backend", "kernels/cpu", "runtime", "gguf"), ""},
		{pkg("kernels/cpu", "gguf/block", "kernels/cpu/isa", "unsafe", "runtime"), ""},
		{pkg("metal/mtl", "metal", "github.com/ebitengine/purego"), ""},
		{pkg("netproto/gateway", "netproto", "net", "runtime/debug"), ""},

		{pkg("runtime/engine", "bench"), "imports go down only"},
		{pkg("runtime/transformer", "runtime/engine"), "imports go down only"},
		{pkg("gguf/block", "gguf"), "a leaf stays usable alone"},
		{pkg("kernels/cpu", "gguf"), "a kernel knows no file"},
		{pkg("runtime/backend", "runtime/backend/host"), "imports go down only"},
		{pkg("runtime/shiny"), "stands nowhere in the order"},
		{pkg("netproto/gateway", "gguf"), "the gateway must build without inference code"},
		{pkg("runtime/backend/gpu", "metal/soft/translate"), "kernels run on a device"},
		{pkg("cmd/pilotfish", "testing"), "not in a shipped binary"},
		{pkg("cmd/pilotfish-bench", "testing"), "not in a shipped binary"},
		{pkg("cmd/pilotfish-bench/internal/eval", "bench/task", "bench/demo"), ""},
		{pkg("cmd/pilotfish/internal/demo", "bench/demo"), ""},
		{pkg("cmd/pilotfish/internal/run", "bench/result"), "measuring is a program of its own"},
		{pkg("cmd/pilotfish/internal/run", "bench/demo"), "the demo's models are in that folder"},
		{pkg("gguf", "runtime/cgo"), "without a C compiler"},
		{pkg("runtime/router", "time"), "a function of the path alone"},
		{pkg("runtime/draft", "os"), "no I/O of its own"},
		{pkg("runtime/transformer", "runtime/backend/host"), "the engine chooses the device"},
		{pkg("cmd/pilotfish", "runtime/draft"), "the engine alone knows every concrete type"},
		{pkg("gguf", "github.com/stretchr/testify/require"), "assertions are for tests"},
		{goPackage{ImportPath: module + "/internal/x", Name: "runtime"}, "it would hide the standard package"},
		{goPackage{ImportPath: module + "/gguf", Name: "gguf", CgoFiles: []string{"c.go"}}, "needs cgo"},
	} {
		t.Run(c.p.ImportPath+" "+c.want, func(t *testing.T) {
			wrong := checkImports([]goPackage{c.p})
			if c.want == "" {
				assert.Empty(t, wrong, "%s → %v", c.p.ImportPath, c.p.Imports)
				return
			}
			require.NotEmpty(t, wrong, "%s → %v", c.p.ImportPath, c.p.Imports)
			assert.Contains(t, strings.Join(wrong, "\n"), c.want)
		})
	}
}
