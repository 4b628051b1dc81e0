package netproto

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// The files of testdata contain messages in hexadecimal, each line after the name of its value. A change of the format
// of a message, a limit of a coding, a parameter of the compressor or the hash fails here, since it needs another
// [Version].
//
//	messages.txt    name, frame: the exact bytes of each message
//	deltas.txt      name, coding, bytes: all encodings of ids so far. All lines of a name are decoded; the last is the
//	                current encoding, on every system, by the version of the compressor in go.mod
//	dictionary.txt  a trained dictionary, to which lines of deltas.txt refer
//
// With -update, messages.txt is written again, and deltas.txt gets another line for each name with a new encoding.
// Lines of deltas.txt are never removed: a version of the protocol always decodes all of its encodings.
var update = flag.Bool("update", false, "write the golden files again")

const (
	goldenMessages   = "testdata/messages.txt"
	goldenDeltas     = "testdata/deltas.txt"
	goldenDictionary = "testdata/dictionary.txt"
)

// named is a value of the golden files.
type named struct {
	name  string
	value appender
}

// counted returns an array with n, n+1, n+2, …
func counted[T ~[16]byte | ~[32]byte](n byte) (a T) {
	for i := range len(a) {
		a[i] = n + byte(i)
	}
	return a
}

// goldenValues returns each message with all fields set, and with none.
func goldenValues() []named {
	who := Identity{Tokenizer: counted[Digest](1), Vocab: 151936, Template: counted[Digest](0x81)}
	path := Path{Base: 300, Hash: RootHash.Over([]int32{1, 2, 3}),
		Delta: Delta{Count: 3, Coding: Packed, Bytes: []byte{0xaa, 0xbb, 0xcc, 0xdd}}}
	never := float32(math.Inf(-1))
	least := float32(-maxLogProb) / logProbUnit
	values := []named{
		{"Hello/all", Hello{Version, who, counted[Device](0x41), 0xfeedbeef, "open sesame"}},
		{"Hello/least", Hello{Version: Version}},
		{"Welcome/all", Welcome{"Qwen2.5-72B", 32768, 0xfeedbeef, ExactAudit, 20, MaxAhead, "judge", true}},
		{"Welcome/ahead-alone", Welcome{"Qwen2.5-72B", 32768, 0xfeedbeef, ExactAudit, 20, MaxAhead, "", false}},
		{"Welcome/least", Welcome{}},
		{"Refusal/all", Refusal{TooFast, 1500 * time.Millisecond, "slowly, please"}},
		{"Refusal/least", Refusal{}},
	}
	values = append(values, goldenAsks(path)...)
	return append(values, []named{
		{"Answer/all", Answer{Reply: terms.Reply{Token: 151643,
			Top: []terms.Candidate{{ID: 151643, LogProb: -0.5}, {ID: 9, LogProb: -2.25}, {LogProb: least}}, Audited: 12,
			Audit: []terms.Finding{{Pos: 3, Token: 5, LogProb: -1}, {Pos: 7, Token: 151643},
				{Pos: 300, Token: 1, LogProb: -0.0009765625}},
			Queue: 250 * time.Microsecond, Compute: 38 * time.Millisecond}}},
		{"Answer/scores", Answer{Reply: terms.Reply{Token: 9, Audited: 12,
			Audit: []terms.Finding{{Pos: 300, Token: 1, LogProb: -1, Score: -1, Stands: -2.5},
				{Pos: 302, Token: 4, LogProb: -2}, {Pos: 303, Token: 8, LogProb: -3, Score: 0.75, Stands: never}}}}},
		{"Answer/least", Answer{}},
		{"Need/all", Need{4711, 0x0123456789abcdef}},
		{"Need/least", Need{}},
		{"Sync/all", Sync{0x01020304, path}},
		{"Sync/least", Sync{Path: Path{Hash: RootHash, Delta: Delta{Bytes: []byte{}}}}},
		{"Ack/all", Ack{MaxPosition}},
		{"Ack/least", Ack{}},
		{"Bye/all", Bye{0xcafe0001}},
		{"Bye/least", Bye{}},
		{"Ahead/all", Ahead{math.MaxInt32}},
		{"Ahead/least", Ahead{}},
		{"Clock/all", Clock{90 * time.Second, 90*time.Second + 1500*time.Microsecond}},
		{"Clock/least", Clock{}},
	}...)
}

