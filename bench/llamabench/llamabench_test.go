package llamabench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// names are the columns of llama-bench, in order (llama.cpp, tools/llama-bench, commit 0104b151).
const names = "build_commit,build_number,cpu_info,gpu_info,backends,model_filename,model_type,model_size," +
	"model_n_params,n_batch,n_ubatch,n_threads,cpu_mask,cpu_strict,poll,type_k,type_v,n_gpu_layers,n_cpu_moe," +
	"split_mode,main_gpu,no_kv_offload,flash_attn,devices,tensor_split,tensor_buft_overrides,load_mode,embeddings," +
	"no_op_offload,no_host,fit_target,fit_min_ctx,n_prompt,n_gen,n_depth,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts"

// theirs is a line written by llama-bench.
const theirs = `"0104b15","9000","AMD EPYC","","CPU","m.gguf","qwen2 1B Q8_0","675710816","630167424","2048","512",` +
	`"2","0x0","0","50","f16","f16","-1","0","layer","0","0","-1","auto","0.00","none","auto","0","0","0","0","0",` +
	`"512","0",` +
	`"0","2026-07-01T10:00:00Z","4000000000","20000000","128.000000","0.640000"`

func some() []Test {
	prompt := Test{Version: "v1", CPU: `A "fast" CPU, 2`, Backend: "CPU", File: "m.gguf", Arch: "qwen2", Type: "Q8_0",
		Bytes: 675710816, Params: 630167424, Batch: 512, Threads: 2, KV: "f16", Prompt: 512,
		Began: time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("", 7200)), SamplesNS: []int64{4e9, 5e9, 4e9}}
	decode := prompt
	decode.Prompt, decode.Decode, decode.Depth, decode.SamplesNS = 0, 64, 4096, []int64{2e9}
	return []Test{prompt, decode}
}

func write(t *testing.T, format string, extra map[string]any) string {
	var b bytes.Buffer
	require.NoError(t, Write(&b, format, some(), extra))
	return b.String()
}

// TestOneTable: lines of llama-bench and of this package are read as one table.
func TestOneTable(t *testing.T) {
	ours := write(t, "csv", nil)
	head, lines, _ := strings.Cut(ours, "\n")
	assert.Equal(t, names, head)
	rows, err := csv.NewReader(strings.NewReader(names + "\n" + theirs + "\n" + lines)).ReadAll()
	require.NoError(t, err, "equal numbers of columns")
	require.Len(t, rows, 4)
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	for _, row := range rows[1:] {
		for _, name := range []string{"model_size", "model_n_params", "n_threads", "n_prompt", "n_gen", "n_depth",
			"avg_ns", "stddev_ns"} {
			_, err := strconv.ParseInt(row[at[name]], 10, 64)
			assert.NoError(t, err, name)
		}
		ns, err := strconv.ParseFloat(row[at["avg_ns"]], 64)
		require.NoError(t, err)
		ts, err := strconv.ParseFloat(row[at["avg_ts"]], 64)
		require.NoError(t, err)
		tokens, err := strconv.Atoi(row[at["n_prompt"]])
		require.NoError(t, err)
		if tokens == 0 {
			tokens, err = strconv.Atoi(row[at["n_gen"]])
			require.NoError(t, err)
		}
		assert.InEpsilon(t, float64(tokens)/ns*1e9, ts, 0.02, "the mean of the rates is near the rate of the mean time")
		_, err = time.Parse(time.RFC3339, row[at["test_time"]])
		assert.NoError(t, err)
	}
	get := func(row int, name string) string { return rows[row][at[name]] }
	assert.Equal(t, `A "fast" CPU, 2`, get(2, "cpu_info"))
	assert.Equal(t, []string{"512", "0", "0"}, []string{get(2, "n_prompt"), get(2, "n_gen"), get(2, "n_depth")})
	assert.Equal(t, []string{"0", "64", "4096"}, []string{get(3, "n_prompt"), get(3, "n_gen"), get(3, "n_depth")})
	assert.Equal(t, "2026-07-01T10:00:00Z", get(2, "test_time"), "in UTC")
	assert.Equal(t, "4333333333", get(2, "avg_ns"))
	assert.Equal(t, "577350269", get(2, "stddev_ns"), "sample standard deviation: n-1")
	assert.Equal(t, "119.466667", get(2, "avg_ts"), "of 128, 102.4 and 128")
	assert.Equal(t, "14.780167", get(2, "stddev_ts"))
	assert.Equal(t, "0", get(3, "stddev_ns"), "a single sample")
	assert.Equal(t, "qwen2 630.17M Q8_0", get(2, "model_type"))
	assert.Equal(t, "0", get(2, "n_gpu_layers"), "no GPU")
}

