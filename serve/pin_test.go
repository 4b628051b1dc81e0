package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestPins: what each kind of changing text becomes in the system text of an agent; "": it stays.
func TestPins(t *testing.T) {
	for text, want := range map[string]string{
		"x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;You; and": "You; and",
		"x-anthropic-billing-header: cc_version=2.1; cch=0; cc_workload=a b;\nYou are":             "You are",
		"x-anthropic-billing-header: of a format that is not known":                                "",
		"See x-anthropic-billing-header: cch=1;":                                                   "",

		"The current date is 2026-11-29 10:23:45.":               "The current date is 2026-11-29 10:00:00.",
		"Date and time: 2026-11-29T10:23:45.123Z, a Sunday":      "Date and time: 2026-11-29T10:00:00.000Z, a Sunday",
		"# Current Time\n11/29/2026, 9:38:55 AM":                 "",
		"Current Time: 11/29/2026, 9:38:55 AM (UTC)":             "Current Time: 11/29/2026, 9:00:00 AM (UTC)",
		"now: Sunday, November 29, 2026 at 10:23 PM":             "now: Sunday, November 29, 2026 at 10:00 PM",
		"Today is 29 November 2026, 23:59. Yesterday was not":    "Today is 29 November 2026, 23:00. Yesterday was not",
		"Today's date: 2026-11-29":                               "",
		"Meetings begin at 10:30 today":                          "",
		"The deadline is 2026-11-29 10:23:45.":                   "",
		"currently 1 of 2026-11-29, at most; the ratio is 10:23": "",
	} {
		for _, tools := range []bool{true, false} {
			header := strings.HasPrefix(text, "x-")
			got, names := newPins().pinMessages("", []pilotfish.Message{{Role: "system", Content: text}}, tools)
			if want == "" || !tools && !header {
				assert.Equal(t, text, got[0].Content)
				assert.Empty(t, names)
				continue
			}
			assert.Equal(t, want, got[0].Content)
			assert.Equal(t, []string{map[bool]string{true: "billing header", false: "time of day"}[header]}, names)
		}
		got, _ := newPins().pinMessages("", []pilotfish.Message{{Role: "user", Content: text},
			{Role: "system", Content: text}}, true)
		assert.Equal(t, text, got[0].Content, "a user's text")
		assert.Equal(t, text, got[1].Content, "a later message")
	}
	late := strings.Repeat(" ", pinnedBytes) + "now: 2026-11-29 10:23"
	got, _ := newPins().pinMessages("", []pilotfish.Message{{Role: "system", Content: late}}, true)
	assert.Equal(t, late, got[0].Content, "not at the beginning")
	got, _ = newPins().pinMessages("", []pilotfish.Message{
		{Role: "system", Content: "x-anthropic-billing-header: cch=1;"},
		{Role: "system"}, {Role: "user"}}, false)
	assert.Equal(t, []pilotfish.Message{{Role: "system"}, {Role: "user"}}, got, "a message of nothing else is left out")
}

