package routing

import (
	"context"
	"encoding/binary"
	"flag"
	"math/bits"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

var wireQuestions = flag.Int("wire-questions", 8, "held-out questions of the demo for measuring bytes on the wire")

// delta is a message with tokens: ids after a base that the gateway has.
type delta struct{ base, ids []int32 }

// overheard forwards questions and records their contexts.
type overheard struct {
	draft.Cloud
	mu    sync.Mutex
	paths [][]int32
}

// Ask implements [draft.Cloud].
func (o *overheard) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	o.mu.Lock()
	o.paths = append(o.paths, slices.Clone(q.Context))
	o.mu.Unlock()
	return o.Cloud.Ask(ctx, q)
}

// escalations returns the deltas that are sent while the demo's pair answers its held-out questions, one after the
// other over one session: that of the very first ask, those of the first ask of each other question, and those of all
// later asks.
func escalations(t *testing.T, edge, large *engine.Engine, branches int) (opening, first, later []delta) {
	t.Helper()
	service, err := large.Serve(engine.ServeOptions{})
	require.NoError(t, err)
	defer service.Close()
	s, err := edge.NewSession()
	require.NoError(t, err)
	known := netproto.NewKnown(1 << 20)
	for _, q := range demo.Questions(demo.HeldOut)[:*wireQuestions] {
		prompt, err := edge.Chat(tokenizer.Message{Role: "user", Content: q.Text})
		require.NoError(t, err)
		policy, err := router.New(router.Options{Policy: router.Margin})
		require.NoError(t, err)
		far := &overheard{Cloud: service.Local(1)}
		r := engine.Route{Settings: terms.Settings{MaxTokens: 128}, Cloud: far, Router: policy,
			Draft: engine.DraftOptions{Branches: branches, Deadline: -1}}
		if branches == 0 {
			r.Draft.Mode = engine.Serial
		}
		for _, err := range s.Routed(t.Context(), prompt, r) {
			require.NoError(t, err)
		}
		for i, path := range far.paths {
			n, _ := known.Longest(path)
			d := delta{path[:n], path[n:]}
			known.Add(path)
			switch {
			case i > 0:
				later = append(later, d)
			case n == 0:
				opening = append(opening, d)
			default:
				first = append(first, d)
			}
		}
	}
	return opening, first, later
}

// squeezed returns the size of ids as netproto writes them for zstd, without the frame's magic number.
func squeezed(t *testing.T, vocab int, ids []int32, level zstd.EncoderLevel, dictionary ...zstd.EOption) int {
	t.Helper()
	enc, err := zstd.NewWriter(nil, append(dictionary, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<15),
		zstd.WithEncoderLevel(level))...)
	require.NoError(t, err)
	defer func() { require.NoError(t, enc.Close()) }()
	return len(enc.EncodeAll(spread(vocab, ids), nil)) - 4
}

// spread writes each id in whole bytes, as many as the vocabulary needs.
func spread(vocab int, ids []int32) (b []byte) {
	for _, id := range ids {
		for s := 0; s < bits.Len(uint(vocab-1)); s += 8 {
			b = append(b, byte(id>>s))
		}
	}
	return b
}

// chatsOf returns questions with their answers as chats.
func chatsOf(t *testing.T, tok *tokenizer.Tokenizer, questions []demo.Question) (all [][]int32) {
	t.Helper()
	for _, q := range questions {
		prompt, err := tok.Chat([]tokenizer.Message{{Role: "user", Content: q.Text}}, nil)
		require.NoError(t, err)
		all = append(all, append(prompt, tok.Encode(q.Answer, false)...))
	}
	return all
}

// wireCodecs measures messages with and without a trained dictionary.
type wireCodecs struct {
	vocab         int
	dictionary    []byte
	with, without *netproto.Codec
}

// newWireCodecs trains a dictionary with the training texts of `pilotfish demo`.
func newWireCodecs(t *testing.T, vocab int, tok *tokenizer.Tokenizer) *wireCodecs {
	t.Helper()
	dict, err := netproto.TrainDictionary(1, vocab, chatsOf(t, tok, demo.Questions(demo.Train)))
	require.NoError(t, err)
	with, err := netproto.NewCodec(vocab, dict)
	require.NoError(t, err)
	t.Cleanup(with.Close)
	without, err := netproto.NewCodec(vocab, netproto.Dictionary{})
	require.NoError(t, err)
	t.Logf("vocabulary of %d, dictionary of %d bytes", vocab, len(dict.Bytes))
	t.Logf("%-42s %5s %7s %7s %7s %7s %7s %7s %9s %8s", "mean bytes of", "n", "tokens", "varint", "packed", "zstd",
		"base", "trained", "sent with", "without")
	return &wireCodecs{vocab, dict.Bytes, with, without}
}

