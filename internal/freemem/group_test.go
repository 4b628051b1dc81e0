package freemem

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// groupsOf writes files, with @ for their folder, like those that Linux shows to a process.
func groupsOf(t *testing.T, files map[string]string) (dir string) {
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "@", dir)), 0o600))
	}
	return dir
}

// The lines of /proc/self/mountinfo.
const (
	mountsV2 = "30 20 0:26 / @/fs rw,relatime shared:9 - cgroup2 cgroup rw,nsdelegate\n"
	mountsV1 = "31 20 0:27 / @/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"32 20 0:28 / @/mem rw - cgroup cgroup rw,memory\n"
	otherMounts = "29 1 8:1 / / rw - ext4 /dev/memory rw,memory\n\nshort - \n"
)

type groupFiles struct {
	files map[string]string
	free  uint64
}

// ownLimit holds the files of a process whose own group may limit its memory.
var ownLimit = map[string]groupFiles{
	"no groups": {nil, math.MaxUint64},
	"no limit": {map[string]string{
		"mountinfo":           mountsV2,
		"cgroup":              "0::/a\n",
		"fs/a/memory.max":     "max\n",
		"fs/a/memory.current": "3",
	}, math.MaxUint64},
	"a limit": {map[string]string{
		"mountinfo":           otherMounts + mountsV2,
		"cgroup":              "0::/a\n",
		"fs/a/memory.max":     "1000\n",
		"fs/a/memory.current": "300\n",
	}, 700},
	"nothing is left": {map[string]string{
		"mountinfo":         mountsV2,
		"cgroup":            "0::/",
		"fs/memory.max":     "1000",
		"fs/memory.current": "1000",
	}, 0},
	"more is used": {map[string]string{
		"mountinfo":         mountsV2,
		"cgroup":            "0::/",
		"fs/memory.max":     "1000",
		"fs/memory.current": "1001",
	}, 0},
	"unknown usage": {map[string]string{
		"mountinfo":         mountsV2,
		"cgroup":            "0::/",
		"fs/memory.max":     "1000",
		"fs/memory.current": "a lot",
	}, math.MaxUint64},
	"pages of files": {map[string]string{
		"mountinfo":           mountsV2,
		"cgroup":              "0::/a",
		"fs/a/memory.max":     "1000",
		"fs/a/memory.current": "900",
		"fs/a/memory.stat": "anon 200\nfile 500\ninactive_file 300\n" +
			"active_file 100\nunevictable 7\nactive_file x\n",
	}, 500},
	"more pages of files than usage": {map[string]string{
		"mountinfo":           mountsV2,
		"cgroup":              "0::/a",
		"fs/a/memory.max":     "1000",
		"fs/a/memory.current": "90",
		"fs/a/memory.stat":    "inactive_file 300",
	}, 1000},
}

// otherLimits holds the files of a process that is limited by another group than its own, by both versions of cgroups,
// or in a container.
var otherLimits = map[string]groupFiles{
	"a group above": {map[string]string{
		"mountinfo":               mountsV2,
		"cgroup":                  "0::/a/b/c",
		"fs/a/memory.max":         "1000",
		"fs/a/memory.current":     "100",
		"fs/a/b/c/memory.max":     "5000",
		"fs/a/b/c/memory.current": "0",
	}, 900},
	"the one at the top": {map[string]string{
		"mountinfo":         mountsV2,
		"cgroup":            "0::/a/b",
		"fs/memory.max":     "1000",
		"fs/memory.current": "100",
	}, 900},
	"none above the hierarchy": {map[string]string{
		"mountinfo":      mountsV2,
		"cgroup":         "0::/a",
		"memory.max":     "1000",
		"memory.current": "100",
	}, math.MaxUint64},
	"version 1": {map[string]string{
		"mountinfo":                   mountsV1,
		"cgroup":                      "5:cpu,cpuacct:/x\n4:memory:/a\n0::/\n",
		"mem/a/memory.limit_in_bytes": "1000",
		"mem/a/memory.usage_in_bytes": "600",
		"mem/a/memory.stat":           "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 50\n",
	}, 550},
	"both": {map[string]string{
		"mountinfo":                   mountsV2 + mountsV1,
		"cgroup":                      "4:memory:/a\n0::/b\n",
		"mem/a/memory.limit_in_bytes": "1000",
		"mem/a/memory.usage_in_bytes": "0",
		"fs/b/memory.max":             "800",
		"fs/b/memory.current":         "0",
	}, 800},
	"in a container that sees its own group alone": {map[string]string{
		"mountinfo":             "30 20 0:26 /docker/7 @/fs rw - cgroup2 cgroup rw\n",
		"cgroup":                "0::/docker/7/sub\n",
		"fs/sub/memory.max":     "1000",
		"fs/sub/memory.current": "1",
	}, 999},
	"in a container that does not know its name": {map[string]string{
		"mountinfo":         "30 20 0:26 /docker/7 @/fs rw - cgroup2 cgroup rw\n",
		"cgroup":            "0::/\n",
		"fs/memory.max":     "1000",
		"fs/memory.current": "1",
	}, 999},
	"outside of what is mounted": {map[string]string{
		"mountinfo":         mountsV2,
		"cgroup":            "0::/../../x\n",
		"fs/memory.max":     "1000",
		"fs/memory.current": "1",
	}, 999},
}

// TestGroupMemory: the free memory is the min over the group of the process and its ancestors, in both versions of
// cgroups; pages of files count as free.
func TestGroupMemory(t *testing.T) {
	for _, cases := range []map[string]groupFiles{ownLimit, otherLimits} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) { assert.Equal(t, c.free, groupFreeBytes(groupsOf(t, c.files))) })
		}
	}
}