// goldenAsks returns asks with each setting.
func goldenAsks(path Path) []named {
	sampled := terms.Sampling{Temperature: 0.7, TopK: 40, TopP: 0.9, Seed: 0x0123456789abcdef}
	squeezed := Path{Base: 0, Hash: RootHash,
		Delta: Delta{Count: 70000, Coding: Zstd, Bytes: bytes.Repeat([]byte{0x5a}, 130)}}
	trained := Path{Base: 1, Hash: RootHash.Next(7), Delta: Delta{Count: 20, Coding: Trained, Bytes: []byte{1}}}
	return []named{
		{"Ask/all", Ask{Session: 0xdeadbeef, Path: path,
			Question: terms.Question{K: 4, AuditFrom: 120, Sampling: sampled, Within: 800 * time.Millisecond}}},
		{"Ask/least", Ask{Path: Path{Hash: RootHash, Delta: Delta{Bytes: []byte{}}}}},
		{"Ask/temperature", Ask{Session: 1, Path: squeezed,
			Question: terms.Question{K: 1, Sampling: terms.Sampling{Temperature: 1.5}}}},
		{"Ask/top-k", Ask{Session: 2, Path: trained, Question: terms.Question{K: MaxK, AuditFrom: 1,
			Sampling: terms.Sampling{TopK: 300}, Within: time.Millisecond}}},
		{"Ask/top-p", Ask{Session: 3, Path: path,
			Question: terms.Question{Sampling: terms.Sampling{TopP: 1}, Within: time.Hour}}},
		{"Ask/seed", Ask{Session: 4, Path: path, Question: terms.Question{Sampling: terms.Sampling{Seed: 1}}}},
		{"Ask/verify", Ask{Session: 4, Path: path,
			Question: terms.Question{AuditFrom: 120, Sampling: terms.Sampling{Seed: 1}, Verify: terms.EachChoice}}},
		{"Ask/scores-ahead", Ask{Session: 4, Path: path, Question: terms.Question{AuditFrom: 120,
			Sampling: terms.Sampling{Seed: 1}, Verify: terms.EachScore, Ahead: 7}}},
		{"Ask/ahead", Ask{Session: 4, Path: path,
			Question: terms.Question{Sampling: terms.Sampling{Seed: 1}, Ahead: MaxAhead}}},
		{"Ask/clock", Ask{Session: 4, Path: path,
			Question: terms.Question{Sampling: terms.Sampling{Seed: 1}, Times: true}}},
		{"Ask/scores-clock", Ask{Session: 4, Path: path, Question: terms.Question{AuditFrom: 120,
			Sampling: terms.Sampling{Seed: 1}, Verify: terms.EachScore, Ahead: 7, Times: true}}},
	}
}

// readGolden returns the lines of a file as fields; lines that begin with # are comments.
func readGolden(t *testing.T, file string) (lines [][]string) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := s.Text(); line != "" && line[0] != '#' {
			lines = append(lines, strings.Fields(line))
		}
	}
	return lines
}

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// TestGoldenMessages: each message is encoded as the same bytes as ever, and these decode to the same value.
func TestGoldenMessages(t *testing.T) {
	values := goldenValues()
	if *update {
		out := "# " + goldenMessages + ": what each message is written as; see golden_test.go\n"
		for _, v := range values {
			out += fmt.Sprintf("%s %x\n", v.name, v.value.Append(nil))
		}
		require.NoError(t, os.WriteFile(goldenMessages, []byte(out), 0o644))
	}
	lines := readGolden(t, goldenMessages)
	require.Len(t, lines, len(values))
	kinds := map[Kind]int{}
	for i, v := range values {
		require.Equal(t, v.name, lines[i][0])
		b := fromHex(t, lines[i][1])
		kinds[Kind(b[0])]++
		assert.Equal(t, lines[i][1], hex.EncodeToString(v.value.Append(nil)), "the encoding of %s has changed", v.name)
		have, n, err := messages()[b[0]-1].parse(b)
		require.NoError(t, err, v.name)
		assert.Equal(t, len(b), n, v.name)
		assert.Equal(t, v.value, have, "the decoding of %s has changed", v.name)
	}
	for k := KindHello; k <= KindClock; k++ {
		assert.GreaterOrEqual(t, kinds[k], 2, "%s, with all fields and with none", k)
	}
}