// meanBytes are means per message, in bytes but for the tokens.
type meanBytes struct{ tokens, varint, packed, plain, base, trained, chosen, bare float64 }

// measure logs a line of the table.
func (w *wireCodecs) measure(t *testing.T, name string, all []delta) (m meanBytes) {
	t.Helper()
	require.NotEmpty(t, all, name)
	n := float64(len(all))
	for _, d := range all {
		varint := 0
		for _, id := range d.ids {
			varint += len(binary.AppendUvarint(nil, uint64(id)))
		}
		history := spread(w.vocab, d.base[max(0, len(d.base)-4096):])
		packed := (len(d.ids)*bits.Len(uint(w.vocab-1)) + 7) / 8
		base := squeezed(t, w.vocab, d.ids, zstd.SpeedFastest, zstd.WithEncoderDictRaw(0, history))
		trained := squeezed(t, w.vocab, d.ids, zstd.SpeedBetterCompression, zstd.WithEncoderDict(w.dictionary))
		sent, err := w.with.Encode(d.base, d.ids)
		require.NoError(t, err)
		bare, err := w.without.Encode(d.base, d.ids)
		require.NoError(t, err)
		require.Equal(t, map[netproto.Coding]int{netproto.Packed: packed, netproto.Zstd: base,
			netproto.Trained: trained}[sent.Coding], len(sent.Bytes))
		m.tokens += float64(len(d.ids)) / n
		m.varint += float64(varint) / n
		m.packed += float64(packed) / n
		m.plain += float64(squeezed(t, w.vocab, d.ids, zstd.SpeedBetterCompression)) / n
		m.base += float64(base) / n
		m.trained += float64(trained) / n
		m.chosen += float64(len(sent.Bytes)) / n
		m.bare += float64(len(bare.Bytes)) / n
	}
	t.Logf("%-42s %5.0f %7.1f %7.1f %7.1f %7.1f %7.1f %7.1f %9.1f %8.1f", name, n, m.tokens, m.varint, m.packed,
		m.plain, m.base, m.trained, m.chosen, m.bare)
	assert.LessOrEqual(t, m.chosen, m.bare, name)
	assert.LessOrEqual(t, m.bare, m.packed, name)
	return m
}

// TestWireSizes measures whether zstd helps on the demo's own texts. -v prints the table of RESULTS.md for
// -wire-questions 100.
func TestWireSizes(t *testing.T) {
	racing.Spare(t)
	edge, large := openModel(t, demo.Small()), openModel(t, demo.Large())
	tok, err := edge.Tokenizer()
	require.NoError(t, err)
	id, err := edge.Identity()
	require.NoError(t, err)
	w := newWireCodecs(t, id.Vocab, tok)
	opening, first, later := escalations(t, edge, large, 0)
	m := w.measure(t, "first ask of a connection", opening)
	assert.Less(t, m.chosen, 0.8*m.packed, "the trained dictionary saves a fifth")
	w.measure(t, "first ask of a later question, serial", first)
	m = w.measure(t, "later asks, serial", later)
	assert.Less(t, m.packed, min(m.varint, m.plain, m.base),
		"only the trained dictionary beats packed ids here")
	_, first, later = escalations(t, edge, large, 4)
	w.measure(t, "first ask of a later question, 4 branches", first)
	w.measure(t, "later asks, pipelined, 4 branches", later)
	var whole, added []delta
	held := chatsOf(t, tok, demo.Questions(demo.HeldOut)[:100])
	for i := 0; i+20 <= len(held); i += 20 {
		ten, next := slices.Concat(held[i:i+10]...), slices.Concat(held[i+10:i+20]...)
		whole, added = append(whole, delta{nil, ten}), append(added, delta{ten, next})
	}
	m = w.measure(t, "ten chats, to a new gateway", whole)
	assert.Less(t, m.bare, m.packed, "zstd without a dictionary is smaller")
	m = w.measure(t, "ten chats, after ten others", added)
	assert.Less(t, m.base, min(m.packed, m.plain), "the base as dictionary is smaller")
}
