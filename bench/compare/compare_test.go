package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// row is a sample as bench routing writes it.
type row struct {
	Question   int     `json:"question"`
	Repetition int     `json:"repetition"`
	MS         float64 `json:"ms"`
	First      float64 `json:"first_token_ms"`
	Asks       int     `json:"asks"`
	Up         int     `json:"bytes_up"`
	Correct    bool    `json:"right"`
	Passes     int     `json:"passes"`
	Text       string  `json:"text"`
}

// line is a line of bench routing.
type line struct {
	Mode    string         `json:"mode"`
	Variant int            `json:"variant,omitempty"`
	Cell    map[string]any `json:"cell"`
	Samples []row          `json:"samples"`
}

// records writes lines and reads them again.
func records(t testing.TB, edit func(*record.Run), lines ...any) []result.Record {
	t.Helper()
	run := record.Run{Measurement: "bench routing", Version: "v1",
		Flags: map[string]string{"ahead": "1", "rtt": "100ms"}}
	if edit != nil {
		edit(&run)
	}
	var all bytes.Buffer
	for _, l := range lines {
		b, err := record.Line(l, run)
		require.NoError(t, err)
		all.Write(b)
	}
	read, err := result.Read(&all, "x.jsonl")
	require.NoError(t, err)
	return read
}

// machine simulates where measurements are made: its speed drifts by some percent over tens of answers, and now and
// then another process delays an answer.
type machine struct {
	r     *rand.Rand
	drift float64
}

// next returns the factor by which the next answer is late.
func (m *machine) next() float64 {
	m.drift = 0.97*m.drift + 0.01*m.r.NormFloat64() // about 4%, for about 60 answers
	late := math.Exp(m.drift + 0.02*m.r.NormFloat64())
	if m.r.Float64() < 0.03 {
		late *= 1 + m.r.ExpFloat64()/2
	}
	return late
}

// interleaved measures two variants of a mode, question by question in turns. The second variant is slower by a factor.
func interleaved(seed uint64, questions int, slower float64) (a, b line) {
	m := machine{r: rand.New(rand.NewPCG(seed, 1))}
	cell := map[string]any{"rtt_ms": 100, "edge_tps": 60}
	a, b = line{Mode: "serial", Variant: 1, Cell: cell}, line{Mode: "serial", Variant: 2, Cell: cell}
	for q := range questions {
		own := 300 + 500*rand.New(rand.NewPCG(uint64(q), 9)).Float64() // each question has its own length
		one := func(factor float64) row {
			return row{Question: q, MS: own * factor * m.next(), First: 3 * m.next(), Asks: q % 3, Up: 60 + m.r.IntN(4),
				Correct: q%2 == 0, Text: "t"}
		}
		if q%2 == 0 {
			a.Samples, b.Samples = append(a.Samples, one(1)), append(b.Samples, one(slower))
		} else {
			b.Samples, a.Samples = append(b.Samples, one(slower)), append(a.Samples, one(1))
		}
	}
	return a, b
}

// reported reports whether any figure differs, and returns the metric of time if it differs.
func reported(t testing.TB, r *Report) (anything bool, time *Metric) {
	for _, p := range r.Pairs {
		for i, m := range p.Metrics {
			anything = anything || m.Differs
			assert.True(t, m.Adjusted >= m.P && m.Adjusted <= 1, "%+v", m)
			if m.Name == "ms" {
				time = &p.Metrics[i]
			}
		}
	}
	require.NotNil(t, time)
	return anything, time
}

// TestSameAndSlower: of twenty measurements of the same mode twice, on a machine that drifts, at most one shows a
// difference. Of twenty in which one variant is slower by 3%, at least eighteen show it.
func TestSameAndSlower(t *testing.T) {
	racing.Spare(t)
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		wrong, found := 0, 0
		for i := range uint64(20) {
			a, b := interleaved(100*seed+i, 100, 1)
			r, err := Variants(records(t, nil, a, b))
			require.NoError(t, err)
			if anything, _ := reported(t, r); anything {
				wrong++
			}
			a, b = interleaved(100*seed+i+50, 100, 1.03)
			r, err = Variants(records(t, nil, a, b))
			require.NoError(t, err)
			if _, time := reported(t, r); time.Differs && *time.Change > 0.015 && *time.Change < 0.045 {
				found++
			}
		}
		assert.LessOrEqual(t, wrong, 1, "of 20, seed %d", seed)
		assert.GreaterOrEqual(t, found, 18, "of 20, seed %d", seed)
	}
}

