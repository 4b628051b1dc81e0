package pool

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestCountFast(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	siblings := func(c int) string { return fmt.Sprintf("system/cpu/cpu%d/topology/thread_siblings_list", c) }
	everyone := func(int) bool { return true }
	desktop := fstest.MapFS{"system/cpu/online": file("0-7")} // four cores with two threads each
	for c := range 8 {
		desktop[siblings(c)] = file(fmt.Sprintf("%d,%d", c%4, c%4+4))
	}
	require.Equal(t, 4, countFastCores(desktop, everyone))
	some := func(c int) bool { return c == 1 || c == 2 || c == 6 }
	require.Equal(t, 2, countFastCores(desktop, some), "limited by the affinity mask")

	// Two fast cores with two threads, four slow ones.
	hybrid := fstest.MapFS{"system/cpu/online": file("0-3,8-11"), "cpu_core/cpus": file("0-3")}
	for c := range 4 {
		hybrid[siblings(c)] = file(fmt.Sprintf("%d-%d", c/2*2, c/2*2+1))
		hybrid[siblings(c+8)] = file(fmt.Sprint(c + 8))
	}
	require.Equal(t, 2, countFastCores(hybrid, everyone))

	phone := fstest.MapFS{"system/cpu/online": file("0-7")} // four small cores, three large ones and a larger one
	for c, capacity := range []int{250, 250, 250, 511, 512, 871, 871, 1024} {
		phone[fmt.Sprintf("system/cpu/cpu%d/cpu_capacity", c)] = file(fmt.Sprint(capacity))
	}
	require.Equal(t, 4, countFastCores(phone, everyone))

	for _, odd := range []string{"", "x", "0-", "3-1", "-1", "0-99999999999", "0,,1"} {
		require.Zero(t, countFastCores(fstest.MapFS{"system/cpu/online": file(odd)}, everyone), odd)
	}
	require.Zero(t, countFastCores(fstest.MapFS{}, everyone))
	require.Positive(t, Threads())
	require.Equal(t, 8, limitThreads(8, 0))
	require.Equal(t, 4, limitThreads(8, 4))
	require.Equal(t, 2, limitThreads(2, 4))
}