// TestPinBudgets: budgets keep the value that was first seen at their place of a conversation, whatever a client sends
// there later, and in all forms; those of other clients and conversations are their own.
func TestPinBudgets(t *testing.T) {
	p := newPins()
	for _, form := range []string{
		"<total_tokens>%d tokens left</total_tokens>",
		"Be brief.<total_tokens>%d tokens left</total_tokens>",
		"done<system-reminder>\n<total_tokens>%d tokens left</total_tokens>\n</system-reminder>",
		"<system-reminder>\nToken usage: %d/200000; 5 remaining\n</system-reminder>",
		"Token usage: 5/200000; %d remaining\n",
		"<system-reminder>USD budget: $1.5/$20; $%d remaining</system-reminder>",
	} {
		for _, role := range []string{"system", "user", "tool"} {
			get := func(client, first string, n int) string {
				got, _ := p.pinMessages(client, []pilotfish.Message{{Role: role, Content: fmt.Sprintf(form, n)},
					{Role: "user", Content: first}}, true)
				return got[0].Content
			}
			assert.Equal(t, fmt.Sprintf(form, 1), get("a", role+form, 1))
			assert.Equal(t, fmt.Sprintf(form, 1), get("a", role+form, 22))
			assert.Equal(t, fmt.Sprintf(form, 333), get("b", role+form, 333))
			if role == "system" {
				assert.Equal(t, fmt.Sprintf(form, 4), get("a", "another"+form, 4))
			}
		}
	}
	own := []pilotfish.Message{{Role: "assistant", Content: "<total_tokens>5 tokens left</total_tokens>"}}
	_, names := p.pinMessages("a", own, true)
	assert.Empty(t, names, "the model's own text")
	for _, text := range []string{"there are %d tokens left", "log:\nToken usage: 1/2; %d remaining\nend"} {
		for n := range 2 {
			m := []pilotfish.Message{{Role: "tool", Content: fmt.Sprintf(text, n)}}
			got, names := p.pinMessages("a", m, true)
			assert.Equal(t, m, got)
			assert.Empty(t, names)
		}
	}
	many := strings.Repeat("<total_tokens>7 tokens left</total_tokens>", 5000)
	got, _ := p.pinMessages("a", []pilotfish.Message{{Role: "user", Content: many}}, true)
	assert.Equal(t, many, got[0].Content)
	assert.Less(t, p.Len(), 100, "of one message, a few")
}

// TestPinnedConversation: in each dialect, a random conversation of an agent that rewrites its billing header, its time
// and its budgets at each turn gives prompts that continue each other; the log names what was pinned, on debug level.
func TestPinnedConversation(t *testing.T) {
	for path, start := range map[string]string{
		messages: `{"max_tokens":9,"tools":[{"name":"t","input_schema":{}}],"system":%q,"messages":[`,
		"/v1/chat/completions": `{"tools":[{"type":"function","function":{"name":"t"}}],` +
			`"messages":[{"role":"system","content":%q},`,
		responses: `{"tools":[{"type":"function","name":"t"}],"instructions":%q,"input":[`,
	} {
		r := rand.New(rand.NewPCG(1, 2))
		m := &fakeModel{answer: func(string, terms.Settings) string { return "fine" }, context: 1 << 20}
		var log bytes.Buffer
		var got []Event
		s := newTestServer(t, m, func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			o.Events = func(e Event) { got = append(got, e) }
		})
		var turns []string // with verbs
		for turn := range 6 {
			turns = append(turns, fmt.Sprintf(`{"role":"user","content":"%s"}`, strings.Repeat("word ", r.IntN(50))),
				`{"role":"system","content":"<total_tokens>%d tokens left</total_tokens>"}`)
			body := strings.Join(turns, ",")
			for strings.Contains(body, "%d") {
				body = strings.Replace(body, "%d", fmt.Sprint(r.IntN(200000)), 1)
			}
			head := fmt.Sprintf(start, fmt.Sprintf("x-anthropic-billing-header: cch=%05x;"+
				"Today is 2026-11-29T10:%02d:%02d. %s",
				r.IntN(1<<20), r.IntN(60), r.IntN(60), strings.Repeat("Be brief. ", 200)))
			w := ask(t, s, path, head+body+`]}`)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			if turn > 0 {
				before := strings.TrimSuffix(m.prompts[turn-1], "assistant:")
				assert.True(t, strings.HasPrefix(m.prompts[turn], before), "%s: %s", path, m.prompts[turn])
				assert.Greater(t, float64(got[turn].Cached), 0.99*float64(len(before)))
			}
			turns = append(turns, `{"role":"assistant","content":"fine"}`)
		}
		assert.Contains(t, log.String(), `msg=pinned id=req_0000000000000001`)
		assert.Contains(t, log.String(), `texts="[billing header time of day budget]"`)
	}
}

// TestPinnedCount: counting tokens counts what a prompt has.
func TestPinnedCount(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, nil)
	count := func(system string) any {
		w := ask(t, s, messages+"/count_tokens", fmt.Sprintf(`{"system":%q,%s}`, system, hello))
		return at(object(t, w.Body.Bytes()), "input_tokens")
	}
	assert.Equal(t, count("You"), count("x-anthropic-billing-header: cch=1;You"))
}
