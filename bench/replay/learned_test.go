package replay

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestLearnedAudit: an audit gives the large model's choice at each audited position, after the tokens that the text
// has there. Tokens ahead follow the answer, or with verification of each choice the first finding.
func TestLearnedAudit(t *testing.T) {
	type said map[int]int32 // by the number of tokens of the context before the choice
	text := []int32{2, 3, 10, 11, 12}
	for name, c := range map[string]struct {
		ask   Ask
		want  said
		ahead []int32 // the text that the token ahead follows; nil: the context and the answer
	}{
		"none":               {ask: Ask{}, want: said{}},
		"findings alone":     {ask: Ask{Audit: []Finding{{Pos: 3, Token: 30}}}, want: said{}},
		"all agree":          {ask: Ask{Audited: 3}, want: said{2: 10, 3: 11, 4: 12}},
		"the last":           {ask: Ask{Audited: 1}, want: said{4: 12}},
		"more than the text": {ask: Ask{Audited: 9}, want: said{0: 2, 1: 3, 2: 10, 3: 11, 4: 12}},
		"a finding, and later": {ask: Ask{Audited: 3, Audit: []Finding{{Pos: 2, Token: 30}}},
			want: said{2: 30, 3: 11, 4: 12}},
		"two findings": {
			ask:  Ask{Audited: 3, Audit: []Finding{{Pos: 4, Token: 31}, {Pos: 2, Token: 30}}},
			want: said{2: 30, 3: 11, 4: 31},
		},
		"each choice": {
			ask: Ask{Audited: 3, Verify: int(terms.EachChoice), Audit: []Finding{{Pos: 4, Token: 31},
				{Pos: 3, Token: 30}}},
			want: said{2: 10, 3: 30, 4: 31}, ahead: []int32{2, 3, 10, 30},
		},
		"each choice holds": {ask: Ask{Audited: 3, Verify: int(terms.EachChoice)}, want: said{2: 10, 3: 11, 4: 12}},
	} {
		t.Run(name, func(t *testing.T) {
			r := scripted(11, 11)
			c.ask.Node, c.ask.Token, c.ask.Ahead = 3, 20, []Later{{21, 1}, {22, 2}}
			r.Answers[0].Asks = []Ask{c.ask}
			p := playing(t, r)
			want := map[uint64]int32{hashTokens(text): 20}
			for n, token := range c.want {
				want[hashTokens(text[:n])] = token
			}
			ahead := c.ahead
			if ahead == nil {
				ahead = []int32{2, 3, 10, 11, 12, 20}
			}
			want[hashTokens(ahead)] = 21
			want[extendHash(hashTokens(ahead), 21)] = 22
			assert.Equal(t, want, p.said)
			assert.True(t, p.Asked())
		})
	}
}

