package serve

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"regexp"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// pin is a text that clients change from one request of a conversation to the next. As all of the prompt after it would
// be computed again each time, it is replaced before the prompt is rendered.
type pin struct {
	name   string         // for the log
	system bool           // only in the system messages at the beginning, and there in the first pinnedBytes
	tools  bool           // only in requests with tools: those of agents, which can look for the time
	match  *regexp.Regexp // the first group is what changes
	fixed  func(changing string) string
}

const (
	fullDate = `(?:\d{4}-\d\d-\d\d|\d\d?/\d\d?/\d{4}|[A-Z][a-z]{2,8}\.? \d\d?,? \d{4}|\d\d? [A-Z][a-z]{2,8} \d{4})`
	budgets  = `\d{1,15} tokens left|Token usage: \d{1,15}/\d{1,15}; \d{1,15} remaining|` +
		`USD budget: \$[\d.]{1,15}/\$[\d.]{1,15}; \$[\d.]{1,15} remaining`
)

func changingTexts() []pin {
	return []pin{
		// Claude Code's first line has a checksum of the request. It is for the operator of a server, not for a model.
		{name: "billing header", system: true, fixed: func(string) string { return "" },
			match: regexp.MustCompile(`^(x-anthropic-billing-header:(?:[ \t]*[\w.-]+=[^;\n]*;)+[ \t]*\n?)`)},
		// The date and the hour stay true; minutes, seconds and fractions become zero.
		{name: "time of day", system: true, tools: true, fixed: zeroDigits,
			match: regexp.MustCompile(`(?i:\b(?:current|today|now|date|time))[^\n]{0,60}?` + fullDate +
				`(?:T|,? (?:at )?)\d\d?:(\d\d(?::\d\d(?:\.\d+)?)?)`)},
		// Claude Code's budgets, in the system text and after each result of a tool. Without fixed, the value that was
		// first seen at a place of a conversation stays there: it says what was true then.
		{name: "budget", match: budget},
	}
}

var budget = regexp.MustCompile(`(?:<total_tokens>|<system-reminder>\s*|^\s*)(` + budgets + `)\s*(?:</|$)`)

// mayHaveBudget is much faster than to match, and false for most texts.
func mayHaveBudget(text string) bool {
	return strings.Contains(text, "tokens left") || strings.Contains(text, "remaining")
}

func zeroDigits(digits string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '0'
		}
		return r
	}, digits)
}

// maxPins is the maximum number of values to remember. Above it the least recently used ones are forgotten.
const maxPins = 1 << 16

// pins has the values of budgets by the hashes of what precedes them, client included.
type pins struct {
	*lru.Cache[[sha256.Size]byte, string]
	all []pin
}

func newPins() pins {
	all, err := lru.New[[sha256.Size]byte, string](maxPins)
	if err != nil {
		panic(err) // the size is invalid: a bug
	}
	return pins{all, changingTexts()}
}

// pinMessages replaces the changing texts in a client's conversation. It also returns the names of these texts.
func (p pins) pinMessages(
	client string, messages []pilotfish.Message, tools bool,
) (_ []pilotfish.Message, names []string) {
	system := len(messages)
	if i := slices.IndexFunc(messages, func(m pilotfish.Message) bool { return m.Role != "system" }); i >= 0 {
		system = i
	}
	before := sha256.Sum256([]byte(client))
	if system < len(messages) { // system texts of other conversations are often equal
		text := messages[system].Content
		if mayHaveBudget(text) {
			text = budget.ReplaceAllLiteralString(text, "")
		}
		before = chainHash(before, text)
	}
	var fixed []pilotfish.Message
	for i, m := range messages {
		for _, pin := range p.all {
			if m.Role == "assistant" || pin.system && i >= system || pin.tools && !tools {
				continue
			}
			text := p.pinText(pin, m.Content, before)
			if text != m.Content && !slices.Contains(names, pin.name) {
				names = append(names, pin.name)
			}
			m.Content = text
		}
		before = chainHash(before, m.Role, m.Content, string(request.Encode(m.Calls)))
		if m.Content != "" || messages[i].Content == "" { // or it was nothing but a billing header
			fixed = append(fixed, m)
		}
	}
	return fixed, names
}

const (
	maxPinned   = 16       // replacements of one kind in a message
	pinnedBytes = 64 << 10 // of a system text
)

// pinText replaces what changes in a text. before is the hash of the messages before it.
func (p pins) pinText(pin pin, text string, before [sha256.Size]byte) string {
	var out strings.Builder
	end, within := 0, text
	if pin.system {
		within = text[:min(len(text), pinnedBytes)]
	} else if !mayHaveBudget(text) {
		return text
	}
	for _, at := range pin.match.FindAllStringSubmatchIndex(within, maxPinned) {
		out.WriteString(text[end:at[2]])
		value := text[at[2]:at[3]]
		if end = at[3]; pin.fixed != nil {
			value = pin.fixed(value)
		} else {
			value = p.firstValue(chainHash(before, out.String()), value)
		}
		out.WriteString(value)
	}
	if end == 0 {
		return text
	}
	return out.String() + text[end:]
}

// firstValue returns the value that was first seen at a place.
func (p pins) firstValue(place [sha256.Size]byte, value string) string {
	if known, ok := p.Get(place); ok {
		return known
	}
	p.Add(place, value)
	return value
}

func chainHash(before [sha256.Size]byte, texts ...string) [sha256.Size]byte {
	h := sha256.New()
	h.Write(before[:])
	for _, text := range texts {
		h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		_, _ = io.WriteString(h, text) // never an error
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (t *reply) pinnedPrompt(r *request.Chat) ([]int32, error) {
	client := t.s.clientID(t.r)
	if r.Settings.Local {
		client += " local" // its values are not used in texts that may leave this device
	}
	fixed, names := t.s.pins.pinMessages(client, r.Talk.Messages, len(r.Tools) > 0)
	if len(names) == 0 {
		return r.Prompt(t.s.model)
	}
	t.s.o.Log.Debug("pinned", "id", t.e.ID, "texts", names)
	like := *r
	like.Talk.Messages = fixed
	return like.Prompt(t.s.model)
}
