package link

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// badTrace is an invalid text, the line that the error names, and the cause.
type badTrace struct {
	text string
	line int
	err  error
}

func badCapacities() []badTrace {
	return []badTrace{
		{"", 0, ErrEmpty},
		{"0\n0\n", 0, ErrEmpty},
		{"\n1\n", 1, ErrNumber},
		{"1\n\n", 2, ErrNumber},
		{"1\n-1\n", 2, ErrNumber},
		{"1\n2.5\n", 2, ErrNumber},
		{"1\n 2\n", 2, ErrNumber},
		{"1\n0x2\n", 2, ErrNumber},
		{"1\n99999999999999999999\n", 2, ErrNumber},
		{"86400001\n", 1, ErrNumber},
		{"1\n3\n2\n", 3, ErrOrder},
		{"1\n" + strings.Repeat("9", 1<<17), 2, ErrTooLong},
	}
}

func badRTTs() []badTrace {
	const head = "t_ms,rtt_ms\n"
	return []badTrace{
		{"", 0, ErrEmpty},
		{head, 0, ErrEmpty},
		{head + "0,1\n", 0, ErrEmpty},
		{"t_ms,speed\n0,1\n", 1, ErrColumn},
		{"\n0,1\n", 1, ErrColumn},
		{"speed,rtt_ms\n0,1\n", 1, ErrColumn},
		{head + "0\n", 2, ErrColumn},
		{head + "0,1\n\n", 3, ErrColumn},
		{head + "0,1\n1,x\n", 3, ErrNumber},
		{head + "0,1\n1,-1\n", 3, ErrNumber},
		{head + "0,1\n1,NaN\n", 3, ErrNumber},
		{head + "0,1\n1,inf\n", 3, ErrNumber},
		{head + "0,1\n1,3600001\n", 3, ErrNumber},
		{head + "0,1\n,1\n", 3, ErrNumber},
		{head + "0,1\n86400001,1\n", 3, ErrNumber},
		{head + "0,1\n1e300,1\n", 3, ErrNumber},
		{head + "0,1\n0,1\n", 3, ErrOrder},
		{head + "0,1\n2,1\n1,1\n", 4, ErrOrder},
		{head + "0,1\n" + strings.Repeat(",", 1<<17), 3, ErrTooLong},
	}
}

// TestBadTraces: the error of an invalid trace has the file, the line and the cause.
func TestBadTraces(t *testing.T) {
	check := func(c badTrace, err error) {
		assert.ErrorIs(t, err, c.err, "%.60q", c.text)
		want := "some.trace: "
		if c.line > 0 {
			want = fmt.Sprintf("some.trace:%d: ", c.line)
		}
		assert.True(t, strings.HasPrefix(err.Error(), want), err.Error())
		assert.Less(t, len(err.Error()), 200)
	}
	for _, c := range badCapacities() {
		_, err := readCapacity(strings.NewReader(c.text), "some.trace")
		check(c, err)
	}
	for _, c := range badRTTs() {
		_, err := ReadRTT(strings.NewReader(c.text), "some.trace")
		check(c, err)
	}
	broken := errors.New("disk on fire")
	_, err := readCapacity(io.MultiReader(strings.NewReader("1\n2\n"), iotest.ErrReader(broken)), "some.trace")
	check(badTrace{"a reader that fails", 3, broken}, err)
}