// TestAssumedAudit: an audit that was not recorded has the choices that are known. One that comes with the answer ends
// at the first unknown one from the end; a verification assumes that the others agree with the text.
func TestAssumedAudit(t *testing.T) {
	r := scripted(11, 11)
	p := playing(t, r)
	context := []int32{2, 3, 10, 11, 12, 13}
	p.said = map[uint64]int32{hashTokens(context[:2]): 30, hashTokens(context[:4]): 12, hashTokens(context[:5]): 31,
		hashTokens(context): 20}
	text := p.Text(Of{Mode: "serial"}, Terms{}, simclock.New(time.Unix(0, 0)))
	audits := func(from int, verify terms.Verify) (a draft.Answer) {
		text.Assumed, text.assumed = Assumed{}, map[uint64]bool{}
		text.auditContext(draft.Question{Context: context, AuditFrom: from, Verify: verify}, &a)
		return a
	}
	first, last := terms.Finding{Pos: 2, Token: 30}, terms.Finding{Pos: 5, Token: 31}
	a := audits(2, terms.AsItComes)
	assert.Equal(t, 2, a.Audited, "up to the unknown one")
	assert.Equal(t, []terms.Finding{last}, a.Audit)
	assert.Zero(t, text.Assumed)
	a = audits(2, terms.EachChoice)
	assert.Equal(t, 4, a.Audited)
	assert.Equal(t, []terms.Finding{first, last}, a.Audit, "ascending")
	assert.Equal(t, Assumed{Answers: 1}, text.Assumed)
	assert.Equal(t, map[uint64]bool{hashTokens(context[:3]): true}, text.assumed)
	for from, want := range map[int]int{0: 6, 3: 3, 6: 0, 9: 0} {
		assert.Equal(t, want, audits(from, terms.EachChoice).Audited, from)
	}
	p.gaps[scoreKey{hashTokens(context[:5]), 13, terms.EachJudged}] = 0.5
	a = audits(2, terms.EachJudged)
	assert.Equal(t, []terms.Finding{{Pos: 5, Token: 31, Stands: -0.5}}, a.Audit, "a token without a score stands")
	assert.Equal(t, Assumed{Answers: 2}, text.Assumed)
	assert.Empty(t, audits(2, terms.EachScore).Audit, "those are other scores")
	delete(p.said, hashTokens(context))
	text.Assumed = Assumed{}
	assert.Contains(t, []int32{10, 11, 12, end}, text.largeModelChoice(hashTokens(context)),
		"a token of the small model")
	assert.Equal(t, Assumed{Answers: 1}, text.Assumed, "the answer too may be unknown")
	assert.True(t, text.assumed[hashTokens(context)])
}

// TestShownAssumptions: a shown token counts if there is an assumption about the text before it.
func TestShownAssumptions(t *testing.T) {
	text := &Text{assumed: map[uint64]bool{hashTokens([]int32{1}): true, hashTokens([]int32{1, 5, 6}): true,
		hashTokens([]int32{9}): true}}
	text.Shown([]int32{1}, []draft.Token{{ID: 5}, {ID: 6}, {ID: 7}, {ID: 8}})
	assert.Equal(t, Assumed{Text: 2}, text.Assumed)
}

// TestPlus: every count is added.
func TestPlus(t *testing.T) {
	var a, b Assumed
	for i := range reflect.TypeFor[Assumed]().NumField() {
		reflect.ValueOf(&a).Elem().Field(i).SetInt(int64(100 * (i + 1)))
		reflect.ValueOf(&b).Elem().Field(i).SetInt(int64(i + 1))
	}
	a.Plus(b)
	for i := range reflect.TypeFor[Assumed]().NumField() {
		assert.Equal(t, int64(101*(i+1)), reflect.ValueOf(a).Field(i).Int())
	}
}

// TestOwnWay: the time of the program itself on the way of an ask is known only without losses and traces. The large
// model alone has no such times, and neither counts in the medians.
func TestOwnWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Recording)
		way    time.Duration
	}{
		{"known", func(*Recording) {}, 10 * ms},
		{"losses", func(r *Recording) { r.Loss = 0.1 }, 0},
		{"a trace", func(r *Recording) { r.Traces = []string{"x"} }, 0},
		{"a long round trip", func(r *Recording) { r.RTT = time.Second }, 0},
		{"no asks", func(r *Recording) { r.Answers[0].Asks = nil }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := scripted(11, 11)
			c.change(r)
			for _, mode := range []string{CloudMode, ReferenceMode} {
				r.Answers = append(r.Answers, &Answer{Mode: mode, Prompt: []int32{2, 3}, Prefill: 2, Question: 1})
			}
			p := playing(t, r)
			assert.Equal(t, c.way, p.own)
			assert.Equal(t, 40*ms, p.prefillTime("serial", 0))
			assert.Zero(t, p.prefillTime(CloudMode, 1), "an answer of the large model alone has another kind of time")
			assert.Zero(t, p.readingTime(0, 1))
			assert.Equal(t, time.Duration(4), p.readingTime(1, 4))
		})
	}
}

