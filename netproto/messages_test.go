package netproto

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// message is a type of message with its parser, so that one table is used in all tests.
type message struct {
	kind   Kind
	parse  func([]byte) (appender, int, error)
	random func(*rand.Rand) appender
}

type appender interface{ Append([]byte) []byte }

func of[T appender](parse func([]byte) (T, int, error)) func([]byte) (appender, int, error) {
	return func(b []byte) (appender, int, error) {
		v, n, err := parse(b)
		return v, n, err
	}
}

func messages() []message {
	return []message{
		{KindHello, of(ParseHello), func(r *rand.Rand) appender {
			h := Hello{Version: Version, Identity: Identity{Vocab: r.IntN(MaxVocab + 1)}, Dictionary: r.Uint32(),
				Secret: Secret(letters(r))}
			fill(r, h.Identity.Tokenizer[:])
			fill(r, h.Identity.Template[:])
			fill(r, h.Device[:])
			return h
		}},
		{KindWelcome, of(ParseWelcome), func(r *rand.Rand) appender {
			return Welcome{letters(r), r.IntN(1 << 20), r.Uint32(),
				Audit(r.IntN(int(audits))), r.IntN(MaxVocab + 1), r.IntN(2) * r.IntN(MaxAhead+1),
				letters(r), r.IntN(2) == 0}
		}},
		{KindRefusal, of(ParseRefusal), func(r *rand.Rand) appender {
			return Refusal{Code(r.IntN(256)), time.Duration(r.IntN(1e6)) * time.Millisecond, letters(r)}
		}},
		{KindAsk, of(ParseAsk), func(r *rand.Rand) appender {
			return Ask{Session: r.Uint32(), Path: randomPath(r), Question: terms.Question{K: r.IntN(MaxK + 1),
				AuditFrom: r.IntN(MaxPosition + 1), Sampling: randomSampling(r),
				Within: time.Duration(r.IntN(1e6)) * time.Millisecond,
				Verify: terms.Verify(r.IntN(int(terms.EachJudged) + 1)),
				Ahead:  r.IntN(2) * r.IntN(MaxAhead+1),
				Times:  r.IntN(2) == 0}}
		}},
		{KindAnswer, of(ParseAnswer), func(r *rand.Rand) appender {
			a := Answer{Reply: terms.Reply{Token: r.Int32(),
				Queue:   time.Duration(r.IntN(1e9)) * time.Microsecond,
				Compute: time.Duration(r.IntN(1e9)) * time.Microsecond}}
			for range r.IntN(6) {
				a.Top = append(a.Top, terms.Candidate{ID: r.Int32(), LogProb: randomLogProb(r)})
			}
			at := 0
			for range r.IntN(6) {
				at += r.IntN(1 << 20)
				a.Audited++
				a.Audit = append(a.Audit, terms.Finding{Pos: at, Token: r.Int32(), LogProb: randomLogProb(r)})
			}
			if r.IntN(2) == 0 {
				randomScores(r, a.Audit)
			}
			return a
		}},
		{KindNeed, of(ParseNeed), func(r *rand.Rand) appender {
			return Need{r.IntN(MaxPosition + 1), Hash(r.Uint64())}
		}},
		{KindSync, of(ParseSync), func(r *rand.Rand) appender { return Sync{r.Uint32(), randomPath(r)} }},
		{KindAck, of(ParseAck), func(r *rand.Rand) appender { return Ack{r.IntN(MaxPosition + 1)} }},
		{KindBye, of(ParseBye), func(r *rand.Rand) appender { return Bye{r.Uint32()} }},
		{KindAhead, of(ParseAhead), func(r *rand.Rand) appender { return Ahead{r.Int32()} }},
		{KindClock, of(ParseClock), func(r *rand.Rand) appender {
			at := time.Duration(r.IntN(1e9)) * time.Microsecond
			return Clock{at, at + time.Duration(r.IntN(1e9))*time.Microsecond}
		}},
	}
}