// FuzzCapacity: any bytes give an error with their name, or a trace that is unchanged when written and read again, and
// that a link can replay.
func FuzzCapacity(f *testing.F) {
	for _, c := range badCapacities() {
		f.Add([]byte(c.text[:min(len(c.text), 100)]), int64(5))
	}
	f.Add([]byte(capacityText(seeds(1), 30)), int64(1e9))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		trace, err := readCapacity(strings.NewReader(string(b)), "fuzz")
		if err != nil {
			require.ErrorContains(t, err, "fuzz:")
			return
		}
		var again strings.Builder
		for _, ms := range trace.chances {
			fmt.Fprintln(&again, ms)
		}
		require.Equal(t, trace, read(t, readCapacity, again.String()))
		after := time.Duration(uint64(at) % uint64(365*24*time.Hour))
		k := trace.firstChance(after)
		require.GreaterOrEqual(t, trace.chanceTime(k), after)
		require.True(t, k == 0 || trace.chanceTime(k-1) < after)
		e := newEmulator(Options{Up: Direction{Capacity: trace, Queue: 64 << 20}, TraceStart: after}, directionUp)
		for _, p := range []packet{{0, 28}, {0, 65_535}, {after, 1500}} {
			require.GreaterOrEqual(t, e.emulatePacket(p.at, p.size).across, p.at)
		}
	})
}

// FuzzRTT: see [FuzzCapacity].
func FuzzRTT(f *testing.F) {
	for _, c := range badRTTs() {
		f.Add([]byte(c.text[:min(len(c.text), 100)]), int64(5))
	}
	f.Add([]byte(rttText(seeds(1), 30)), int64(1e9))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		trace, err := ReadRTT(strings.NewReader(string(b)), "fuzz")
		if err != nil {
			require.ErrorContains(t, err, "fuzz:")
			return
		}
		for i, row := range trace.rows {
			require.True(t, row.at >= 0 && row.at <= maxTrace && row.rtt >= 0 && row.rtt <= maxRTT)
			require.True(t, i == 0 || row.at > trace.rows[i-1].at)
		}
		after := time.Duration(uint64(at) % uint64(365*24*time.Hour))
		fate := newEmulator(Options{RTT: trace, TraceStart: after}, directionDown).emulatePacket(after, 100)
		require.True(t, fate.end == vanished || fate.due >= after && fate.due <= after+maxRTT)
	})
}

// TestCapacityRounds: a trace repeats: chances at the end of one round and the beginning of the next are in order.
func TestCapacityRounds(t *testing.T) {
	trace := read(t, readCapacity, "0\n0\n5\n8\n8\n")
	assert.Equal(t, 5, len(trace.chances))
	var got []int64
	for k := range int64(12) {
		got = append(got, trace.chanceTime(k).Milliseconds())
	}
	assert.Equal(t, []int64{0, 0, 5, 8, 8, 8, 8, 13, 16, 16, 16, 16}, got)
	for at, want := range map[float64]int64{0: 0, 0.001: 2, 5: 2, 5.5: 3, 8: 3, 8.001: 7, 13: 7, 16: 8, 16.001: 12} {
		assert.Equal(t, want, trace.firstChance(time.Duration(at*float64(time.Millisecond))), at)
	}
}

// TestAddTrace: options take traces by file name.
func TestAddTrace(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	rtt := write("a.rtt.csv", "t_ms,rtt_ms\n0,20\n100,30\n")
	up := write("lte.up", "1\n2\n")
	down := write("lte.down", "1\n2\n3\n")
	half := write("half.down", "1\n")
	bad := write("bad.up", "1\nx\n")
	write("worse.up", "1\n")
	write("worse.down", "x\n")

	var o Options
	require.NoError(t, o.AddTrace(rtt))
	assert.Equal(t, 2, len(o.RTT.rows))
	require.NoError(t, o.AddTrace(up))
	assert.Nil(t, o.Down.Capacity)
	require.NoError(t, o.AddTrace(down))
	assert.Equal(t, 2, len(o.Up.Capacity.chances))
	assert.Equal(t, 3, len(o.Down.Capacity.chances))

	o = Options{}
	require.NoError(t, o.AddTrace(strings.TrimSuffix(up, ".up")))
	assert.Len(t, o.Up.Capacity.chances, 2)
	assert.Len(t, o.Down.Capacity.chances, 3)
	o = Options{}
	require.NoError(t, o.AddTrace(strings.TrimSuffix(half, ".down")))
	assert.Nil(t, o.Up.Capacity)
	assert.Equal(t, 1, len(o.Down.Capacity.chances))

	assert.EqualError(t, o.AddTrace(bad), bad+`:2: "x": `+ErrNumber.Error())
	assert.ErrorIs(t, o.AddTrace(strings.TrimSuffix(bad, ".up")), ErrNumber)
	assert.ErrorContains(t, o.AddTrace(filepath.Join(dir, "worse")), "worse.down:1: ")
	o = Options{}
	assert.ErrorIs(t, o.AddTrace(filepath.Join(dir, "none.up")), os.ErrNotExist)
	assert.ErrorIs(t, o.AddTrace(filepath.Join(dir, "none.csv")), ErrTraceName)
	assert.ErrorContains(t, o.AddTrace(filepath.Join(dir, "none.csv")), "none.csv: there is no such trace")
	assert.Nil(t, o.Up.Capacity, "an invalid trace changes nothing")
}

