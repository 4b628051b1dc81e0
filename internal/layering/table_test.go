package layering

// The table. Names are folders of the module; "x/..." means x and everything below it. It may contain planned packages.

// tier is a level in the order of imports: a package imports only lower packages, never its own level or above, except
// the package of its parent folder (backend/host imports backend).
type tier struct {
	packages []string
	what     string
}

// tiers returns the order from top to bottom.
func tiers() []tier {
	return []tier{
		{[]string{"cmd/pilotfish", "cmd/pilotfish-bench", "bench/results", "bench/peers", "docs/..."},
			"the programs, and programs to learn from"},
		{[]string{"cmd/pilotfish/internal/...", "cmd/pilotfish-bench/internal/bench",
			"cmd/pilotfish-bench/internal/eval", "cmd/pilotfish-bench/internal/router",
			"cmd/pilotfish-bench/internal/routing"},
			"families of commands, none of which imports another"},
		{[]string{"cmd/pilotfish-bench/internal/measure"}, "what several commands that measure have"},
		{[]string{"cmd/internal/group"}, "groups of flags that commands of both programs have"},
		{[]string{"cmd/internal/clitest"}, "a program under test"},
		{[]string{"cmd/internal/cli", "cmd/internal/event"}, "flags, output and errors"},
		{[]string{"bench/report", "bench/compare"}, "pages, pictures and comparisons of measurements"},
		{[]string{"bench/routing", "bench/wire", "bench/eval", "bench/capacity", "bench/collect",
			"bench/calibrate"}, "measurements, training and calibration of routers"},
		{[]string{"bench/remote", "bench/speed"}, "the large model of a measurement, over a link, and times of passes"},
		{[]string{"bench/outcome"}, "modes of routing, and counts of their answers"},
		{[]string{"bench/task"}, "questions, and when an answer is right"},
		{[]string{"bench/replay"}, "replays of recorded answers in virtual time"},
		{[]string{"bench/selfcheck"}, "a check of a GPU in an installed program"},
		{[]string{"bench/metalplan"}, "predicted times of passes on a GPU"},
		{[]string{"bench/..."}, "tools of measurements"},
		{[]string{"serve"}, "the HTTP server of a model, for programs that embed it"},
		{[]string{"serve/internal/request"}, "requests of programs: JSON to values"},
		{[]string{"."}, "the stable API for embedding: a thin face of the engine"},
		{[]string{"runtime/answer"}, "answers of several stretches: thoughts, texts and calls of tools"},
		{[]string{"runtime/engine"}, "composition: the only package that knows every concrete type"},
		{[]string{"netproto/metrics", "netproto/admin"}, "metrics and administration of a gateway"},
		{[]string{"netproto/upstream"}, "HTTP engines as models of a gateway"},
		{[]string{"runtime/device", "runtime/transformer", "runtime/router", "runtime/router/train", "runtime/draft",
			"runtime/batch", "runtime/tokenizer", "netproto/client", "netproto/gateway"},
			"the parts, none of which imports another"},
		{[]string{"netproto/streams"}, "connections of both sides: how streams end"},
		{[]string{"netproto/upstream/dialect"}, "the dialects of engines"},
		{[]string{"runtime/router/certify"}, "certificates of routers, from counts of answers"},
		{[]string{"runtime/grammar/schema"}, "JSON schemas to grammars"},
		{[]string{"runtime/grammar"}, "automata over bytes, and masks of tokens"},
		{[]string{"runtime/grammar/regular"}, "regular sets: patterns of strings and bounds of numbers"},
		{[]string{"runtime/sample"}, "samples from heads, for edge and cloud"},
		{[]string{"runtime/trace"}, "files of the activations that routers are trained on"},
		{[]string{"runtime/lookup"}, "drafts tokens from earlier text, for edge and cloud"},
		{[]string{"runtime/backend", "runtime/backend/host", "runtime/backend/gpu", "netproto"},
			"the seams to hardware and wire"},
		{[]string{"runtime/backend/recurrent"}, "the plan of recurrent states, for backends"},
		{[]string{"internal/record"}, "the record of an answer: program, machine and models"},
		{[]string{"kernels", "kernels/metalsource", "kernels/cpu", "metal/mtl", "metal/soft", "metal/record"},
			"operations and devices"},
		{[]string{"kernels/cpu/vector", "kernels/cpu/pool"}, "operations other than products of matrices"},
		{[]string{"kernels/cpu/isa"}, "the instruction set that all kernels use"},
		{[]string{"metal/soft/translate"}, "compiles the source of kernels to a library that a device loads"},
		{[]string{"metal"}, "interfaces and errors of a device"},
		{[]string{"runtime/transformer/reference"}, "a model in float64, for tests"},
		{[]string{"gguf", "runtime/hub", "runtime/jinja"}, "leaves"},
		{[]string{"gguf/block"}, "the types of weights: bytes to numbers and back"},
		{[]string{"netproto/terms"}, "values that wire, decoding and service share without conversions"},
		{[]string{"internal/fair"}, "the fair queue of service, gateway and HTTP engines, and its heap"},
		{[]string{"internal/bubble"}, "virtual time, for tests"},
		{[]string{"internal/cmd/..."}, "tools of this repository"},
		{[]string{"internal/browsertest"}, "pages in a browser, for tests"},
		{[]string{"internal/..."}, "helpers that any package may import"},
	}
}

