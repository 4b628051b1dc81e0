package netproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// uv returns a number as encoded on the wire.
func uv(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// zeros returns n zero bytes.
func zeros(n int) []byte { return make([]byte, n) }

// text returns a string of n bytes as encoded on the wire.
func text(n int) []byte { return append(uv(uint64(n)), bytes.Repeat([]byte("x"), n)...) }

// number is a field of a message with a max value, and the bytes before and after it.
type number struct {
	kind    Kind
	field   string
	largest uint64
	before  []byte
	after   []byte
}

var (
	helloHead = append(uv(Version), zeros(32)...)
	askHead   = zeros(4)
	deltaOf0  = []byte{0, 0, 0} // tokens, coding, length
	askTail   = zeros(6)
)

// numbers returns every number of every message.
func numbers() []number {
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	path := join([]byte{0}, deltaOf0)
	return []number{
		{KindHello, "vocab", MaxVocab, helloHead, join(zeros(32+16), zeros(4+1))},
		{KindWelcome, "context", math.MaxInt32, []byte{Version, 0}, zeros(9)},
		{KindWelcome, "choices", MaxVocab, join(uv(Version), zeros(2+5)), zeros(3)},
		{KindRefusal, "retry after", maxMillis, []byte{1}, []byte{0}},
		{KindAsk, "base", MaxPosition, askHead, join(zeros(8), deltaOf0, askTail)},
		{KindAsk, "tokens", MaxPosition, join(askHead, []byte{0}), join([]byte{0, 0}, askTail)},
		{KindAsk, "tokens", MaxPosition - 5, join(askHead, []byte{5}, zeros(8)), join([]byte{0, 0}, askTail)},
		{KindAsk, "tokens", 0, join(askHead, uv(MaxPosition), zeros(8)), join([]byte{0, 0}, askTail)},
		{KindAsk, "k", MaxK, join(askHead, path), zeros(5)},
		{KindAsk, "audit from", MaxPosition, join(askHead, path, []byte{0}), zeros(4)},
		{KindAsk, "top-k", MaxVocab, join(askHead, path, []byte{0, 0, hasTopK}), zeros(3)},
		{KindAsk, "deadline", maxMillis, join(askHead, path, []byte{0, 0, 0}), zeros(2)},
		{KindAnswer, "token", math.MaxInt32, nil, zeros(5)},
		{KindAnswer, "top id", math.MaxInt32, []byte{0, 1}, zeros(5)},
		{KindAnswer, "top log-prob", maxLogProb, []byte{0, 1, 0}, zeros(4)},
		{KindAnswer, "audited", MaxPosition, []byte{0, 0}, zeros(3)},
		{KindAnswer, "audit position", MaxPosition, []byte{0, 0, 1, 1}, zeros(4)},
		{KindAnswer, "audit position", MaxPosition - 7, []byte{0, 0, 2, 2, 7, 0, 0}, zeros(4)},
		{KindAnswer, "audit position", MaxPosition - 9, []byte{0, 0, 3, 3, 7, 0, 0, 2, 0, 0}, zeros(4)},
		{KindAnswer, "audit token", math.MaxInt32, []byte{0, 0, 1, 1, 0}, zeros(3)},
		{KindAnswer, "audit log-prob", maxLogProb, []byte{0, 0, 1, 1, 0, 0}, zeros(2)},
		{KindAnswer, "queue", maxMillis * 1000, []byte{0, 0, 0, 0}, zeros(1)},
		{KindAnswer, "compute", maxMillis * 1000, []byte{0, 0, 0, 0, 0}, nil},
		{KindNeed, "position", MaxPosition, nil, zeros(8)},
		{KindSync, "base", MaxPosition, zeros(4), join(zeros(8), deltaOf0)},
		{KindSync, "tokens", MaxPosition, zeros(5), []byte{0, 0}},
		{KindAck, "position", MaxPosition, nil, nil},
		{KindWelcome, "ahead", MaxAhead, join(uv(Version), zeros(2), zeros(6)), zeros(2)},
		{KindAsk, "ahead", MaxAhead, join(askHead, path, zeros(5)), nil},
		{KindAhead, "token", math.MaxInt32, nil, nil},
		{KindClock, "received", maxMillis * 1000, nil, zeros(1)},
		{KindClock, "sent", maxMillis * 1000, []byte{0}, nil},
	}
}

// faultIn checks that a message is refused because of one field, which the error names.
func faultIn(t *testing.T, kind Kind, body []byte, field string, want error) {
	t.Helper()
	v, n, err := messages()[kind-1].parse(frame(kind, body))
	fault, ok := errors.AsType[*ParseError](err)
	require.True(t, ok, "%s: %s: %v", kind, field, err)
	assert.Equal(t, kind.String(), fault.Message)
	assert.Equal(t, field, fault.Field, "%s: %v", kind, err)
	assert.ErrorIs(t, err, want, "%s: %s", kind, field)
	assert.Zero(t, n)
	assert.Zero(t, v, "an error with a value")
}

// TestLargestNumbers: the max value of each number is accepted, and the next one refused.
func TestLargestNumbers(t *testing.T) {
	for _, f := range numbers() {
		b := frame(f.kind, slices.Concat(f.before, uv(f.largest), f.after))
		v, n, err := messages()[f.kind-1].parse(b)
		require.NoError(t, err, "%s: %s", f.kind, f.field)
		assert.Equal(t, len(b), n)
		if f.largest > 0 { // otherwise a hash of the base follows
			assert.Equal(t, b, v.Append(nil), "%s: %s", f.kind, f.field)
		}
		faultIn(t, f.kind, slices.Concat(f.before, uv(f.largest+1), f.after), f.field, ErrTooLong)
		faultIn(t, f.kind, slices.Concat(f.before, uv(math.MaxUint64), f.after), f.field, ErrTooLong)
		faultIn(t, f.kind, slices.Concat(f.before, []byte{0x80, 0x00}, f.after), f.field, ErrValue)
		endless := slices.Concat(f.before, bytes.Repeat([]byte{0xff}, 10), []byte{1}, f.after)
		faultIn(t, f.kind, endless, f.field, ErrValue)
		// Truncated:
		faultIn(t, f.kind, slices.Concat(f.before, []byte{0x80, 0x80, 0x80}), f.field, io.ErrUnexpectedEOF)
	}
}

// TestOtherVersions: a Hello or a Welcome of another version is refused as such, for all versions.
func TestOtherVersions(t *testing.T) {
	for _, v := range []uint64{0, Version + 1, 1 << 16} {
		faultIn(t, KindHello, uv(v), "version", WrongVersion)
		faultIn(t, KindWelcome, uv(v), "version", WrongVersion)
	}
	faultIn(t, KindHello, uv(1<<16+1), "version", ErrTooLong)
}

// TestLongestLists: strings and lists are limited, too.
func TestLongestLists(t *testing.T) {
	hello := func(secret []byte) []byte { return slices.Concat(helloHead, uv(1), zeros(32+16+4), secret) }
	top := func(n int) []byte { return slices.Concat([]byte{0}, uv(uint64(n)), zeros(2*n), zeros(4)) }
	for _, c := range []struct {
		kind       Kind
		field      string
		good, long []byte
	}{
		{KindHello, "secret", hello(text(maxString)), hello(text(maxString + 1))},
		{KindWelcome, "model", slices.Concat(uv(Version), text(maxString), zeros(10)),
			slices.Concat(uv(Version), text(maxString+1), zeros(10))},
		{KindRefusal, "detail", append([]byte{1, 0}, text(maxString)...), append([]byte{1, 0}, text(maxString+1)...)},
		{KindAnswer, "top", top(MaxK), top(MaxK + 1)},
	} {
		t.Run(c.field, func(t *testing.T) {
			_, _, err := messages()[c.kind-1].parse(frame(c.kind, c.good))
			require.NoError(t, err)
			faultIn(t, c.kind, c.long, c.field, ErrTooLong)
		})
	}
	faultIn(t, KindAnswer, slices.Concat([]byte{0, 0, 0}, uv(MaxPosition+1), zeros(9)), "audit", ErrTooLong)
	faultIn(t, KindAnswer, slices.Concat([]byte{0, 0, 0}, uv(MaxPosition), zeros(9)), "audit", io.ErrUnexpectedEOF)
	faultIn(t, KindAsk, slices.Concat(askHead, []byte{0, 0, 0}, uv(MaxMessage+1)), "delta length", ErrTooLong)
	faultIn(t, KindAsk, slices.Concat(askHead, []byte{0, 0, 0}, uv(MaxMessage)), "delta", io.ErrUnexpectedEOF)

	r, _, err := ParseRefusal(Refusal{Detail: string(text(maxString + 50))}.Append(nil))
	require.NoError(t, err)
	assert.Equal(t, string(text(maxString + 50))[:maxString], r.Detail, "a long text is cut")
}

// TestSamplingBounds: sampling settings must agree with their flags, and be within bounds.
func TestSamplingBounds(t *testing.T) {
	before := slices.Concat(askHead, []byte{0}, deltaOf0, []byte{0, 0})
	f64 := func(f float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)) }
	for _, c := range []struct {
		name  string
		flags byte
		value []byte
		field string // the wrong field; "" if valid
		err   error
	}{
		{"no settings", 0, nil, "", nil},
		{"least temperature", hasTemperature, f64(math.SmallestNonzeroFloat64), "", nil},
		{"highest temperature", hasTemperature, f64(math.MaxFloat64), "", nil},
		{"temperature 0", hasTemperature, f64(0), "temperature", ErrValue},
		{"negative temperature", hasTemperature, f64(-1), "temperature", ErrValue},
		{"infinite temperature", hasTemperature, f64(math.Inf(1)), "temperature", ErrValue},
		{"temperature that is no number", hasTemperature, f64(math.NaN()), "temperature", ErrValue},
		{"truncated temperature", hasTemperature, zeros(7), "temperature", io.ErrUnexpectedEOF},
		{"top-p 1", hasTopP, f64(1), "", nil},
		{"least top-p", hasTopP, f64(math.SmallestNonzeroFloat64), "", nil},
		{"top-p above 1", hasTopP, f64(math.Nextafter(1, 2)), "sampling", ErrValue},
		{"top-p 0", hasTopP, f64(0), "top-p", ErrValue},
		{"top-k 1", hasTopK, uv(1), "", nil},
		{"top-k 0", hasTopK, uv(0), "sampling", ErrValue},
		{"a seed", hasSeed, []byte{0, 0, 0, 0, 0, 0, 0, 1}, "", nil},
		{"seed 0", hasSeed, zeros(8), "sampling", ErrValue},
		{"first unknown flag", flagsEnd, nil, "sampling", ErrValue},
		{"last unknown flag", 0x80, nil, "sampling", ErrValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := append(append(slices.Clone(before), c.flags), c.value...)
			if c.err != io.ErrUnexpectedEOF {
				body = append(body, 0, 0, 0) // the deadline, verify, ahead
			}
			if c.field != "" {
				faultIn(t, KindAsk, body, c.field, c.err)
				return
			}
			_, _, err := ParseAsk(frame(KindAsk, body))
			assert.NoError(t, err)
		})
	}
}