// TestApartInTime: two measurements made one after the other on a machine that drifts differ no more often than chance
// allows, because questions that were disturbed together count as one.
func TestApartInTime(t *testing.T) {
	racing.Spare(t)
	wrong, rounds := 0, 60
	if testing.Short() {
		rounds = 20
	}
	for seed := range uint64(rounds) {
		a, _ := interleaved(seed, 300, 1)
		_, b := interleaved(seed+1000, 300, 1)
		b.Variant = 1
		r, err := Files(records(t, nil, a), records(t, nil, b))
		require.NoError(t, err)
		_, time := reported(t, r)
		assert.Positive(t, time.Block)
		if time.Adjusted <= 0.05 {
			wrong++
		}
	}
	assert.LessOrEqual(t, wrong, rounds/10)
}

// TestUnpaired: samples without questions, as bench engine writes them.
func TestUnpaired(t *testing.T) {
	engine := func(samples ...float64) map[string]any {
		rows := []map[string]any{}
		for _, s := range samples {
			rows = append(rows, map[string]any{"generation_tps": s, "prompt_tps": 100})
		}
		return map[string]any{"depth": 16, "threads": 2, "samples": rows}
	}
	edit := func(r *record.Run) { r.Measurement = "bench engine" }
	r, err := Files(records(t, edit, engine(10, 10.1, 10.2, 9.9, 9.8, 10.3)),
		records(t, edit, engine(9, 9.1, 9.2, 8.9, 8.8, 9.3)))
	require.NoError(t, err)
	require.Len(t, r.Pairs, 1)
	assert.Equal(t, map[string]string{"measurement": "bench engine", "depth": "16", "threads": "2"},
		r.Pairs[0].Of)
	m := r.Pairs[0].Metrics
	assert.Equal(t, "generation_tps", m[0].Name)
	assert.Equal(t, RankSum, m[0].Test)
	assert.Equal(t, "prompt_tps", m[1].Name)
	assert.Equal(t, NoTest, m[1].Test)
	assert.Zero(t, *m[1].Change)
	assert.InDelta(t, 2.0/924, m[0].Adjusted, 1e-9, "the only test")
	assert.True(t, m[0].Differs)
	assert.InDelta(t, -0.1, *m[0].Change, 0.01)
	assert.True(t, *m[0].Low < -0.08 && *m[0].High > -0.12 && *m[0].High < -0.07, "%v %v", *m[0].Low, *m[0].High)
	assert.InDelta(t, 10.05, m[0].A, 1e-9)

	plain := func(x ...float64) []result.Record { return records(t, edit, plainLine(x...)) }
	r, err = Files(plain(1, 2), plain(5, 6))
	require.NoError(t, err)
	assert.Nil(t, r.Pairs[0].Metrics[0].Low, "too few")
	assert.InDelta(t, 1.0/3, r.Pairs[0].Metrics[0].P, 1e-9)
}

// plainLine returns a line with samples of a figure, without questions.
func plainLine(x ...float64) map[string]any {
	rows := []map[string]any{}
	for _, v := range x {
		rows = append(rows, map[string]any{"x": v})
	}
	return map[string]any{"samples": rows}
}