// words returns n ids of a vocabulary in a fixed random order.
func words(n, vocab, salt int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		x := uint64(i+1+salt*1_000_003) * 0x9e3779b97f4a7c15
		x ^= x >> 29
		x *= 0xbf58476d1ce4e5b9
		ids[i] = int32((x >> 33) % uint64(vocab))
	}
	return ids
}

// same returns an id n times.
func same(n int, id int32) []int32 { return slices.Repeat([]int32{id}, n) }

// goldenDelta is ids after a base.
type goldenDelta struct {
	name    string
	vocab   int
	trained bool // with the dictionary of the golden file
	base    []int32
	ids     []int32
	coding  Coding // the shortest coding
}

func goldenDeltaValues() []goldenDelta {
	phrase, far := words(60, 768, 5), words(64, 768, 6)
	apart := func(n int) []int32 { return slices.Concat(far, same(n, 0), far) }
	sentence := slices.Concat(goldenPaths()[9][:20], words(5, 768, 9))
	return []goldenDelta{
		{"nothing", 768, false, nil, nil, Packed},
		{"one-token", 151936, false, nil, []int32{151643}, Packed},
		{"packed-1-bit", 1, false, nil, same(9, 0), Packed},
		{"packed-8-bits", 256, false, nil, words(5, 256, 1), Packed},
		{"packed-10-bits", 768, false, nil, words(7, 768, 2), Packed},
		{"packed-18-bits", 151936, false, nil, words(14, 151936, 3), Packed},
		{"packed-24-bits", MaxVocab, false, nil, append(words(3, MaxVocab, 4), MaxVocab-1), Packed},
		{"run-1-byte", 256, false, nil, same(100, 7), Zstd},
		{"repeats-2-bytes", 768, false, nil, slices.Repeat(phrase[:20], 8), Zstd},
		{"repeats-3-bytes", 151936, false, nil, slices.Repeat(words(20, 151936, 7), 8), Zstd},
		{"skewed", 256, false, nil, skewed(600), Packed},
		{"base-2-bytes", 768, false, slices.Concat(words(200, 768, 8), phrase, words(40, 768, 10)),
			slices.Concat(phrase, []int32{1, 2, 3}), Zstd},
		{"base-3-bytes", 151936, false, words(500, 151936, 11),
			slices.Concat(words(500, 151936, 11)[100:160], []int32{151935}), Zstd},
		{"base-first-of-history", 768, false, slices.Concat(phrase, words(window-60, 768, 12)), phrase, Zstd},
		{"base-before-history", 768, false, slices.Concat(phrase, words(window, 768, 12)), phrase, Packed},
		{"distance-inside", 768, false, nil, apart(1<<14 - 200), Zstd},
		{"distance-outside", 768, false, nil, apart(1<<14 + 200), Zstd},
		{"trained", 768, true, nil, sentence, Trained},
		{"trained-base", 768, true, words(30, 768, 13), slices.Concat(goldenPaths()[8], goldenPaths()[9]), Trained},
		{"trained-beaten-by-base", 768, true, words(90, 768, 14), words(90, 768, 14), Zstd},
		{"trained-beaten-by-packing", 768, true, nil, words(40, 768, 15), Packed},
	}
}

// skewed returns n ids without repetitions that entropy coding can compress, but that the fastest level skips.
func skewed(n int) []int32 {
	ids := words(n, 16, 16)
	for i := range ids {
		ids[i] = ids[i] * ids[i] / 16 * 3
	}
	return ids
}

// goldenPaths returns the training texts of the golden dictionary.
func goldenPaths() (paths [][]int32) {
	for i := range 10 {
		paths = append(paths, slices.Concat(words(6, 768, 20), words(4, 768, 30+i), words(8, 768, 21),
			words(3+i%3, 90, 40+i), words(5, 768, 22)))
	}
	return paths
}

// goldenDict returns the dictionary of the file. It was trained once: a later version of the compressor would make
// another id from the same paths.
func goldenDict(t *testing.T) Dictionary {
	t.Helper()
	if _, err := os.Stat(goldenDictionary); *update && os.IsNotExist(err) {
		d, err := TrainDictionary(0x70696c6f, 768, goldenPaths())
		require.NoError(t, err)
		out := fmt.Sprintf("# %s: see golden_test.go\n%d %x\n", goldenDictionary, d.ID, d.Bytes)
		require.NoError(t, os.WriteFile(goldenDictionary, []byte(out), 0o644))
	}
	line := readGolden(t, goldenDictionary)[0]
	require.Equal(t, fmt.Sprint(0x70696c6f), line[0])
	return Dictionary{ID: 0x70696c6f, Bytes: fromHex(t, line[1])}
}

