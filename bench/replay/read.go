package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// ErrFormat is the cause of every error about a file that is not a recording or is incomplete.
var ErrFormat = errors.New("not a recording that this program can read")

// Recording is a recording that was read.
type Recording struct {
	Header
	Answers []*Answer // at least one
}

const (
	maxLine   = 64 << 20       // bytes of a line
	maxBytes  = 4 << 30        // of all lines
	maxWindow = 64 << 20       // memory of the decompressor
	maxTime   = 24 * time.Hour // of any time
	maxVocab  = 1 << 24
	maxTokens = 1 << 22 // of a text
	maxAbsent = 1000    // questions that a stopped run may have left out
)

// ReadFile is [Read] of a file.
func ReadFile(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, path)
}

// Read reads a recording. name is used in errors, which give the line and the field, and wrap [ErrFormat] if the file
// is invalid.
func Read(r io.Reader, name string) (*Recording, error) {
	zip, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer zip.Close()
	lines := bufio.NewScanner(io.LimitReader(zip, maxBytes))
	lines.Buffer(nil, maxLine)
	p := parser{rec: new(Recording)}
	n := 0
	for lines.Scan() {
		n++
		if err := p.parseLine(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w: %w", name, n, ErrFormat, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: after line %d: %w: %w", name, n, ErrFormat, err)
	}
	if !p.ended {
		return nil, fmt.Errorf("%s: after line %d: %w: its end is missing: repeat the recording", name, n, ErrFormat)
	}
	return p.rec, nil
}

type parser struct {
	rec   *Recording
	begun bool
	ended bool
}

func (p *parser) parseLine(b []byte) error {
	switch {
	case p.ended:
		return errors.New("unexpected data after its end")
	case !p.begun:
		return p.parseHeader(b)
	case bytes.HasPrefix(b, []byte(`{"end":`)):
		return p.parseTrailer(b)
	}
	a := new(Answer)
	if err := json.Unmarshal(b, a); err != nil {
		return err
	}
	if err := a.checkAnswer(&p.rec.Header); err != nil {
		return err
	}
	a.hashNodes()
	p.rec.Answers = append(p.rec.Answers, a)
	return nil
}

func (p *parser) parseHeader(b []byte) error {
	h := &p.rec.Header
	if err := json.Unmarshal(b, h); err != nil {
		return err
	}
	p.begun = true
	switch {
	case h.Version == 0:
		return errors.New(`its first line has no field "recording"`)
	case h.Version != version:
		return fmt.Errorf("its format is version %d, and this program reads version %d: repeat the recording",
			h.Version, version)
	case h.Vocab < 1 || h.Vocab > maxVocab:
		return fmt.Errorf("vocab: %d is not possible", h.Vocab)
	case h.Context < 2 || h.Context > maxTokens || h.MaxTokens < 1 || h.MaxTokens > maxTokens:
		return fmt.Errorf("context, max_tokens: %d and %d are not possible", h.Context, h.MaxTokens)
	case !(h.EdgeTPS >= 0) || math.IsInf(h.EdgeTPS, 1):
		return fmt.Errorf("edge_tps: %v is not possible", h.EdgeTPS)
	}
	return errors.Join(checkTokenIDs("ends", h.Vocab, h.Ends...), checkTimes("header", h.RTT, h.CloudPace))
}

func (p *parser) parseTrailer(b []byte) error {
	var t trailer
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	if n := len(p.rec.Answers); t.End == nil || t.End.Answers != n || n == 0 {
		return fmt.Errorf("its number of answers is wrong: there are %d", n)
	}
	for _, a := range p.rec.Answers {
		if a.Question >= len(p.rec.Answers)+maxAbsent {
			return fmt.Errorf("question: there is a number %d, but only %d answers", a.Question, len(p.rec.Answers))
		}
	}
	p.ended = true
	return nil
}