// TestSingle: lines without samples have figures, also one level down, but no significance.
func TestSingle(t *testing.T) {
	at := func(p50, asks float64) map[string]any {
		return map[string]any{"devices": 8, "asks": asks,
			"latency_ms": map[string]any{"p50": p50, "x": map[string]any{"y": 1}},
			"cell":       map[string]any{"rtt_ms": 5}, "machine_quiet": map[string]any{"load": p50},
			"note": "text", "none": nil, "list": []int{1}}
	}
	r, err := Files(records(t, nil, at(10, 0)), records(t, nil, at(15, 0)))
	require.NoError(t, err)
	assert.Equal(t, "8", r.Pairs[0].Of["devices"])
	require.Len(t, r.Pairs[0].Metrics, 2)
	assert.Equal(t, "asks", r.Pairs[0].Metrics[0].Name)
	assert.Equal(t, NoTest, r.Pairs[0].Metrics[0].Test)
	assert.Nil(t, r.Pairs[0].Metrics[0].Change, "of nothing")
	m := r.Pairs[0].Metrics[1]
	assert.Equal(t, "latency_ms.p50", m.Name)
	assert.Equal(t, Single, m.Test)
	assert.InDelta(t, 0.5, *m.Change, 1e-12)
	assert.Equal(t, 10.0, m.A)
	assert.Equal(t, 15.0, m.B)
	assert.False(t, m.Differs)
	assert.Equal(t, 1.0, m.Adjusted)
}

// joinedLine returns a line with two answers to each of four questions.
func joinedLine(mode string, rtt, tps int, ms float64) line {
	l := line{Mode: mode, Cell: map[string]any{"rtt_ms": rtt, "edge_tps": tps}}
	for q := range 8 {
		l.Samples = append(l.Samples, row{Question: q / 2, Repetition: q % 2, MS: ms + float64(q*(q+1)),
			Text: fmt.Sprint(q, ms > 20)})
	}
	return l
}

// TestJoin: lines are joined by the fields that have one value in all lines of one side and another value in all of the
// other.
func TestJoin(t *testing.T) {
	a := records(t, nil, joinedLine("local", 0, 60, 10), joinedLine("serial", 0, 60, 20),
		joinedLine("serial", 50, 60, 30), joinedLine("paper", 0, 60, 5))
	b := records(t, func(r *record.Run) {
		r.Flags["ahead"], r.Version, r.Machine.Cores = "8", "v2", 4
	}, joinedLine("serial", 50, 50, 33), joinedLine("serial", 0, 50, 22), joinedLine("local", 0, 50, 11),
		joinedLine("cloud", 0, 50, 1))
	r, err := Files(a, b)
	require.NoError(t, err)
	assert.Equal(t, []Difference{{"edge_tps", "60", "50"}}, r.Between)
	assert.Equal(t, []Difference{{"--ahead", "1", "8"}, {"cores", "0", "4"}, {"version", "v1", "v2"}}, r.Runs)
	require.Len(t, r.Pairs, 3)
	for i, want := range []struct{ a, b, mode string }{{"x.jsonl:1", "x.jsonl:3", "local"},
		{"x.jsonl:2", "x.jsonl:2", "serial"}, {"x.jsonl:3", "x.jsonl:1", "serial"}} {
		p := r.Pairs[i]
		assert.Equal(t, want.a, p.A)
		assert.Equal(t, want.b, p.B)
		assert.Equal(t, want.mode, p.Of["mode"])
		assert.NotContains(t, p.Of, "edge_tps")
	}
	assert.Equal(t, 8, r.Pairs[0].Texts)
	assert.Equal(t, 8, r.Pairs[0].Same)
	assert.Zero(t, r.Pairs[1].Same)
	assert.Equal(t, []string{"x.jsonl:4", "x.jsonl:4"}, r.Alone)

	one, two := joinedLine("serial", 0, 60, 20), joinedLine("serial", 0, 60, 40)
	one.Variant, two.Variant = 1, 2
	again, err := Files(records(t, nil, one, one), records(t, nil, one, one))
	require.NoError(t, err)
	assert.Equal(t, "x.jsonl:2", again.Pairs[1].B, "equal lines are paired in order")
	again, err = Files(records(t, nil, one, two), records(t, nil, two, one))
	require.NoError(t, err)
	assert.Equal(t, "x.jsonl:2", again.Pairs[0].B, "each variant has its own partner")
	only, err := Files(records(t, nil, one, two), records(t, nil, joinedLine("serial", 0, 60, 20)))
	require.NoError(t, err)
	assert.Equal(t, "x.jsonl:1", only.Pairs[0].A, "the first of two is the same as the only one")
	assert.Equal(t, []string{"x.jsonl:2"}, only.Alone)
}