// TestVerifyBounds: each kind of verification is known, and so is the other template.
func TestVerifyBounds(t *testing.T) {
	for _, how := range []byte{4, 5, 64 + 1, wantsClock - 1, wantsClock + 4, 255} {
		faultIn(t, KindAsk, slices.Concat(askHead, []byte{0}, deltaOf0, zeros(4), []byte{how, 9}), "verify", ErrValue)
	}
	faultIn(t, KindWelcome, slices.Concat(uv(Version), zeros(2+8), []byte{2}), "other template", ErrValue)
}

// TestFrameLengths: a frame may be as long as the max message; its length is encoded in the shortest form.
func TestFrameLengths(t *testing.T) {
	for _, n := range []int{
		0, 1, 127, 128, 129, 1<<14 - 1, 1 << 14, 1<<14 + 1, 3<<14 - 1, 1<<21 - 1, 1 << 21, MaxMessage,
	} {
		body := bytes.Repeat([]byte{0xab}, n)
		b := frame(KindSync, body)
		require.True(t, bytes.Equal(slices.Concat([]byte{byte(KindSync)}, uv(uint64(n)), body), b), "%d", n)
		p, taken := openFrame(append(b, 1, 2, 3), KindSync)
		require.NoError(t, p.err)
		require.Equal(t, len(b), taken)
		require.True(t, bytes.Equal(body, p.b))
		rest := bytes.NewReader(append(slices.Clone(b), "behind"...))
		kind, whole, err := ReadFrame(rest, MaxMessage)
		require.NoError(t, err)
		require.Equal(t, KindSync, kind)
		require.True(t, bytes.Equal(b, whole))
		require.Equal(t, len("behind"), rest.Len(), "nothing is read after the frame")
		_, whole, err = ReadFrame(bytes.NewReader(b), n)
		require.NoError(t, err)
		require.Len(t, whole, len(b))
		if n > 0 {
			_, _, err = ReadFrame(bytes.NewReader(b), n-1)
			require.ErrorIs(t, err, ErrTooLong)
		}
	}
	long := slices.Concat([]byte{byte(KindSync)}, uv(MaxMessage+1), zeros(MaxMessage+1))
	_, _, err := ParseSync(long)
	require.ErrorIs(t, err, ErrTooLong)
	_, _, err = ReadFrame(bytes.NewReader(long), math.MaxInt)
	require.ErrorIs(t, err, ErrTooLong, "whatever limit the reader has")
}