func (a *Answer) checkAnswer(h *Header) error {
	switch {
	case a.Mode == "" || len(a.Mode) > 100:
		return errors.New("mode: the name is empty or too long")
	case a.Question < 0 || a.Device < 0:
		return errors.New("question, device: a number is negative")
	case len(a.Prompt) == 0 || len(a.Prompt) >= h.Context:
		return fmt.Errorf("prompt: %d tokens do not fit into a context of %d", len(a.Prompt), h.Context)
	case len(a.Parents) != len(a.Tokens):
		return fmt.Errorf("parents: %d for %d tokens", len(a.Parents), len(a.Tokens))
	}
	for i, n := range a.Parents {
		if n < 0 || int(n) > i {
			return fmt.Errorf("parents: node %d cannot follow node %d", i+1, n)
		}
	}
	ids, spans := slices.Concat(a.Prompt, a.Tokens, a.IDs), []time.Duration{a.Prefill, a.Took}
	for _, c := range a.Heads {
		if len(c.IDs) == 0 || len(c.IDs) != len(c.Logits) || c.Node < 0 || int(c.Node) > len(a.Tokens) {
			return fmt.Errorf("heads: %d tokens and %d logits of node %d", len(c.IDs), len(c.Logits), c.Node)
		}
		if sure := c.Confidence; sure != nil && !(*sure >= 0 && *sure <= 1) {
			return fmt.Errorf("heads: a confidence of %v", *sure)
		}
		ids = append(ids, c.IDs...)
	}
	for _, c := range a.Calls {
		if c.Rows < 1 || c.Rows > maxTokens {
			return fmt.Errorf("calls: %d rows", c.Rows)
		}
		spans = append(spans, c.Took)
	}
	pos := a.nodePositions()
	for i := range a.Asks {
		if err := a.Asks[i].checkAsk(pos); err != nil {
			return fmt.Errorf("asks: %w", err)
		}
		more, times := a.Asks[i].tokensAndTimes()
		ids, spans = append(ids, more...), append(spans, times...)
	}
	return errors.Join(checkTokenIDs("answer", h.Vocab, ids...), checkTimes("answer", spans...))
}

// checkAsk refuses an inconsistent ask; pos are the positions of the nodes.
func (q *Ask) checkAsk(pos []int) error {
	if q.Node < 0 || int(q.Node) >= len(pos) {
		return fmt.Errorf("there is no node %d", q.Node)
	}
	if most := int(terms.EachJudged); q.Verify < 0 || q.Verify > most {
		return fmt.Errorf("verify: %d is not 0 to %d", q.Verify, most)
	}
	for _, n := range []int{q.Audited, q.BytesUp, q.BytesDown} {
		if n < 0 || n > math.MaxInt32 {
			return fmt.Errorf("audited, bytes: %d is not possible", n)
		}
	}
	for _, f := range q.Audit {
		if f.Pos < 0 || f.Pos > pos[q.Node] {
			return fmt.Errorf("audit: %d is not a position of a context of %d", f.Pos, pos[q.Node]+1)
		}
		if !(f.Gap >= 0) {
			return fmt.Errorf("audit: a gap of %v", f.Gap)
		}
	}
	return nil
}

func (q *Ask) tokensAndTimes() (ids []int32, spans []time.Duration) {
	ids, spans = append(ids, q.Token), append(spans, q.Took, q.Queue, q.Cloud)
	for _, f := range q.Audit {
		ids = append(ids, f.Token)
	}
	for _, l := range q.Ahead {
		ids, spans = append(ids, l.Token), append(spans, l.At)
	}
	return ids, spans
}

func checkTokenIDs(field string, vocab int, ids ...int32) error {
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("%s: %d is not a token of a vocabulary of %d", field, id, vocab)
		}
	}
	return nil
}

func checkTimes(field string, all ...time.Duration) error {
	for _, t := range all {
		if t < 0 || t > maxTime {
			return fmt.Errorf("%s: a time of %d ns is not possible", field, int64(t))
		}
	}
	return nil
}