// TestVariants: the variants of a measurement are compared with its first one.
func TestVariants(t *testing.T) {
	one, two, three := joinedLine("serial", 0, 60, 20), joinedLine("serial", 0, 60, 40), joinedLine("serial", 0, 60, 30)
	one.Variant, two.Variant, three.Variant = 1, 2, 3
	r, err := Variants(records(t, nil, joinedLine("local", 0, 60, 10), three, one, two))
	require.NoError(t, err)
	require.Len(t, r.Pairs, 2)
	assert.Equal(t, "x.jsonl:3", r.Pairs[1].A, "the first one")
	assert.Equal(t, "x.jsonl:2", r.Pairs[1].B)
	assert.Equal(t, []Difference{{"variant", "1", "3"}}, r.Pairs[1].Between)
	assert.Empty(t, r.Alone)
}

// TestJoinNothing: files without figures or without lines that belong together are refused.
func TestJoinNothing(t *testing.T) {
	a := records(t, nil, joinedLine("local", 0, 60, 10), joinedLine("serial", 0, 60, 20),
		joinedLine("serial", 50, 60, 30), joinedLine("paper", 0, 60, 5))
	_, err := Variants(a)
	assert.ErrorIs(t, err, ErrNothing)
	for _, sides := range [][2][]result.Record{{a, records(t, nil, map[string]any{"note": "x"})},
		{records(t, nil, map[string]any{"note": "x"}), a}} {
		_, err = Files(sides[0], sides[1])
		assert.ErrorContains(t, err, "a file has no line with figures")
	}
	_, err = Files(a, records(t, nil, map[string]any{"break_even": 1}))
	assert.ErrorIs(t, err, ErrNothing)
	_, err = Files(records(t, nil, joinedLine("local", 0, 1, 1)),
		records(t, nil, joinedLine("serial", 0, 1, 1), joinedLine("cloud", 0, 1, 1)))
	assert.ErrorContains(t, err, "has a partner")
}

// TestIdentity: a field that says what was measured distinguishes lines, and is named if it is the only difference.
func TestIdentity(t *testing.T) {
	for _, field := range []string{"mode", "variant", "policy", "threshold", "dial", "test", "rows", "depth", "threads",
		"device", "backend", "devices", "rate", "model_ms", "seconds", "kv", "prompt_tokens", "generated_tokens",
		"depth_tokens"} {
		of := func(value string) []result.Record {
			return records(t, nil, map[string]any{field: value, "samples": []row{{MS: 1}, {MS: 2}}})
		}
		r, err := Files(of("x"), of("y"))
		require.NoError(t, err, field)
		assert.Equal(t, []Difference{{field, "x", "y"}}, r.Between)
	}
}

// TestWhichFigures: figures that follow from others are left out. The time per answer comes first, then the time of the
// first token and the exposed wait, then the others by name.
func TestWhichFigures(t *testing.T) {
	sample := map[string]any{"text": "x", "none": nil}
	for _, name := range []string{"question", "repetition", "prompt_tokens", "passes", "drafted", "decoded",
		"prefilled",
		"wait_ms", "hidden_ms", "timeouts", "bandwidth_share",
		"zero", "exposed_ms", "right", "ms", "asks", "first_token_ms", "bytes_up"} {
		sample[name] = 1
	}
	r, err := Files(records(t, nil, map[string]any{"samples": []any{sample}}),
		records(t, nil, map[string]any{"samples": []any{sample}}))
	require.NoError(t, err)
	var names []string
	for _, m := range r.Pairs[0].Metrics {
		names = append(names, m.Name)
	}
	assert.Equal(t, []string{"ms", "first_token_ms", "exposed_ms", "asks", "bytes_up", "right", "zero"}, names)
	assert.Equal(t, 1, r.Pairs[0].Texts)
	assert.Equal(t, 1, r.Pairs[0].Same)
}

