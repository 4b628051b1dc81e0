package replay

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// packed compresses lines.
func packed(t testing.TB, lines []byte) []byte {
	var b bytes.Buffer
	zip, err := zstd.NewWriter(&b)
	require.NoError(t, err)
	_, err = zip.Write(lines)
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	return b.Bytes()
}

// unpacked returns the lines of a recording.
func unpacked(t testing.TB, b []byte) []byte {
	zip, err := zstd.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	defer zip.Close()
	lines, err := io.ReadAll(zip)
	require.NoError(t, err)
	return lines
}

// recorded returns a small recording of several modes.
func recorded(t *testing.T) []byte {
	var b bytes.Buffer
	w, rec := newWorld(t, 4, &b)
	short := func(set func(*draft.Options)) func(*draft.Options) {
		return func(o *draft.Options) { set(o); o.MaxTokens = 6 }
	}
	w.records(t, rec, "a", 0, 0.5, short(ways()["serial"]))
	w.records(t, rec, "b", 0, 0.5, short(ways()["every"]))
	w.records(t, rec, "c", 1, 0.5, short(ways()["ahead"]))
	require.NoError(t, rec.Close())
	return b.Bytes()
}

// TestRoundTrip: a recording is read as it was written.
func TestRoundTrip(t *testing.T) {
	b := recorded(t)
	r, err := Read(bytes.NewReader(b), "x")
	require.NoError(t, err)
	assert.Len(t, r.Answers, 3)
	assert.Equal(t, 1, r.Version)
	assert.Equal(t, []int32{end}, r.Ends)
	assert.Equal(t, "bench routing", r.Run.Measurement)
	var again bytes.Buffer
	for line := range bytes.Lines(unpacked(t, b)) {
		var a Answer
		if bytes.HasPrefix(line, []byte(`{"mode"`)) {
			require.NoError(t, json.Unmarshal(line, &a))
			require.NoError(t, json.NewEncoder(&again).Encode(a))
		} else {
			again.Write(line)
		}
	}
	assert.Equal(t, string(unpacked(t, b)), again.String())
	path := filepath.Join(held.TempDir(t), "r.zst")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	_, err = ReadFile(path)
	assert.NoError(t, err)
	_, err = ReadFile(path + "x")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestTruncated: every truncated recording is refused with an error.
func TestTruncated(t *testing.T) {
	racing.Spare(t)
	b := recorded(t)
	lines := unpacked(t, b)
	for n := 0; n < len(b); n += 1 + n/50 {
		_, err := Read(bytes.NewReader(b[:n]), "x")
		require.ErrorIs(t, err, ErrFormat, "%d bytes of %d", n, len(b))
		require.ErrorContains(t, err, "x: ")
	}
	for n := 0; n < len(lines)-1; n += 1 + n/50 {
		_, err := Read(bytes.NewReader(packed(t, lines[:n])), "x")
		require.ErrorIs(t, err, ErrFormat, "%d bytes of %d", n, len(lines))
	}
	_, err := Read(bytes.NewReader(packed(t, append(lines, "{}\n"...))), "x")
	assert.ErrorContains(t, err, "line 6: not a recording that this program can read: unexpected data after its end")
	_, err = Read(strings.NewReader("not compressed"), "x")
	assert.ErrorIs(t, err, ErrFormat)
}

// goodAnswer is an answer with all parts.
const goodAnswer = `{"mode":"a","question":0,"prompt":[1,2],"tokens":[3,4],"parents":[0,1],` +
	`"heads":[{"node":0,"ids":[3],"logits":[1],"lse":1,"entropy":0,"confidence":0.5}],` +
	`"took_ns":9,"calls":[{"rows":1,"took_ns":7}],` +
	`"asks":[{"node":1,"took_ns":1,"token":4,"audited":2,` +
	`"audit":[{"pos":2,"token":6}],"ahead":[{"token":7,"at_ns":3}],"bytes_up":1}],"ids":[3,4]}`

// replacement is a part of a recording, and what it becomes.
type replacement struct{ from, to string }

// brokenAnswers returns replacements in goodAnswer with one error each.
func brokenAnswers() map[string]replacement {
	return map[string]replacement{
		"no mode":               {`"mode":"a"`, `"mode":""`},
		"a long mode":           {`"mode":"a"`, `"mode":"` + strings.Repeat("a", 101) + `"`},
		"a negative question":   {`"question":0`, `"question":-1`},
		"a far question":        {`"question":0`, `"question":1001`},
		"a negative device":     {`"question":0`, `"question":0,"device":-1`},
		"no prompt":             {`"prompt":[1,2]`, `"prompt":[]`},
		"foreign prompt":        {`"prompt":[1,2]`, `"prompt":[1,40]`},
		"negative token":        {`"tokens":[3,4]`, `"tokens":[3,-4]`},
		"foreign token":         {`"tokens":[3,4]`, `"tokens":[3,40]`},
		"too few parents":       {`"parents":[0,1]`, `"parents":[0]`},
		"a later parent":        {`"parents":[0,1]`, `"parents":[0,2]`},
		"a negative parent":     {`"parents":[0,1]`, `"parents":[-1,1]`},
		"head of no node":       {`"node":0,"ids"`, `"node":3,"ids"`},
		"head without logits":   {`"logits":[1]`, `"logits":[]`},
		"head without tokens":   {`"ids":[3],"logits":[1]`, `"ids":[],"logits":[]`},
		"foreign head":          {`"ids":[3],"logits"`, `"ids":[41],"logits"`},
		"confidence":            {`"confidence":0.5`, `"confidence":1.5`},
		"negative time":         {`"took_ns":9`, `"took_ns":-9`},
		"absurd time":           {`"took_ns":9`, `"took_ns":86400000000001`},
		"call of nothing":       {`"rows":1`, `"rows":0`},
		"ask of no node":        {`"node":1,"took_ns"`, `"node":3,"took_ns"`},
		"foreign answer":        {`"token":4,"audited"`, `"token":40,"audited"`},
		"finding elsewhere":     {`"pos":2`, `"pos":3`},
		"finding nowhere":       {`"pos":2`, `"pos":-2`},
		"foreign finding":       {`"token":6`, `"token":60`},
		"foreign token ahead":   {`"token":7`, `"token":70`},
		"ahead of time":         {`"at_ns":3`, `"at_ns":-3`},
		"audit of nothing":      {`"audited":2`, `"audited":-2`},
		"another kind of audit": {`"audited":2`, `"audited":2,"verify":4`},
		"negative bytes":        {`"bytes_up":1`, `"bytes_up":-1`},
		"foreign text":          {`"ids":[3,4]`, `"ids":[3,99]`},
		"a number":              {`"mode":"a"`, `"mode":7`},
		"a negative confidence": {`"confidence":0.5`, `"confidence":-0.1`},
		"many bytes":            {`"bytes_up":1`, `"bytes_up":2147483648`},
	}
}

const (
	headerLine = `{"recording":1,"vocab":40,"modes":["a"],"context":400,"ends":[39],"max_tokens":6,"rtt_ns":1,` +
		`"run":{}}` + "\n"
	trailerLine = "\n" + `{"end":{"answers":1}}` + "\n"
)

// readLines reads a recording of these lines.
func readLines(t *testing.T, lines string) (*Recording, error) {
	t.Helper()
	return Read(bytes.NewReader(packed(t, []byte(lines))), "x")
}

// TestGoodAnswer: all parts of an answer are read.
func TestGoodAnswer(t *testing.T) {
	r, err := readLines(t, headerLine+goodAnswer+trailerLine)
	require.NoError(t, err)
	r.Answers[0].texts = nil
	assert.Equal(t, &Answer{
		Mode: "a", Prompt: []int32{1, 2}, Tokens: []int32{3, 4}, Parents: []int32{0, 1}, Took: 9,
		Heads: []Head{{IDs: []int32{3}, Logits: []float32{1}, LogSumExp: 1, Confidence: new(float32(0.5))}},
		Calls: []Call{{Rows: 1, Took: 7}}, IDs: []int32{3, 4},
		Asks: []Ask{{Node: 1, Took: 1, Token: 4, Audited: 2, Audit: []Finding{{Pos: 2, Token: 6}},
			Ahead: []Later{{7, 3}}, BytesUp: 1}},
	}, r.Answers[0])
}

// TestLimits: the limit of each field itself is allowed.
func TestLimits(t *testing.T) {
	for from, to := range map[string]string{
		`"mode":"a"`:   `"mode":"` + strings.Repeat("a", 100) + `"`,
		`"question":0`: `"question":1000`, `"took_ns":9`: `"took_ns":86400000000000`,
		`"confidence":0.5`: `"confidence":1`, `"audited":2`: `"audited":2,"verify":1`,
		`[3,4],"parents"`: `[3,39],"parents"`,
		`"bytes_up":1`:    `"bytes_up":2147483647`} {
		require.Contains(t, goodAnswer, from)
		_, err := readLines(t, headerLine+strings.Replace(goodAnswer, from, to, 1)+trailerLine)
		assert.NoError(t, err, to)
	}
	most := strings.NewReplacer(`"vocab":40`, `"vocab":16777216`, `"context":400`, `"context":4194304`,
		`"max_tokens":6`, `"max_tokens":4194304`, `"rtt_ns":1`, `"rtt_ns":86400000000000`).Replace(headerLine)
	_, err := readLines(t, most+goodAnswer+trailerLine)
	assert.NoError(t, err, "the limits of the first line")
}

// TestNumbersOutside: a negative number, and one above the longest time, is refused in each field.
func TestNumbersOutside(t *testing.T) {
	for at, fields := range map[string][]string{
		"":      {"question", "prefill_ns", "took_ns"},
		"calls": {"rows", "took_ns"},
		"asks":  {"took_ns", "queue_ns", "cloud_ns", "verify", "audited", "bytes_up", "bytes_down"},
	} {
		for _, field := range fields {
			for _, value := range []int64{-1, 86400000000001} {
				var answer map[string]any
				require.NoError(t, json.Unmarshal([]byte(goodAnswer), &answer))
				part := answer
				if at != "" {
					part = answer[at].([]any)[0].(map[string]any)
				}
				part[field] = value
				line, err := json.Marshal(answer)
				require.NoError(t, err)
				_, err = readLines(t, headerLine+string(line)+trailerLine)
				assert.ErrorIs(t, err, ErrFormat, "%s.%s: %d", at, field, value)
			}
		}
	}
}

// TestBroken: each error of an answer is refused with its line.
func TestBroken(t *testing.T) {
	for name, b := range brokenAnswers() {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, goodAnswer, b.from)
			_, err := readLines(t, headerLine+strings.Replace(goodAnswer, b.from, b.to, 1)+trailerLine)
			assert.ErrorIs(t, err, ErrFormat)
			assert.ErrorContains(t, err, "x: line ")
		})
	}
}

