package draft
import "fmt"
func (d *decoded) dump() {
	s := d.session
	fmt.Println("branches", s.Branches, "inflight", s.InFlight, "window", s.Window, "rows", s.Rows, "D", s.Deadline, "speed", s.speed, "prompt", len(d.prompt), "stop", d.stop, "max", s.MaxTokens)
	for _, f := range d.model.account.forwards { fmt.Println(" fwd", f.from.Sub(d.began), f.to.Sub(d.began), f.texts) }
	for _, q := range d.replay.questions { fmt.Println(" q", q.answer.BytesUp, "pos", len(q.Context), q.text, q.sent.Sub(d.began), q.back.Sub(d.began), q.err, q.outcome, q.token, "closed", q.closed.Sub(d.began), "probe", q.probe, q.dropped) }
	for _, e := range d.tokens { fmt.Println(" tok", e.At, *e.Token) }
	for _, e := range d.others { if e.Escalation != nil { fmt.Printf(" esc %v %+v\n", e.At, *e.Escalation) } else { fmt.Printf(" warm %v %+v\n", e.At, *e.Warming) } }
	for _, m := range d.replay.moments { fmt.Println(" at", m.at.Sub(d.began), m.refusing, m.probes, m.open, m.asked) }
}