// TestOnlyValues: a field that is missing or different in some line is not common to all.
func TestOnlyValues(t *testing.T) {
	lines := []*item{{of: map[string]string{"a": "1", "b": "2", "c": "3"}}, {of: map[string]string{"a": "1", "b": "4"}}}
	assert.Equal(t, map[string]string{"a": "1", "b": several, "c": several}, uniformSettings(lines))
	other := []*item{{of: map[string]string{"a": "2", "b": "5", "d": "6"}}}
	assert.Equal(t, []Difference{{"a", "1", "2"}, {"d", "", "6"}}, comparedSettings(lines, other))
	assert.Equal(t, []Difference{{"a", "2", "1"}, {"d", "6", ""}}, comparedSettings(other, lines))
	assert.Equal(t, "(none) → 6", Difference{"d", "", "6"}.String())
	assert.Equal(t, "6 → (none)", Difference{"d", "6", ""}.String())
}

// TestRuns: what distinguishes two runs, in the order of the names.
func TestRuns(t *testing.T) {
	a := record.Run{Version: "v1", Flags: map[string]string{"json": "true"}}
	b := record.Run{Version: "v1", Flags: map[string]string{"json": "false", "ahead": "8", "rtt": "1s", "zoo": "x"},
		Machine: record.Machine{Bandwidth: 21.34, Memory: 8 << 30},
		Model:   &record.Model{Name: "small", Hash: "0123456789abcdef"},
		Large:   &record.Model{Name: "large", Hash: "fe"}}
	assert.Equal(t, []Difference{{"--ahead", "", "8"}, {"--rtt", "", "1s"}, {"--zoo", "", "x"},
		{"bandwidth", "", "21 GB/s"}, {"large", "", "large fe"}, {"memory", "0 GiB", "8 GiB"},
		{"model", "", "small 0123456789ab"}}, settingDifferences(runSettings(&a),
		runSettings(&b)))
	l, err := parseItems(records(t, func(r *record.Run) { r.Model, r.Large = b.Model, b.Large },
		plainLine(1)))
	require.NoError(t, err)
	assert.Equal(t, b.Model.Hash, l[0].of["model"], "a line of other models has another identity")
	assert.Equal(t, "fe", l[0].of["large"])
}

// TestBrokenLines: a field of the wrong kind is an error that names it, in either file.
func TestBrokenLines(t *testing.T) {
	good := records(t, nil, plainLine(1))
	for field, value := range map[string]any{"cell": 7, "samples": "x"} {
		bad := records(t, nil, map[string]any{field: value})
		for _, pair := range [][2][]result.Record{{good, bad}, {bad, good}} {
			_, err := Files(pair[0], pair[1])
			assert.ErrorContains(t, err, field+": ")
		}
	}
	mixed := records(t, nil, map[string]any{"samples": []map[string]any{{"question": 0, "ms": 1}, {"ms": 2}}})
	_, err := Files(good, mixed)
	assert.ErrorContains(t, err, "samples: ms: some rows have a question, and others have none")
}

// TestApart: figures of other questions have no pairs, and figures of which one side has no questions are compared as
// samples.
func TestApart(t *testing.T) {
	of := func(from, to int) []row {
		var rows []row
		for q := from; q < to; q++ {
			rows = append(rows, row{Question: q, MS: float64(q + 1)})
		}
		return rows
	}
	_, ok := compareSeries("ms", &series{values: []float64{1}, questions: []int{1}}, &series{values: []float64{2},
		questions: []int{2}})
	assert.False(t, ok)
	m, ok := compareSeries("ms", &series{values: []float64{1, 2, 3}, questions: []int{1, 2, 3}},
		&series{values: []float64{9, 2, 3}, questions: []int{4, 2, 3}})
	assert.True(t, ok)
	assert.Equal(t, [2]int{2, 2}, m.N, "questions 2 and 3")
	assert.Equal(t, 2.5, m.A)
	assert.Equal(t, 2.5, m.B)
	for _, sides := range [][2][]int{{{1, 2, 3}, nil}, {nil, {1, 2, 3}}} {
		m, ok := compareSeries("ms", &series{values: []float64{1, 2, 3}, questions: sides[0]},
			&series{values: []float64{4, 5, 6}, questions: sides[1]})
		assert.True(t, ok)
		assert.Equal(t, RankSum, m.Test)
	}
	r, err := Files(records(t, nil, line{Samples: of(0, 5)}), records(t, nil, line{Samples: of(5, 9)}))
	require.NoError(t, err)
	assert.Empty(t, r.Pairs[0].Metrics)
}