// TestCapacityPart: an answer begins at its part of a recorded capacity, of either direction.
func TestCapacityPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	up, down := linkOf(0, 0, 0), linkOf(0, 0, 0)
	for l, end := range map[*Link]string{up: ".up", down: ".down"} {
		require.NoError(t, os.WriteFile(path+end, []byte("10\n60\n100\n"), 0o600))
		require.NoError(t, l.Options.AddTrace(path+end))
		for part, want := range map[float64]time.Duration{0: 10 * ms, 0.5: 10 * ms, 0.75: 25 * ms} {
			p := playing(t, scripted(11, 11))
			clock := simclock.New(time.Unix(0, 0))
			clock.Run(func() {
				text := p.Text(Of{Mode: "serial", Part: part}, Terms{Link: l}, clock)
				direction := map[*Link]uint64{up: upwards, down: downwards}[l]
				assert.True(t, text.sendMessage(t.Context(), direction, 1, 100))
				assert.Equal(t, want, text.elapsedTime(), "from %v", part)
				before := text.elapsedTime()
				assert.True(t, text.sendMessage(t.Context(), 1-direction, 1, 100))
				assert.Equal(t, before, text.elapsedTime(), "the other direction has no limit")
			})
		}
	}
}

// TestEarlier: the tokens of a context that were sent are those after the longest beginning that the large model has
// from a text before, sent early or with an ask.
func TestEarlier(t *testing.T) {
	for name, c := range map[string]struct {
		warm []int32
		link *Link
		want []int
	}{
		"nothing before": {nil, nil, []int{3, 2, 1}},
		"the prompt":     {[]int32{2, 3}, nil, []int{1, 2, 1}},
		"over a link":    {[]int32{2, 3}, linkOf(10*ms, 0, 0), []int{1, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := scripted(11, 11)
			p := playing(t, r)
			clock := simclock.New(time.Unix(0, 0))
			clock.Run(func() {
				text := p.Text(Of{Mode: "serial"}, Terms{Link: c.link}, clock)
				if c.warm != nil {
					_, _, err := text.Cloud().(draft.Warmer).Warm(t.Context(), c.warm)
					require.NoError(t, err)
				}
				for i, context := range [][]int32{{2, 3, 10}, {2, 3, 10, 11, 12}, {2, 3, 10, 11, 13}} {
					a, err := text.Cloud().Ask(t.Context(), draft.Question{Context: context})
					require.NoError(t, err)
					assert.Equal(t, c.want[i], a.Prefilled)
				}
			})
		})
	}
}

// TestWarmTimes: sending text early takes its recorded time and bytes, or the mean of such texts, or over another link
// the time of its bytes there and back.
func TestWarmTimes(t *testing.T) {
	r := scripted(11, 11)
	r.Answers[0].Asks = append(r.Answers[0].Asks, Ask{Warm: true, Took: 9 * ms, BytesUp: 7, BytesDown: 3},
		Ask{Node: 1, Warm: true, Took: 19 * ms, BytesUp: 1, BytesDown: 1})
	p := playing(t, r)
	slow := narrow(t, "10\n", "25\n")
	for _, c := range []struct {
		name     string
		tokens   int
		link     *Link
		limit    time.Duration
		took     time.Duration
		up, down int
		err      error
	}{
		{"as recorded", 2, nil, 0, 9 * ms, 7, 3, nil},
		{"the mean of such texts", 4, nil, 0, 14 * ms, 4, 2, nil},
		{"cancelled", 4, nil, 5 * ms, 5 * ms, 4, 0, context.Canceled},
		{"over another link", 2, slow, 0, 75*ms + 50*ms, 7, 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := simclock.New(time.Unix(0, 0))
			clock.Run(func() {
				text := p.Text(Of{Mode: "serial"}, Terms{Link: c.link, CloudPace: new(time.Hour)}, clock)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.limit > 0 {
					clock.Go(func() { clock.Sleep(c.limit, nil); cancel() })
				}
				up, down, err := text.Cloud().(draft.Warmer).Warm(ctx, []int32{2, 3, 10, 11}[:c.tokens])
				assert.ErrorIs(t, err, c.err)
				assert.Equal(t, c.up, up)
				assert.Equal(t, c.down, down)
				assert.Equal(t, c.took, text.elapsedTime())
			})
		})
	}
}
