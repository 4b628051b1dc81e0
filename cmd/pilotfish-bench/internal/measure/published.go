package measure

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

// trainSuffix ends the name by which the file with a benchmark's questions for training is fetched.
const trainSuffix = "-train"

// Published returns the files of benchmarks by the names by which they are fetched.
func Published() map[string]hub.Address {
	all := map[string]hub.Address{}
	for _, b := range task.Benchmarks() {
		if all[b.Name] = hub.Address(b.File); b.Training != (task.File{}) {
			all[b.Name+trainSuffix] = hub.Address(b.Training)
		}
	}
	return all
}

// BenchmarkNames returns the names of all benchmarks.
func BenchmarkNames() (all []string) {
	for _, b := range task.Benchmarks() {
		all = append(all, b.Name)
	}
	return all
}

// BenchmarkTable returns a line of help for each benchmark.
func BenchmarkTable(text func(b *task.Benchmark) string) string {
	var out strings.Builder
	for _, b := range task.Benchmarks() {
		fmt.Fprintf(&out, "  %-11s %s\n", b.Name, text(b))
	}
	return out.String()
}

// DataDir returns the default folder of questions.
func DataDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for questions: %w; name their file with --data", err)
	}
	return filepath.Join(cache, "pilotfish", "data"), nil
}

// fetchName returns the name by which the file of a split is fetched: that of the task, or of its training part.
func fetchName(s *task.Split) string {
	b := task.FindBenchmark(s.Task)
	return cmp.Or(map[string]string{b.Training.SHA256: b.Name + trainSuffix}[s.File], b.Name)
}