// TestUntested: a line without samples, which has no test, does not take a share of the error probability.
func TestUntested(t *testing.T) {
	var rows []map[string]any
	for q := range 10 {
		rows = append(rows, map[string]any{"question": q, "ms": 100 + q*q})
	}
	slower := slices.Clone(rows)
	for q := range slower {
		slower[q] = map[string]any{"question": q, "ms": 110 + q*q}
	}
	of := func(rows []map[string]any, x int) []result.Record {
		return records(t, nil, map[string]any{"mode": "a", "samples": rows}, map[string]any{"mode": "b", "x": x})
	}
	r, err := Files(of(rows, 1), of(slower, 2))
	require.NoError(t, err)
	m := r.Pairs[0].Metrics[0]
	assert.Equal(t, "ms", m.Name)
	assert.Equal(t, m.P, m.Adjusted)
}

// TestMetrics: figures computed by hand. Repetitions belong to one question, counts and right answers have no
// logarithm, and all tests are corrected together.
func TestMetrics(t *testing.T) {
	var a, b line
	for q := range 10 {
		for rep := range 2 {
			ms := float64(100 + 10*q)
			a.Samples = append(a.Samples, row{Question: q, Repetition: rep, MS: ms + float64(rep), Asks: 1, Passes: q})
			b.Samples = append(b.Samples, row{Question: q, Repetition: rep,
				MS: 1.1 * (ms + float64(rep)), Asks: 1 + q%2, Correct: true, Passes: 99})
		}
	}
	r, err := Files(records(t, nil, a), records(t, nil, b))
	require.NoError(t, err)
	byName := map[string]Metric{}
	for _, m := range r.Pairs[0].Metrics {
		byName[m.Name] = m
	}
	assert.Equal(t, "ms", r.Pairs[0].Metrics[0].Name, "first")
	assert.NotContains(t, byName, "passes")
	assert.NotContains(t, byName, "question")
	ms := byName["ms"]
	assert.InDelta(t, 145.5, ms.A, 1e-9)
	assert.InDelta(t, 0.1, *ms.Change, 1e-9)
	assert.InDelta(t, 0.1, *ms.Low, 1e-9)
	assert.InDelta(t, 0.1, *ms.High, 1e-9)
	assert.Equal(t, [2]int{10, 10}, ms.N)
	assert.InDelta(t, 2.0/1024, ms.P, 1e-9)
	assert.InDelta(t, 6.0/1024, ms.Adjusted, 1e-9, "one of three tests")
	assert.InDelta(t, 6.0/1024, byName["right"].Adjusted, 1e-9)
	assert.True(t, ms.Differs)
	asks := byName["asks"]
	assert.InDelta(t, 2.0/32, asks.P, 1e-9)
	assert.InDelta(t, 0.5, *asks.Change, 1e-9)
	assert.True(t, *asks.Low > 0.1 && *asks.High < 0.9)
	right := byName["right"]
	assert.Nil(t, right.Change, "of nothing")
	assert.Equal(t, 1.0, right.B)
	assert.InDelta(t, 2.0/1024, right.P, 1e-9, "as McNemar's test")
	assert.NotContains(t, byName, "first_token_ms", "0 in all samples")
}