// links forbids that from depends on to, directly or not. A path without a slash may be in the standard library.
type links struct{ from, to, why string }

func forbiddenLinks() []links {
	const gateway = "the gateway must build without inference code: it meets the model through gateway.Upstream"
	const leaf = "a leaf stays usable alone"
	all := []links{
		{"netproto/...", "runtime/...", gateway},
		{"netproto/...", "kernels/...", gateway},
		{"netproto/...", "metal/...", gateway},
		{"netproto/...", "gguf", gateway},
		{"kernels/...", "runtime/...", "an operation knows slices and tensor types, not models"},
		{"kernels/...", "metal/...", "a kernel knows no device"},
		{"kernels/...", "gguf", "a weight is bytes in blocks, package gguf/block: a kernel knows no file"},
		{"metal/...", "kernels/...", "a device compiles the source that its caller gives it"},
		{"metal/...", "gguf", "a device knows buffers, not files"},
		{"metal/soft/translate", "github.com/ebitengine/purego", "the compiler of a library does not load it"},
		{"gguf", "net", "reading a file needs no network"},
		{"gguf", "runtime/...", leaf},
		{"gguf/block", "gguf", leaf},
		{"runtime/sample", "kernels/...", "a draw is a function of logits, seed and position, the same everywhere"},
		{"runtime/lookup", "runtime/...", "a guess is a function of tokens and numbers: it knows no model"},
		{"runtime/lookup", "gguf", "a guess is a function of tokens and numbers: it knows no model"},
		{"runtime/grammar/...", "runtime/backend", "a grammar is about bytes: it knows no model"},
		{"runtime/grammar/...", "gguf", "a grammar is about bytes: it knows no model"},
		{"runtime/trace", "kernels/...", "traces are numbers in files: reading them needs no model"},
		{"runtime/trace", "net", "traces are numbers in files: no network"},
		{"runtime/router/certify", "runtime/backend", "a proof is a function of counts: it knows no model"},
		{"runtime/hub", "gguf", leaf},
		{"runtime/hub", "kernels/...", leaf},
		{"runtime/transformer", "net", "the forward pass needs no network"},
		{"runtime/tokenizer", "kernels/...", "text needs no arithmetic"},
		{"...", "runtime/cgo", "the program builds without a C compiler"},
	}
	for _, to := range []string{"testing", "internal/sharedtest", "internal/browsertest", "internal/fakeengine",
		"internal/racing", "internal/kerneltest", "internal/blocktest", "internal/bubble", "internal/timelinetest",
		"runtime/transformer/reference", "github.com/stretchr/testify/..."} {
		for _, from := range []string{"cmd/pilotfish", "cmd/pilotfish-bench"} {
			all = append(all, links{from, to, "not in a shipped binary"})
		}
	}
	return all
}

// imports forbids that a package imports another one directly, outside tests.
type imports struct{ from, to, why string }

func forbiddenImports() []imports {
	const pure = "no I/O of its own: its interfaces bring data"
	const clock = "no clock: a decision is a function of the path alone"
	const repeatable = "a sampled run is as repeatable as a greedy one: noise is a function of seed and position"
	const inputs = "the same text and times give the same rows: times and randomness are inputs"
	const sandbox = "a template may be hostile: it reads only the values that its caller passes"
	const public = "these commands use the API for embedding, so that it is good enough"
	return []imports{
		{"runtime/lookup", "os", pure}, {"runtime/lookup", "time", inputs}, {"runtime/lookup", "math/rand/...", inputs},
		{"runtime/jinja", "os", sandbox}, {"runtime/jinja", "net", sandbox}, {"runtime/jinja", "time", sandbox},
		{"runtime/router", "os", pure}, {"runtime/router", "net", pure}, {"runtime/router", "net/http", pure},
		{"runtime/router", "time", clock},
		{"runtime/router/train", "os", pure}, {"runtime/router/train", "net", pure},
		{"runtime/router/train", "time", "the same positions and seed give the same router"},
		{"runtime/router/certify", "os", pure}, {"runtime/router/certify", "time", clock},
		{"runtime/router/certify", "math/rand/...", "the same answers in the same order prove the same"},
		{"runtime/draft", "os", pure}, {"runtime/draft", "net", pure}, {"runtime/draft", "net/http", pure},
		{"gguf/block", "os", "bytes to numbers, no files"},
		{"netproto", "net", "bytes to values, no sockets"}, {"netproto", "os", "bytes to values, no files"},
		{"runtime/sample", "time", repeatable}, {"runtime/sample", "math/rand/...", repeatable},
		{"kernels/...", "context", "nothing waits in a kernel"},
		{"cmd/pilotfish/internal/run", "runtime/engine", public}, {"cmd/pilotfish/internal/chat", "runtime/engine",
			public},
		{"cmd/pilotfish/internal/serve", "runtime/engine", public},
		{"metal/...", "github.com/ebitengine/purego/objc", "one Go method per selector, spelled out in metal/mtl"},
	}
}