// TestBrokenFrame: each error of the first line or the last one is refused.
func TestBrokenFrame(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"another version": {`"recording":1`, `"recording":2`,
			"version 2, and this program reads version 1: repeat the recording"},
		"no version":       {`"recording"`, `"x"`, `no field "recording"`},
		"no vocabulary":    {`"vocab":40`, `"vocab":0`, "vocab: 0"},
		"large vocabulary": {`"vocab":40`, `"vocab":16777217`, "vocab: 16777217"},
		"less vocabulary":  {`"vocab":40`, `"vocab":5`, "ends: 39 is not a token of a vocabulary of 5"},
		"context":          {`"context":400`, `"context":1`, "context"},
		"large context":    {`"context":400`, `"context":4194305`, "context"},
		"no room":          {`"context":400`, `"context":2`, "prompt: 2 tokens"},
		"tokens":           {`"max_tokens":6`, `"max_tokens":0`, "max_tokens"},
		"many tokens":      {`"max_tokens":6`, `"max_tokens":4194305`, "max_tokens"},
		"pace":             {`"max_tokens":6`, `"max_tokens":6,"edge_tps":-1`, "edge_tps"},
		"round trip":       {`"rtt_ns":1`, `"rtt_ns":-1`, "header: a time of -1 ns"},
		"time of tokens":   {`"rtt_ns":1`, `"rtt_ns":1,"cloud_pace_ns":86400000000001`, "header: a time of"},
		"answers":          {`"answers":1`, `"answers":2`, "its number of answers is wrong"},
		"no end":           {`{"end":{"answers":1}}`, `{"end":null}`, "its number of answers is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readLines(t, strings.Replace(headerLine+goodAnswer+trailerLine, c.from, c.to, 1))
			assert.ErrorIs(t, err, ErrFormat)
			assert.ErrorContains(t, err, c.want)
		})
	}
	_, err := readLines(t, headerLine+`{"end":{"answers":0}}`+"\n")
	assert.ErrorContains(t, err, "there are 0", "an empty recording")
}