// TestBlocks: correlated neighbors count as one sample, others do not.
func TestBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	free, tied := make([]float64, 200), make([]float64, 200)
	for i := range free {
		free[i] = r.NormFloat64()
		if tied[i] = r.NormFloat64(); i > 0 {
			tied[i] += 0.8 * tied[i-1]
		}
	}
	assert.Equal(t, 1, blockLength(free))
	assert.InDelta(t, 14, blockLength(tied), 2, "2 (1 + 0.8) / (1 - 0.8) is 18, but only a dozen are left")
	rising := make([]float64, 12)
	for i := range rising {
		rising[i] = 100 + float64(i)
	}
	assert.Equal(t, 1, blockLength(rising))
	assert.Equal(t, []float64{1.5, 3.5, 6}, blockMeans([]float64{1, 2, 3, 4, 5, 6, 7}, 2))
	assert.Equal(t, []float64{4}, blockMeans([]float64{3, 5}, 2))
	assert.Zero(t, autocorrelation(centeredRanks([]float64{1, 1, 1}), 1))
	assert.InDelta(t, -0.75, autocorrelation(centeredRanks([]float64{1, 9, 1, 9}), 1), 1e-12)
	assert.InDelta(t, 0.5, autocorrelation(centeredRanks([]float64{1, 9, 1, 9}), 2), 1e-12)
	assert.Equal(t, []int{1, 1, 2, 3}, []int{groupLength(nil, 60), groupLength(free[:60], 60),
		groupLength(free[:61], 60), groupLength(free[:121], 60)})
	values := make([]float64, 3900)
	for i := range values {
		values[i] = r.ExpFloat64()
	}
	m := compareUnpaired("ms", values[:3000], values[3000:])
	assert.Equal(t, [2]int{3000, 900}, m.N)
	assert.Equal(t, 150, m.Block, "20 blocks")
	assert.InDelta(t, math.Ln2, m.A, 0.05, "the median of the samples, not of means of several")
	assert.InDelta(t, math.Ln2, m.B, 0.1)
	assert.Greater(t, m.P, 0.01, "equal distributions")
	assert.Equal(t, m.P, compareUnpaired("ms", values[3000:], values[:3000]).P, "in either order")
	assert.Greater(t, compareUnpaired("ms", values[:3000], []float64{1e9}).P, 0.05, "20 blocks and one value")
	m = compareUnpaired("asks", []float64{0, 1, 2, 3, 4, 5, 6}, []float64{10, 11, 12, 13, 14, 15, 16})
	assert.InDelta(t, 13./3-1, *m.Change, 1e-12)
	assert.Nil(t, m.Low, "0 has no logarithm")
	for _, sides := range [][2][]float64{{{1, 2, 3, 4, 5, 6, 7, 8}, {0, 3, 4, 5, 6, 7, 8, 9}},
		{{0, 2, 3, 4, 5, 6, 7, 8}, {1, 3, 4, 5, 6, 7, 8, 9}}} {
		m = compareSameQuestions("asks", sides[0], sides[1])
		assert.Equal(t, SignedRank, m.Test)
		assert.True(t, *m.Low < *m.Change && *m.Change < *m.High && *m.High < 1, "0 has no logarithm: %+v", m)
	}
	m = compareSameQuestions("ms", make([]float64, 5000), append(make([]float64, 4999), 1))
	assert.Equal(t, [2]int{5000, 5000}, m.N)
	assert.Equal(t, 84, m.Block, "59 blocks")
}

// FuzzRead: any lines are compared or refused.
func FuzzRead(f *testing.F) {
	a, b := interleaved(1, 8, 1.1)
	type fields map[string]any
	for _, l := range []any{
		a, b, fields{"cell": 7},
		fields{"samples": []fields{{"ms": 1}, {"question": 1, "ms": nil}}},
		fields{"samples": []fields{{"question": -5, "ms": 1e308}, {"question": 1 << 40, "ms": -1e308}}},
		fields{"samples": []fields{{"ms": -1e308}, {"ms": -1e308}}},
	} {
		text, err := json.Marshal(l)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			return
		}
		lines := fmt.Sprintf(`{"run":{"measurement":"m"},%s`, strings.TrimPrefix(strings.TrimSpace(text), "{"))
		records, err := result.Read(strings.NewReader(lines+"\n"+lines), "x")
		if err != nil {
			return
		}
		r, err := Files(records, records)
		if err != nil {
			return
		}
		for _, p := range r.Pairs {
			for _, m := range p.Metrics {
				_, err := json.Marshal(m)
				require.NoError(t, err, "%v", m)
				require.False(t, m.Differs, "from itself")
			}
		}
	})
}
