package draft

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestAuditor: each token of the small model counts once, with the first answer that compared it.
func TestAuditor(t *testing.T) {
	a := &auditor{rules: newRules(Options{Audit: true}, 2)}
	origins := []Origin{Edge, FromCloud, Edge, Edge, Edge}
	answered := func(pos, audited int, differs ...int) *escalation {
		e := &escalation{audited: audited}
		e.Pos, e.Outcome = pos, Miss
		for _, pos := range differs {
			e.findings = append(e.findings, terms.Finding{Pos: pos})
		}
		a.auditEscalation(e, origins)
		return e
	}
	first := answered(5, 5, 1, 3, 4)
	assert.Equal(t, []int{2, 2, 5}, []int{first.Audited, first.AuditedFrom, first.AuditedTo}, "not the prompt, nor 3")
	assert.Equal(t, []terms.Finding{{Pos: 4}}, first.Missed)
	second := answered(7, 5, 4, 6)
	assert.Equal(t, []int{2, 5, 7}, []int{second.Audited, second.AuditedFrom, second.AuditedTo})
	assert.Equal(t, []terms.Finding{{Pos: 6}}, second.Missed)
	for pos, want := range map[int]int{6: 0, 7: 7, 9: 7} {
		from, how := a.auditFrom(&node{pos: pos}, 0)
		assert.Equal(t, want, from)
		assert.Equal(t, terms.AsItComes, how)
	}
}