// TestSharedTraces: the shared traces have the figures in their README, and a link replays them.
func TestSharedTraces(t *testing.T) {
	racing.Spare(t)
	dir := sharedtest.Shared(t, "data", "traces")
	for _, c := range []struct {
		name   string
		rows   int
		length time.Duration // in seconds
	}{
		{"5g-n78-urban-20kmh.rtt.csv", 6277, 363},
		{"5g-n78-arterial-70kmh.rtt.csv", 950, 55},
		{"5g-n8-losing-signal-30kmh.rtt.csv", 1647, 92},
		{"5g-n8-rural-standing.rtt.csv", 1060, 59},
		{"5g-n8-rural-outage-10kmh.rtt.csv", 1219, 68},
		{"ATT-LTE-driving-2016.down", 45_604, 120},
		{"ATT-LTE-driving-2016.up", 19_101, 120},
		{"Verizon-LTE-short.down", 58_655, 140},
		{"Verizon-LTE-short.up", 69_367, 140},
		{"Verizon-EVDO-driving.down", 46_065, 1062},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o Options
			require.NoError(t, o.AddTrace(filepath.Join(dir, c.name)))
			switch {
			case o.RTT != nil:
				assert.Equal(t, c.rows, len(o.RTT.rows))
				assert.InDelta(t, float64(c.length), o.RTT.Length().Seconds(), 1)
				replayRTT(t, o)
			case o.Up.Capacity != nil:
				assert.Equal(t, c.rows, len(o.Up.Capacity.chances))
				assert.InDelta(t, float64(c.length), o.Up.Capacity.Length().Seconds(), 1)
				replayCapacity(t, o, directionUp, o.Up.Capacity)
			default:
				assert.Equal(t, c.rows, len(o.Down.Capacity.chances))
				assert.InDelta(t, float64(c.length), o.Down.Capacity.Length().Seconds(), 1)
				replayCapacity(t, o, directionDown, o.Down.Capacity)
			}
		})
	}
}

// replayRTT sends a request at each row; each echo arrives when it was recorded, or after the previous one.
func replayRTT(t *testing.T, o Options) {
	t.Helper()
	e, last := newEmulator(o, directionDown), time.Duration(0)
	for _, row := range o.RTT.rows {
		last = max(last, row.at+row.rtt)
		require.Equal(t, last, e.emulatePacket(row.at, 100).due)
	}
}

// replayCapacity offers more than a link can carry; the link uses every chance completely.
func replayCapacity(t *testing.T, o Options, w directionID, trace *CapacityTrace) {
	t.Helper()
	o.Up.Queue, o.Down.Queue = 64<<20, 64<<20
	e := newEmulator(o, w)
	for k := range trace.chances {
		f := e.emulatePacket(0, chanceBytes)
		if f.end == tailDrop {
			break
		}
		require.Equal(t, trace.chanceTime(int64(k)), f.due)
	}
}
