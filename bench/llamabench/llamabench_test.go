package llamabench

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
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

func some() []Test {
	prompt := Test{Version: "v1", CPU: `A "fast" CPU, 2`, Backend: "CPU", File: "m.gguf", Arch: "qwen2", Type: "Q8_0",
		Bytes: 675710816, Params: 630167424, Batch: 512, Threads: 2, KV: "f16", Prompt: 512,
		Began: time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("", 7200)), SamplesNS: []int64{4e9, 5e9, 4e9}}
	decode := prompt
	decode.Prompt, decode.Decode, decode.Depth, decode.SamplesNS = 0, 64, 4096, []int64{2e9}
	return []Test{prompt, decode}
}

func write(t *testing.T, tests []Test, run any) (text string, lines []map[string]any) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, tests, run))
	for line := range strings.Lines(b.String()) {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		lines = append(lines, one)
	}
	return b.String(), lines
}

// TestColumns: each column of llama-bench has its own value, in its order and with its type.
func TestColumns(t *testing.T) {
	one := some()[1]
	one.GPU, one.Backend, one.KV, one.Batch, one.Threads, one.SamplesNS = "M4", "Metal", "f32", 33, 3, []int64{1e9, 2e9}
	text, _ := write(t, []Test{one}, nil)
	assert.Equal(t, `{"build_commit":"v1","build_number":0,"cpu_info":"A \"fast\" CPU, 2","gpu_info":"M4",`+
		`"backends":"Metal","model_filename":"m.gguf","model_type":"qwen2 630.17M Q8_0","model_size":675710816,`+
		`"model_n_params":630167424,"n_batch":33,"n_ubatch":33,"n_threads":3,"cpu_mask":"0x0",`+
		`"cpu_strict":false,"poll":0,"type_k":"f32","type_v":"f32","n_gpu_layers":-1,"n_cpu_moe":0,`+
		`"split_mode":"none","main_gpu":0,"no_kv_offload":false,"flash_attn":-1,"devices":"auto",`+
		`"tensor_split":"0.00","tensor_buft_overrides":"none","load_mode":"mmap","embeddings":false,`+
		`"no_op_offload":0,"no_host":false,"fit_target":0,"fit_min_ctx":0,"n_prompt":0,"n_gen":64,`+
		`"n_depth":4096,"test_time":"2026-07-01T10:00:00Z","avg_ns":1500000000,"stddev_ns":707106781,`+
		`"avg_ts":48,"stddev_ts":22.627416997969522,"samples_ns":[1000000000,2000000000],`+
		`"samples_ts":[64,32]}`+"\n", text)
	var all []string
	for i := range reflect.TypeFor[columns]().NumField() {
		all = append(all, reflect.TypeFor[columns]().Field(i).Tag.Get("json"))
	}
	assert.Equal(t, names+",samples_ns,samples_ts,run,omitempty", strings.Join(all, ","))
}

// TestWrite: there is a line for each test, with means and deviations of its samples, and with the run.
func TestWrite(t *testing.T) {
	text, lines := write(t, some(), "<v1>")
	assert.Contains(t, text, `,"run":"<v1>"}`, "not escaped")
	require.Len(t, lines, 2)
	for name, want := range map[string]any{"avg_ns": 4333333333., "stddev_ns": 577350269., // n-1
		"n_gpu_layers": 0., "n_prompt": 512., "n_gen": 0.,
		"samples_ns": []any{4e9, 5e9, 4e9}, "samples_ts": []any{128., 102.4, 128.}} {
		assert.Equal(t, want, lines[0][name], name)
	}
	assert.InDelta(t, 119.466667, lines[0]["avg_ts"], 1e-6)
	assert.InDelta(t, 14.780167, lines[0]["stddev_ts"], 1e-6)
	assert.Equal(t, 0., lines[1]["stddev_ns"], "a single sample")
	large := some()[0]
	large.Params = 2e9
	assert.Equal(t, "qwen2 2.00B Q8_0", large.model())
	var b bytes.Buffer
	assert.Error(t, Write(&b, some(), make(chan int)))
	assert.ErrorContains(t, Write(&b, []Test{{Prompt: 1, SamplesNS: []int64{0}}}, nil), "json: ")
	assert.Empty(t, b.String())
	null, err := os.Open(os.DevNull) // for reading
	require.NoError(t, err)
	defer null.Close()
	assert.Error(t, Write(null, some(), nil))
}
