package freemem

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// groupFreeBytes returns the remaining memory by the control groups of the process with its folder at proc: its own
// group and those above, in either version of their interface (cgroups(7)). Without a limit it is the largest number.
func groupFreeBytes(proc string) uint64 {
	left := uint64(math.MaxUint64)
	for _, g := range memoryGroups(proc) {
		for dir := g.dir; ; dir = filepath.Dir(dir) {
			left = min(left, g.remainingBytes(dir))
			if len(dir) <= len(g.mount) {
				break
			}
		}
	}
	return left
}

// memoryGroup is a group in one of the mounted hierarchies.
type memoryGroup struct {
	mount, dir   string // folders: of the hierarchy, and of the group in it
	limit, usage string // names of files that contain a number
	cached       string // suffix of names in memory.stat: pages of files, which can be reclaimed
}

// memoryGroups returns the groups that may limit the memory of a process. Lines of mountinfo are "36 35 98:0 ROOT MOUNT
// options … - type source options" (proc_pid_mountinfo(5)).
func memoryGroups(proc string) (all []memoryGroup) {
	paths := groupPaths(proc)
	mounts, _ := os.ReadFile(filepath.Join(proc, "mountinfo")) // without it there are no groups
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		if len(where) < 5 || len(what) < 3 {
			continue
		}
		root, g := where[3], memoryGroup{mount: where[4]}
		path := ""
		switch {
		case what[0] == "cgroup2":
			path = paths[""]
			g.limit, g.usage, g.cached = "memory.max", "memory.current", "active_file"
		case what[0] == "cgroup" && slices.Contains(strings.Split(what[2], ","), "memory"):
			path = paths["memory"]
			g.limit, g.usage, g.cached = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file"
		default:
			continue
		}
		g.dir = g.mount // in a container that is the group itself, whatever its name outside
		if below, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(below) {
			g.dir = filepath.Join(g.mount, below)
		}
		all = append(all, g)
	}
	return all
}

// groupPaths returns the groups of a process by controller, "" for version 2. Lines are
// "number:controller,controller:/path".
func groupPaths(proc string) map[string]string {
	paths := map[string]string{}
	groups, _ := os.ReadFile(filepath.Join(proc, "cgroup")) // without it the group is the one that is mounted
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if controls, path, ok := strings.Cut(rest, ":"); ok {
			for name := range strings.SplitSeq(controls, ",") {
				paths[name] = path
			}
		}
	}
	return paths
}

func (g memoryGroup) remainingBytes(dir string) uint64 {
	limit, unlimited := readNumberFile(filepath.Join(dir, g.limit))
	used, unknown := readNumberFile(filepath.Join(dir, g.usage))
	if unlimited != nil || unknown != nil {
		return math.MaxUint64
	}
	used -= min(used, g.pageCacheBytes(dir))
	return limit - min(limit, used)
}

func (g memoryGroup) pageCacheBytes(dir string) (sum uint64) {
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat")) // without it nothing can be reclaimed
	inactive := strings.Replace(g.cached, "active", "inactive", 1)
	for line := range strings.Lines(string(stat)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == g.cached || name == inactive {
			n, err := strconv.ParseUint(value, 10, 64)
			if err == nil {
				sum += n
			}
		}
	}
	return sum
}

func readNumberFile(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}