// TestBomb: a small file does not allocate much memory.
func TestBomb(t *testing.T) {
	racing.Spare(t)
	bomb := packed(t, bytes.Repeat([]byte{' '}, maxLine+1))
	assert.Less(t, len(bomb), 100_000)
	_, err := Read(bytes.NewReader(bomb), "x")
	assert.ErrorIs(t, err, ErrFormat)
	assert.ErrorContains(t, err, "too long")
}

// FuzzRead: reading any file does not panic, and each valid recording can be replayed in every mode.
func FuzzRead(f *testing.F) {
	f.Add([]byte(headerLine+goodAnswer+trailerLine), false)
	f.Add(packed(f, []byte(headerLine+goodAnswer+trailerLine)), true)
	for _, b := range brokenAnswers() {
		f.Add([]byte(headerLine+strings.Replace(goodAnswer, b.from, b.to, 1)+trailerLine), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, asIs bool) {
		if !asIs {
			b = packed(t, b)
		}
		r, err := Read(bytes.NewReader(b), "x")
		if err != nil {
			return
		}
		r.MaxTokens = min(r.MaxTokens, 20)
		p, err := NewPlayer(r)
		if err != nil {
			return
		}
		for _, a := range r.Answers[:min(3, len(r.Answers))] {
			for _, set := range ways() {
				plays2(t, p, a, set)
			}
		}
	})
}

// plays2 replays an answer of a hostile recording, with and without another link.
func plays2(t *testing.T, p *Player, a *Answer, set func(*draft.Options)) {
	for _, terms := range []Terms{{}, {Link: linkOf(50*ms, 0.1, 1), EdgeTPS: 60}} {
		clock := simclock.New(time.Unix(0, 0))
		clock.Run(func() {
			text := p.Text(Of{Mode: a.Mode, Question: a.Question}, terms, clock)
			o := options(clock)
			set(&o)
			o.MaxTokens, o.Vocab, o.Room = p.MaxTokens, p.Vocab, max(1, p.Context-len(a.Prompt))
			d, err := draft.New(text.Model(), policy(t, 0.5), text.Cloud(), o)
			require.NoError(t, err)
			_, err = d.Decode(t.Context(), a.Prompt, func(draft.Event) bool { return true })
			require.NoError(t, err)
		})
	}
}
