package run

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/event"
)

// explainer collects explanations of tokens from the events of decoding.
type explainer struct {
	rows  []event.Explanation
	heads map[int]pilotfish.Head // by position; only without a large model
}

// recordHead is called for drafts, too: the last head of a position is that of the text.
func (x *explainer) recordHead(h pilotfish.Head) {
	if x.heads == nil {
		x.heads = map[int]pilotfish.Head{}
	}
	x.heads[h.Pos] = pilotfish.Head{Margin: h.Margin, Entropy: h.Entropy}
}

func (x *explainer) observeEvent(e pilotfish.Event) {
	if t := e.Token; t != nil && !t.End {
		h := x.heads[t.Pos]
		row := event.Explanation{
			Pos: t.Pos, ID: t.ID, Origin: string(t.Origin), Confidence: t.Confidence, Margin: h.Margin,
			Entropy: h.Entropy, Local: t.ID, Outcome: "stands",
		}
		if why := t.Reason; why != nil {
			row.Margin, row.Entropy, row.Threshold, row.Local = why.Margin, why.Entropy, why.Threshold, why.Local
		}
		if had := x.rowAt(t.Pos); had != nil { // the event of its question came before
			row.Outcome, row.Why, row.Cloud, row.CloudLogProb = had.Outcome, had.Why, had.Cloud, had.CloudLogProb
			*had = row
			return
		}
		x.rows = append(x.rows, row)
	}
	if t := e.Turn; t != nil { // the event of its token follows
		row := event.Explanation{Pos: t.Pos, Outcome: "turned", Cloud: new(t.Token)}
		if t.LogProb != 0 {
			row.CloudLogProb = new(t.LogProb)
		}
		x.rows = append(x.rows, row)
	}
	q := e.Escalation
	if q == nil {
		return
	}
	switch q.Outcome {
	case "hit", "miss", "known", "late", "failed", "unasked":
		x.recordEscalation(q)
	}
}

func (x *explainer) recordEscalation(q *pilotfish.Escalation) {
	row := x.rowAt(q.Pos)
	if row == nil { // the event of its token follows
		x.rows = append(x.rows, event.Explanation{Pos: q.Pos})
		row = &x.rows[len(x.rows)-1]
	}
	row.Outcome, row.Why = string(q.Outcome), string(q.Why)
	if q.Outcome == "hit" || q.Outcome == "miss" || q.Outcome == "known" {
		row.Cloud = new(q.Token)
		for _, c := range q.Top {
			if c.ID == q.Token {
				row.CloudLogProb = new(c.LogProb)
			}
		}
	}
	for i := range x.rows {
		if r := &x.rows[i]; q.Audited > 0 && r.Pos >= q.AuditedFrom && r.Pos < q.AuditedTo && r.Origin == "edge" {
			r.Cloud = new(r.ID)
		}
	}
	for _, f := range q.Missed {
		if r := x.rowAt(f.Pos); r != nil {
			r.Cloud, r.CloudLogProb = new(f.Token), new(f.LogProb)
		}
	}
}

// rowAt returns the row of a position; nil if there is none yet.
func (x *explainer) rowAt(pos int) *event.Explanation {
	i, found := slices.BinarySearchFunc(x.rows, pos, func(r event.Explanation, pos int) int { return r.Pos - pos })
	if !found {
		return nil
	}
	return &x.rows[i]
}

func (x *explainer) shownRows() []event.Explanation {
	return slices.DeleteFunc(slices.Clone(x.rows), func(r event.Explanation) bool { return r.Origin == "" })
}

// printTable prints only the first columns without a large model. Tokens are quoted, so that none can control the
// terminal.
func (x *explainer) printTable(out io.Writer, m *pilotfish.Model, large bool) {
	line, columns := "%6s %-18s %6s %6s %7s", 5
	if large {
		line, columns = line+" %7s %-14s %-18s %s", 9
	}
	write := func(cells ...any) {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf(line, cells[:columns]...), " "))
	}
	write("pos", "small model's", "conf", "margin", "entropy", "thresh", "outcome", "large model's", "log p")
	for _, r := range x.shownRows() {
		choice, p, threshold := "", "", ""
		if r.Threshold != 0 { // else nothing is asked for because of it
			threshold = fmt.Sprintf("%.3f", r.Threshold)
		}
		switch {
		case r.Cloud == nil:
		case *r.Cloud == r.Local:
			choice = "the same"
		default:
			choice = quoteToken(m, *r.Cloud)
		}
		if r.CloudLogProb != nil {
			p = fmt.Sprintf("%.2f", math.Round(float64(*r.CloudLogProb)*100)/100+0) // avoids "-0.00"
		}
		write(fmt.Sprint(r.Pos), quoteToken(m, r.Local), fmt.Sprintf("%.3f", r.Confidence),
			fmt.Sprintf("%.3f", r.Margin), fmt.Sprintf("%.3f", r.Entropy), threshold, r.Result(), choice, p)
	}
}

func quoteToken(m *pilotfish.Model, id int32) string {
	text, err := m.TokenName(id)
	if err == nil && text == "" {
		var b []byte
		b, err = m.TokenBytes(id)
		text = string(b)
	}
	if err != nil { // a model without a tokenizer generates no text
		return ""
	}
	return quoteShort(text)
}

// quoteShort returns text in quotes, in ASCII, with at most 18 characters.
func quoteShort(text string) string {
	q := fmt.Sprintf("%+q", text)
	if len(q) > 18 {
		q = q[:15] + `.."`
	}
	return q
}