func randomScores(r *rand.Rand, all []terms.Finding) {
	for i := range all {
		all[i].Score = float32(r.NormFloat64()) * 10
		all[i].Stands = all[i].Score - float32(r.IntN(3))*r.Float32()
		if r.IntN(4) == 0 {
			all[i].Stands = float32(math.Inf(-1))
		}
	}
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

func letters(r *rand.Rand) string {
	b := make([]byte, r.IntN(20))
	fill(r, b)
	return string(b)
}

func randomPath(r *rand.Rand) Path {
	p := Path{Base: r.IntN(1 << 20), Hash: Hash(r.Uint64()),
		Delta: Delta{Count: r.IntN(1000), Coding: Coding(r.IntN(int(codings)))}}
	if r.IntN(4) == 0 {
		p.Base, p.Hash = 0, RootHash
	}
	p.Delta.Bytes = make([]byte, r.IntN(300))
	fill(r, p.Delta.Bytes)
	return p
}

func randomSampling(r *rand.Rand) (s terms.Sampling) {
	if r.IntN(2) == 0 {
		s.Temperature = r.Float64() + 0.01
	}
	if r.IntN(2) == 0 {
		s.TopK = 1 + r.IntN(100)
	}
	if r.IntN(2) == 0 {
		s.TopP = 1 - r.Float64()
	}
	if r.IntN(2) == 0 {
		s.Seed = r.Uint64() | 1
	}
	return s
}

func randomLogProb(r *rand.Rand) float32 { return -float32(r.IntN(maxLogProb+1)) / logProbUnit }

// seeds returns the first n numbers, and some new ones each time, which are logged.
func seeds(t testing.TB, n int) (all []uint64) {
	t.Helper()
	for i := range n {
		all = append(all, uint64(i))
	}
	fresh := []uint64{rand.Uint64(), rand.Uint64(), rand.Uint64()}
	t.Logf("fresh seeds: %d", fresh)
	return append(all, fresh...)
}

func source() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// TestAllMessages: the tables of these tests include all messages.
func TestAllMessages(t *testing.T) {
	all := messages()
	require.Len(t, all, int(KindClock))
	for i, m := range all {
		assert.Equal(t, KindHello+Kind(i), m.kind)
	}
	assert.Equal(t, "audit 2", audits.String())
	assert.Equal(t, "message 12", (KindClock + 1).String(), "a new message needs a row above and a fuzz target")
}

// TestRoundTrip: an appended message parses to the same value and length, whatever follows it.
func TestRoundTrip(t *testing.T) {
	r := source()
	for _, m := range messages() {
		t.Run(m.kind.String(), func(t *testing.T) {
			for range 500 {
				v := m.random(r)
				b := v.Append([]byte("before"))[len("before"):]
				have, n, err := m.parse(append(bytes.Clone(b), "behind"...))
				require.NoError(t, err)
				require.Equal(t, len(b), n)
				require.Equal(t, plain(v), plain(have))
				kind, whole, err := ReadFrame(bytes.NewReader(append(bytes.Clone(b), "behind"...)), MaxMessage)
				require.NoError(t, err)
				require.Equal(t, m.kind, kind)
				require.Equal(t, b, whole)
			}
		})
	}
}

// plain formats an empty slice and nil in the same way.
func plain(v appender) string { return fmt.Sprintf("%+v %x", v, v.Append(nil)) }

// TestPrefix: no proper prefix parses, and the error is io.ErrUnexpectedEOF.
func TestPrefix(t *testing.T) {
	r := source()
	for _, m := range messages() {
		t.Run(m.kind.String(), func(t *testing.T) {
			for range 50 {
				b := m.random(r).Append(nil)
				for n := range b {
					_, taken, err := m.parse(b[:n])
					require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d of %d bytes", n, len(b))
					require.Zero(t, taken)
					_, _, err = ReadFrame(bytes.NewReader(b[:n]), MaxMessage)
					want := io.ErrUnexpectedEOF
					if n == 0 {
						want = io.EOF
					}
					require.ErrorIs(t, err, want)
				}
			}
		})
	}
}

// withoutScores returns an answer without scores, and other messages as they are.
func withoutScores(v appender) appender {
	if a, ok := v.(Answer); ok {
		for i := range a.Audit {
			a.Audit[i].Score, a.Audit[i].Stands = 0, 0
		}
	}
	return v
}

// TestBrokenFrames: a frame with a body that is too short or too long for its contents is refused, and so is a frame of
// another kind. Only all scores of an answer may be missing.
func TestBrokenFrames(t *testing.T) {
	r := source()
	for _, m := range messages() {
		t.Run(m.kind.String(), func(t *testing.T) {
			for range 20 {
				brokenFrames(t, m, m.random(r))
			}
		})
	}
}

func brokenFrames(t *testing.T, m message, v appender) {
	t.Helper()
	_, body := split(v.Append(nil))
	_, short := split(withoutScores(v).Append(nil))
	for n := range body {
		have, _, err := m.parse(frame(m.kind, body[:n]))
		if n == len(short) {
			require.NoError(t, err)
			require.Equal(t, plain(withoutScores(v)), plain(have))
			continue
		}
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d of %d bytes", n, len(body))
		fault, ok := errors.AsType[*ParseError](err)
		require.True(t, ok)
		require.Equal(t, m.kind.String(), fault.Message)
		require.NotEmpty(t, fault.Field)
	}
	_, _, err := m.parse(frame(m.kind, append(bytes.Clone(body), 0)))
	require.Error(t, err)
	if len(body) > len(short) || m.kind != KindAnswer {
		require.ErrorIs(t, err, ErrRest)
	}
	_, _, err = m.parse(frame(m.kind+1, body))
	require.ErrorIs(t, err, ErrType)
}

func frame(kind Kind, body []byte) []byte {
	return appendFrame(nil, kind, func(b []byte) []byte { return append(b, body...) })
}

// split returns the kind and the body of a frame.
func split(b []byte) (Kind, []byte) {
	n := 2
	for b[n-1] >= 0x80 {
		n++
	}
	return Kind(b[0]), b[n:]
}

// TestLogProb: a log-probability is decoded within half a unit, and an invalid one becomes the min.
func TestLogProb(t *testing.T) {
	r := source()
	back := func(l float32) float32 {
		p := parser{b: appendLogProb(nil, l)}
		return p.readLogProb("")
	}
	for range 1000 {
		l := -r.Float32() * 100
		require.InDelta(t, l, back(l), 0.51/logProbUnit)
	}
	for units, want := range map[float32]float32{
		0.4: 0, 0.6: 1, 1: 1, 1.4: 1, 2: 2, maxLogProb - 1: maxLogProb - 1, maxLogProb: maxLogProb,
		maxLogProb + 1: maxLogProb,
	} {
		assert.Equal(t, -want/logProbUnit, back(-units/logProbUnit), "%v units", units)
	}
	assert.Equal(t, float32(0), back(0.01))
	assert.False(t, math.Signbit(float64(back(0))))
	lowest := float32(-maxLogProb) / logProbUnit
	assert.Equal(t, lowest, back(float32(math.Inf(-1))))
	assert.Equal(t, lowest, back(float32(math.NaN())))
}

// TestSecretHides: a secret is not visible in any print, log or JSON.
func TestSecretHides(t *testing.T) {
	h := Hello{Secret: "open sesame"}
	for _, s := range []string{
		fmt.Sprint(h), fmt.Sprintf("%+v %#v %q %s", h, h, h.Secret, h.Secret), fmt.Sprint(h.Secret.LogValue()),
	} {
		assert.NotContains(t, s, "sesame")
	}
	b, err := h.Secret.MarshalText()
	require.NoError(t, err)
	assert.NotContains(t, string(b), "sesame")
	assert.Equal(t, "(secret)", h.Secret.String())
	assert.Equal(t, "(secret)", h.Secret.LogValue().String())
	assert.Equal(t, "(secret)", string(b))
	assert.Equal(t, "(secret)", fmt.Sprintf("%#v", h.Secret))
	assert.Empty(t, Secret("").String(), "an empty secret may be visible")
}

// TestDeviceHides: a device shows only a name that does not reveal it, and can be stored and read explicitly.
func TestDeviceHides(t *testing.T) {
	var d Device
	fill(source(), d[:])
	h := Hello{Device: d}
	b, err := json.Marshal(h)
	require.NoError(t, err)
	for _, s := range []string{
		fmt.Sprint(h), fmt.Sprintf("%v %+v %#v %s %q", d, h, h, d, d), d.LogValue().String(), string(b),
	} {
		assert.NotContains(t, s, d.Reveal()[:8])
		assert.NotContains(t, s, fmt.Sprint([]byte(d[:4])))
		assert.Contains(t, s, d.Name())
	}
	have, err := ParseDevice(d.Reveal())
	require.NoError(t, err)
	assert.Equal(t, d, have)
	assert.Empty(t, Device{}.Name())
	sum := sha256.Sum256(d[:])
	name := hex.EncodeToString(sum[:])[:8]
	b, err = d.MarshalText()
	require.NoError(t, err)
	assert.Equal(t, []string{name, name, name, name, name},
		[]string{d.Name(), d.String(), d.GoString(), d.LogValue().String(), string(b)})
	assert.Equal(t, hex.EncodeToString(d[:]), d.Reveal())
	for _, s := range []string{"", d.Reveal()[1:], d.Reveal() + "0", "x" + d.Reveal()[1:], d.Reveal()[:31] + "x"} {
		have, err := ParseDevice(s)
		require.ErrorIs(t, err, ErrValue)
		assert.Zero(t, have)
		assert.NotContains(t, err.Error(), d.Reveal()[1:9])
	}
}

// TestCodes: errors.Is distinguishes codes, in a refusal or alone.
func TestCodes(t *testing.T) {
	err := fmt.Errorf("dial: %w", Refusal{Code: WrongTokenizer, Detail: "d"})
	assert.ErrorIs(t, err, WrongTokenizer)
	assert.NotErrorIs(t, err, WrongSecret)
	assert.True(t, WrongSecret.Lasting())
	assert.False(t, Busy.Lasting())
	assert.EqualError(t, err, "dial: refused: the tokenizers of edge and cloud differ: d")
	assert.EqualError(t, Refusal{Code: Busy}, "refused: the gateway is busy")
	for detail, want := range map[string]string{
		`say "please", Jürgen`: `say "please", Jürgen`, "a\x1b]0;b\a": `"a\x1b]0;b\a"`, "a\r\nb": `"a\r\nb"`,
		"\u202eab": `"\u202eab"`, "\x9b1m": `"\x9b1m"`,
	} {
		assert.EqualError(t, Refusal{Code: Busy, Detail: detail}, "refused: the gateway is busy: "+want)
	}
}

// TestNumbersOfTheProtocol: the numbers of codes, kinds, codings and flags, and the limits of values, are part of the
// protocol.
func TestNumbersOfTheProtocol(t *testing.T) {
	for c, want := range []struct {
		code    Code
		text    string
		lasting bool
	}{
		{NoReason, "closed", false},
		{WrongVersion, "the gateway speaks another version of the protocol", true},
		{WrongTokenizer, "the tokenizers of edge and cloud differ", true},
		{WrongSecret, "the access token is missing or wrong", true},
		{Malformed, "malformed message", true},
		{TooLarge, "above the limits of the gateway", true},
		{TooFast, "too many requests per second", false},
		{Busy, "the gateway is busy", false},
		{TooLate, "the deadline of the ask has passed", false},
		{Draining, "the gateway is shutting down", false},
		{Failed, "the large model failed", false},
		{Cancelled, "cancelled", false},
		{CannotVerify, "the large model cannot verify", true},
		{13, "code 13", false},
	} {
		t.Run(want.text, func(t *testing.T) {
			assert.Equal(t, want.code, Code(c))
			assert.EqualError(t, Code(c), want.text)
			assert.Equal(t, want.lasting, Code(c).Lasting())
		})
	}
	for k, name := range []string{
		"message 0", "Hello", "Welcome", "Refusal", "Ask", "Answer", "Need", "Sync", "Ack", "Bye", "Ahead",
		"Clock", "message 12",
	} {
		assert.Equal(t, name, Kind(k).String())
	}
	for c, name := range []string{"packed", "zstd", "trained", "unknown", "unknown"} {
		assert.Equal(t, name, Coding(c).String())
	}
	for a, name := range []string{"none", "exact", "audit 2"} {
		assert.Equal(t, name, Audit(a).String())
	}
	for name, c := range map[string]struct{ want, got int }{
		"MaxMessage": {1 << 22, MaxMessage}, "MaxPosition": {1 << 24, MaxPosition}, "MaxVocab": {1 << 24, MaxVocab},
		"MaxK": {256, MaxK}, "maxString": {1 << 10, maxString}, "maxMillis": {1 << 32, maxMillis},
		"maxLogProb": {1 << 17, maxLogProb}, "logProbUnit": {1024, logProbUnit},
		"hasTemperature": {1, hasTemperature}, "hasTopK": {2, hasTopK}, "hasTopP": {4, hasTopP},
		"hasSeed": {8, hasSeed}, "flagsEnd": {16, flagsEnd},
		"Version": {1, Version}, "MaxAhead": {64, MaxAhead}, "wantsClock": {128, wantsClock},
	} {
		assert.Equal(t, c.want, c.got, name)
	}
	assert.Equal(t, []terms.Verify{0, 1, 2, 3},
		[]terms.Verify{terms.AsItComes, terms.EachChoice, terms.EachScore, terms.EachJudged})
	assert.Equal(t, "pilotfish/1", ALPN)
}

func TestDigest(t *testing.T) {
	r := source()
	var d Digest
	fill(r, d[:])
	have, err := ParseDigest(d.String())
	require.NoError(t, err)
	assert.Equal(t, d, have)
	assert.Equal(t, hex.EncodeToString(d[:]), d.String())
	for _, s := range []string{
		"", "12", d.String() + "00", d.String()[2:], d.String() + "0", "zz" + d.String()[2:], d.String()[:62] + "zz",
		" " + d.String()[1:],
	} {
		have, err := ParseDigest(s)
		assert.ErrorContains(t, err, fmt.Sprintf("fingerprint %q: ", s))
		if digits := strings.TrimSpace(s); len(digits) < 62 || len(digits) > 64 {
			assert.ErrorContains(t, err, fmt.Sprintf("%d hexadecimal digits instead of 64", len(s)))
		}
		assert.Zero(t, have)
	}
	var parts []string // as openssl prints them
	for _, b := range d {
		parts = append(parts, fmt.Sprintf("%02X", b))
	}
	for _, s := range []string{d.String()[:2] + ":" + d.String()[2:], strings.Join(parts, ":")} {
		have, err = ParseDigest(s)
		require.NoError(t, err)
		assert.Equal(t, d, have)
	}
}

// fuzz checks that a parser never panics, and that accepted bytes equal those that Append writes.
func fuzz(f *testing.F, kind Kind) {
	r := source()
	var m message
	for _, x := range messages() {
		if x.kind == kind {
			m = x
		}
		b := x.random(r).Append(nil)
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	for range 8 {
		b := m.random(r).Append(nil)
		f.Add(b)
		f.Add(append(b, 0))
		_, body := split(b)
		f.Add(frame(kind, body[:len(body)/2]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, n, err := m.parse(b)
		if err != nil {
			if v != nil && !reflect.ValueOf(v).IsZero() {
				t.Fatalf("an error with a value: %+v", v)
			}
			return
		}
		if again := v.Append(nil); !bytes.Equal(again, b[:n]) {
			t.Fatalf("%x is written as %x", b[:n], again)
		}
	})
}

func FuzzHello(f *testing.F)   { fuzz(f, KindHello) }
func FuzzWelcome(f *testing.F) { fuzz(f, KindWelcome) }
func FuzzRefusal(f *testing.F) { fuzz(f, KindRefusal) }
func FuzzAsk(f *testing.F)     { fuzz(f, KindAsk) }
func FuzzAnswer(f *testing.F)  { fuzz(f, KindAnswer) }
func FuzzNeed(f *testing.F)    { fuzz(f, KindNeed) }
func FuzzSync(f *testing.F)    { fuzz(f, KindSync) }
func FuzzAck(f *testing.F)     { fuzz(f, KindAck) }
func FuzzBye(f *testing.F)     { fuzz(f, KindBye) }
func FuzzAhead(f *testing.F)   { fuzz(f, KindAhead) }
func FuzzClock(f *testing.F)   { fuzz(f, KindClock) }

func FuzzDigest(f *testing.F) {
	f.Add(Digest{1, 2, 0xff}.String())
	f.Add("12:ab")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDigest(s); err == nil {
			again, err := ParseDigest(d.String())
			if err != nil || again != d {
				t.Fatalf("%q became %s", s, d)
			}
		} else if d != (Digest{}) {
			t.Fatalf("an error with a digest: %s", d)
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	r := source()
	for _, m := range messages() {
		f.Add(m.random(r).Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, whole, err := ReadFrame(bytes.NewReader(b), 1<<12)
		if err == nil && (!bytes.HasPrefix(b, whole) || byte(kind) != b[0] || len(whole) > 1<<12+6) {
			t.Fatalf("%x became %x", b, whole)
		}
	})
}