// TestFrameHeaders: a length is refused if its coding is too long, padded or cut, and nothing is read after it.
func TestFrameHeaders(t *testing.T) {
	for _, c := range []struct {
		name   string
		length []byte
		want   error
	}{
		{"no length", nil, io.ErrUnexpectedEOF},
		{"one byte of two", []byte{0x80}, io.ErrUnexpectedEOF},
		{"three bytes of four", []byte{0xff, 0xff, 0xff}, io.ErrUnexpectedEOF},
		{"two padded bytes", []byte{0x80, 0x00}, ErrValue},
		{"three padded bytes", []byte{0x85, 0x80, 0x00}, ErrValue},
		{"five padded bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80}, ErrValue},
		{"32 bits", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, ErrTooLong},
		{"more than 32 bits", []byte{0x80, 0x80, 0x80, 0x80, 0x7f}, ErrTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := append([]byte{byte(KindSync)}, c.length...)
			rest := bytes.NewReader(b)
			if !errors.Is(c.want, io.ErrUnexpectedEOF) {
				rest.Reset(append(slices.Clone(b), 1, 2, 3))
			}
			_, _, err := ReadFrame(rest, math.MaxInt)
			assert.ErrorIs(t, err, c.want)
			assert.Equal(t, c.want != io.ErrUnexpectedEOF, rest.Len() == 3)
		})
	}
	_, _, err := ReadFrame(bytes.NewReader(nil), MaxMessage)
	assert.Equal(t, io.EOF, err, "no frame")
}