// only lists the packages that may import a package, outside tests: a concrete type is used in one place. Of several
// rules for a package, the first one counts.
type only struct {
	of  string
	by  []string
	why string
}

func onlyImporters() []only {
	const engine = "runtime/engine"
	const why = "the engine alone knows every concrete type"
	const products = "others use these operations through the host backend; training multiplies its own matrices"
	const dialects = "one place distinguishes the kinds of engine"
	return []only{
		{"runtime/device", []string{engine, "cmd/pilotfish/internal/selfcheck"},
			"the model knows backend.Pass, the engine chooses the device; the check names one"},
		{"runtime/backend/host", []string{engine, "runtime/device", "bench/selfcheck"},
			"the model knows backend.Pass, the engine chooses the device; the check compares devices"},
		{"runtime/backend/gpu", []string{engine, "runtime/device", "bench/metalplan", "bench/selfcheck"},
			"the model knows backend.Pass, the engine chooses the device; metalplan counts dispatches without one"},
		{"runtime/backend/recurrent", []string{"runtime/backend/host", "runtime/backend/gpu"},
			"backends plan recurrent states with it"},
		{"metal/mtl", []string{"runtime/device"}, "one place chooses the device"},
		{"metal/soft", []string{"runtime/device"}, "one place chooses the device"},
		{"metal/soft/translate", []string{"metal/soft"}, "kernels run on a device"},
		{"kernels/cpu", []string{"runtime/backend/host", "runtime/router/train", "bench/...", engine,
			"internal/record"}, products},
		{"kernels/cpu/vector", []string{"kernels/cpu", "runtime/backend/host"}, products},
		{"kernels/cpu/pool", []string{"kernels/cpu", "runtime/backend/host", "runtime/router/train", "bench/..."},
			products},
		{"runtime/draft", []string{engine, ".", "bench/...", "cmd/pilotfish/internal/demo"},
			why + "; the demo decodes in virtual time"},
		{"runtime/batch", []string{engine, "bench/..."}, why},
		{"runtime/transformer", []string{engine, "bench/..."}, why},
		{"netproto/client", []string{engine, "bench/..."}, why},
		{"netproto/gateway", []string{engine, "bench/...", "netproto/upstream", "netproto/metrics"}, why},
		{"netproto/upstream", []string{engine, "bench/..."}, why},
		{"netproto/upstream/dialect", []string{"netproto/upstream"}, dialects},
		{"bench/demo", []string{"bench/...", "cmd/pilotfish-bench/...", "cmd/pilotfish/internal/demo",
			"cmd/pilotfish/internal/selfcheck", "cmd/internal/clitest"},
			"the demo's models are in that folder; tests of both programs ask them"},
		{"bench/selfcheck", []string{"cmd/pilotfish/internal/selfcheck"}, "an installed program checks its GPU"},
		{"bench/synth", []string{"bench/...", "cmd/pilotfish-bench/...", "cmd/internal/clitest"},
			"models of random weights are for measurements and tests"},
		{"bench/...", []string{"bench/...", "cmd/pilotfish-bench/..."}, "measuring is a program of its own"},
		{"runtime/hub", []string{"cmd/...", "."},
			"commands and programs download models, and find them by name"},
		{"github.com/ebitengine/purego", []string{"metal/mtl", "metal/soft"},
			"no foreign call above the device"},
		{"github.com/prometheus/...", []string{"netproto/metrics", "netproto/admin", "cmd/..."},
			"a program that embeds the engine links no metrics"},
		{"github.com/spf13/cobra", []string{"cmd/..."}, "flags end where commands end"},
		{"github.com/schollz/progressbar/v3", []string{"cmd/..."}, "packages report numbers, commands draw them"},
		{"github.com/stretchr/testify/...", []string{"cmd/internal/clitest"}, "assertions are for tests"},
	}
}

// allowedState lists package-level variables that would be refused by their form, with the reason why no state depends
// on them: "folder.name" to reason.
func allowedState() map[string]string {
	const same = "the error of another package, for programs that see only the engine"
	return map[string]string{
		"cmd/internal/cli.version":       "written by the linker, before the program runs",
		"cmd/internal/clitest.UnderTest": "the program of a package's tests, which TestMain sets",
		"..ErrClosed":                    same, "..ErrBusy": same, "..ErrContext": same, "..ErrNotSaved": same,
		"..ErrChat":                same,
		"..ErrUnsupported":         same,
		"..ErrOtherSaved":          same,
		"runtime/engine.ErrClosed": same, "runtime/engine.ErrContext": same,
		"runtime/engine.ErrNotSaved": same, "runtime/engine.ErrOtherSaved": same,
		"internal/bubble.alone": "counts the bubbles of a test's process, as GOMAXPROCS is the process's",
		"gguf.ErrNotFinite":     same,
	}
}