// TestColumns: each column has its own value.
func TestColumns(t *testing.T) {
	one := some()[1]
	one.GPU, one.Backend, one.KV, one.Batch, one.Threads, one.SamplesNS = "M4", "Metal", "f32", 33, 3, []int64{1e9, 2e9}
	var b bytes.Buffer
	require.NoError(t, Write(&b, "csv", []Test{one}, nil))
	_, line, _ := strings.Cut(b.String(), "\n")
	assert.Equal(t, `"v1","0","A ""fast"" CPU, 2","M4","Metal","m.gguf","qwen2 630.17M Q8_0","675710816","630167424",`+
		`"33","33","3","0x0","0","0","f32","f32","-1","0","none","0","0","-1","auto","0.00","none","mmap","0","0","0","0",`+
		`"0","0","64","4096","2026-07-01T10:00:00Z","1500000000","707106781","48.000000","22.627417"`+"\n", line)
}

// TestJSON: the objects have the fields of llama-bench with its types, the samples after them, and the extra fields.
func TestJSON(t *testing.T) {
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(write(t, "json",
		map[string]any{"run": map[string]string{"version": "<v1>"}})), &list))
	var lines []map[string]any
	for line := range strings.Lines(write(t, "jsonl", map[string]any{"run": map[string]string{"version": "<v1>"}})) {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		lines = append(lines, one)
	}
	assert.Equal(t, list, lines)
	one := list[0]
	for name := range strings.SplitSeq(names, ",") {
		assert.Contains(t, one, name)
	}
	assert.Len(t, one, 40+3)
	assert.Equal(t, []any{4e9, 5e9, 4e9}, one["samples_ns"])
	assert.Equal(t, []any{128., 102.4, 128.}, one["samples_ts"])
	for _, name := range []string{"cpu_strict", "no_kv_offload", "embeddings", "no_host"} {
		assert.Equal(t, false, one[name], name)
	}
	for _, name := range []string{"flash_attn", "poll", "n_threads", "build_number", "no_op_offload"} {
		assert.IsType(t, 0., one[name], name)
	}
	assert.Equal(t, map[string]any{"version": "<v1>"}, one["run"])
	assert.Contains(t, write(t, "jsonl", map[string]any{"run": "<v1>"}), `"run": "<v1>"`, "not escaped")
	assert.NotContains(t, write(t, "jsonl", nil), `"run"`)
	var b bytes.Buffer
	assert.Error(t, Write(&b, "xml", some(), nil))
	assert.Error(t, Write(&b, "json", some(), map[string]any{"run": make(chan int)}))
	null, err := os.Open(os.DevNull) // for reading
	require.NoError(t, err)
	defer null.Close()
	assert.Error(t, Write(null, "md", some(), nil))
	never := Test{Prompt: 1, SamplesNS: []int64{0}}
	assert.ErrorContains(t, Write(&b, "json", []Test{never}, nil), "json: ")
	assert.Empty(t, b.String())
	assert.Regexp(t, `"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}`,
		write(t, "jsonl", map[string]any{"e": 5, "c": 3, "a": 1, "d": 4, "b": 2}), "in order")
}

// TestTable: an unusual setting has a column, and all lines have the same width.
func TestTable(t *testing.T) {
	assert.Equal(t, `| model                          |       size |     params | backend    | threads |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | ------: | --------------: | -------------------: |
| qwen2 630.17M Q8_0             | 644.41 MiB |   630.17 M | CPU        |       2 |           pp512 |       119.47 ± 14.78 |
| qwen2 630.17M Q8_0             | 644.41 MiB |   630.17 M | CPU        |       2 |    tg64 @ d4096 |         32.00 ± 0.00 |

build: v1 (0)
`, write(t, "md", nil))
	gpu := some()[0]
	gpu.GPU, gpu.Backend, gpu.KV, gpu.Bytes, gpu.Params = "M4", "Metal", "f32", 3<<30, 2e9
	var b bytes.Buffer
	require.NoError(t, Write(&b, "md", []Test{gpu}, nil))
	assert.Contains(t, b.String(), "| ngl | threads | type_k | type_v |")
	assert.Contains(t, b.String(), "|   3.00 GiB |     2.00 B | Metal      |  -1 |       2 |    f32 |    f32 |")
	b.Reset()
	gpu.Bytes, gpu.Params, gpu.Backend = 1<<30, 1e9, "a name longer than its column"
	require.NoError(t, Write(&b, "md", []Test{gpu}, nil))
	assert.Contains(t, b.String(), "|   1.00 GiB |     1.00 B | a name longer than its column |")
	b.Reset()
	require.NoError(t, Write(&b, "md", nil, nil))
	assert.Equal(t, 2, strings.Count(b.String(), "\n"), "only the head")
}