// TestUnknownValues: a byte with one of some values is refused if it has another.
func TestUnknownValues(t *testing.T) {
	for _, f := range []struct {
		kind          Kind
		field         string
		values        int
		before, after []byte
	}{
		{KindSync, "coding", 3, zeros(4 + 1 + 1), zeros(1)},
		{KindAsk, "coding", 3, zeros(4 + 1 + 1), append(zeros(1), askTail...)},
		{KindWelcome, "audit", 2, append(uv(Version), zeros(1+1+4)...), zeros(4)},
		{KindWelcome, "other template", 2, append(uv(Version), zeros(1+1+4+1+3)...), nil},
	} {
		t.Run(f.kind.String()+" "+f.field, func(t *testing.T) {
			for v := range 256 {
				var err error
				b := frame(f.kind, slices.Concat(f.before, []byte{byte(v)}, f.after))
				switch f.kind {
				case KindSync:
					_, _, err = ParseSync(b)
				case KindAsk:
					_, _, err = ParseAsk(b)
				default:
					_, _, err = ParseWelcome(b)
				}
				if v < f.values {
					require.NoError(t, err, "%d", v)
					continue
				}
				fault, ok := errors.AsType[*ParseError](err)
				require.True(t, ok, "%d", v)
				require.Equal(t, ParseError{f.kind.String(), f.field, ErrValue}, *fault)
				require.EqualError(t, err, "parse "+f.kind.String()+": "+f.field+": "+ErrValue.Error())
			}
		})
	}
	assert.Equal(t, 8, Path{Base: 5, Delta: Delta{Count: 3}}.Position())
}

// TestDurations: durations are sent in whole milliseconds, rounded up, or in whole microseconds, rounded down. Negative
// ones become 0, and the max is 50 days.
func TestDurations(t *testing.T) {
	const longest = maxMillis * time.Millisecond
	for d, want := range map[time.Duration]time.Duration{
		0: 0, -1: 0, -time.Hour: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond,
		time.Millisecond + 1: 2 * time.Millisecond, 2*time.Millisecond - 1: 2 * time.Millisecond, longest: longest,
		longest + 1: longest, longest - 1: longest, 2 * longest: longest,
		longest - time.Millisecond: longest - time.Millisecond,
	} {
		t.Run(d.String(), func(t *testing.T) {
			a, _, err := ParseAsk(Ask{Question: terms.Question{Within: d}}.Append(nil))
			require.NoError(t, err)
			assert.Equal(t, want, a.Within)
			r, _, err := ParseRefusal(Refusal{RetryAfter: d}.Append(nil))
			require.NoError(t, err)
			assert.Equal(t, want, r.RetryAfter)
		})
	}
	for d, want := range map[time.Duration]time.Duration{
		0: 0, -1: 0, -time.Hour: 0, 999: 0,
		time.Microsecond: time.Microsecond, 1999: time.Microsecond, longest: longest,
		longest + time.Microsecond: longest, 2 * longest: longest,
	} {
		t.Run(d.String(), func(t *testing.T) {
			a, _, err := ParseAnswer(Answer{Reply: terms.Reply{Queue: d}}.Append(nil))
			require.NoError(t, err)
			assert.Equal(t, Answer{Reply: terms.Reply{Queue: want}}, a)
			a, _, err = ParseAnswer(Answer{Reply: terms.Reply{Compute: d}}.Append(nil))
			require.NoError(t, err)
			assert.Equal(t, Answer{Reply: terms.Reply{Compute: want}}, a)
		})
	}
	assert.Equal(t, Ack{}.Append(nil), Ack{-5}.Append(nil), "numbers are not negative")
}