// TestGoldenDeltas: all earlier encodings decode to the same ids, and the current encoding is the last one in the file.
func TestGoldenDeltas(t *testing.T) {
	dict := goldenDict(t)
	for _, v := range goldenDeltaValues() {
		t.Run(v.name, func(t *testing.T) {
			d := Dictionary{}
			if v.trained {
				d = dict
			}
			codec := newCodec(t, v.vocab, d)
			now := encode(t, codec, v.base, v.ids)
			assert.Equal(t, v.coding, now.Coding)
			line := fmt.Sprintf("%s %s %x", v.name, now.Coding, now.Bytes)
			if *update {
				addGolden(t, v.name, line)
			}
			last := ""
			for _, fields := range readGolden(t, goldenDeltas) {
				if fields[0] != v.name {
					continue
				}
				last = strings.Join(fields, " ")
				fields = append(fields, "") // no bytes for no ids
				old := Delta{Count: len(v.ids), Coding: codingOf(t, fields[1]), Bytes: fromHex(t, fields[2])}
				ids, err := codec.Decode(v.base, old)
				require.NoError(t, err, "these bytes were valid before")
				assert.True(t, slices.Equal(v.ids, ids), "the decoding of these bytes has changed")
			}
			assert.Equal(t, strings.TrimSpace(line), last, "the encoding of these ids has changed")
		})
	}
}

// addGolden adds a line, unless it is the last one of its name.
func addGolden(t *testing.T, name, line string) {
	t.Helper()
	b, err := os.ReadFile(goldenDeltas)
	if os.IsNotExist(err) {
		b = []byte("# " + goldenDeltas + ": what ids were ever written as; see golden_test.go\n")
	} else {
		require.NoError(t, err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	at := len(lines)
	for i, l := range lines {
		if strings.HasPrefix(l, name+" ") {
			at = i + 1
		}
	}
	if line = strings.TrimSpace(line); lines[at-1] != line {
		lines = slices.Insert(lines, at, line)
	}
	require.NoError(t, os.WriteFile(goldenDeltas, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

func codingOf(t *testing.T, name string) Coding {
	t.Helper()
	for c := range codings {
		if c.String() == name {
			return c
		}
	}
	t.Fatalf("no coding is called %s", name)
	return 0
}

// TestGoldenFrameHeaders: frames of the compressor contain the size of the content, no checksum and no window, and the
// dictionary only if it is the trained one.
func TestGoldenFrameHeaders(t *testing.T) {
	dict := goldenDict(t)
	checked := 0
	for _, v := range goldenDeltaValues() {
		for _, fields := range readGolden(t, goldenDeltas) {
			if fields[0] != v.name || v.coding == Packed {
				continue
			}
			var h zstd.Header
			require.NoError(t, h.Decode(append([]byte(magic), fromHex(t, fields[2])...)), v.name)
			size := uint64(len(v.ids) * idBytes(v.vocab))
			assert.True(t, h.SingleSegment && h.HasFCS && h.FrameContentSize == size, "%s: %+v", v.name, h)
			assert.False(t, h.HasCheckSum || h.Skippable, v.name)
			want := uint32(0)
			if v.coding == Trained {
				want = dict.ID
			}
			assert.Equal(t, want, h.DictionaryID, v.name)
			checked++
		}
	}
	assert.GreaterOrEqual(t, checked, 10)
}

// TestGoldenHash: the hash is part of the protocol: two versions that compute it differently never agree on a base.
func TestGoldenHash(t *testing.T) {
	for want, path := range map[Hash][]int32{
		0x70696c6f74667368: nil,
		0xa62c4619682fb123: {1, 2, 3},
		0xadeb972eb1187474: {0},
		0xebf9efe9362f99fd: {151643, 0, MaxVocab - 1},
		0xaf7713a3399c8f38: {-1},
		0x451893b2aad58be9: words(5000, 151936, 1),
	} {
		assert.Equal(t, want, RootHash.Over(path), "%#x: path of %d tokens", uint64(RootHash.Over(path)), len(path))
	}
}
