package serve

import (
	"fmt"
	"log/slog"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// ignoredHeader is the header of a response that lists the fields of the request without effect.
const ignoredHeader = "X-Pilotfish-Ignored"

// Limits of ignored fields.
const (
	maxHeader = 32      // fields in the header
	maxLogged = 1 << 12 // fields of clients that are remembered as logged
)

// ignoredFields logs fields without effect, each one once for a client.
type ignoredFields struct {
	seen *lru.Cache[[3]string, struct{}] // key or address of the client, its name, and the field
	log  *limitedLog
}

func newIgnoredFields() ignoredFields {
	seen, err := lru.New[[3]string, struct{}](maxLogged)
	if err != nil {
		panic(err) // the size is invalid: a bug
	}
	return ignoredFields{seen, newLimitedLog()}
}

// reportIgnoredFields names the fields of a request without effect in a header, and once for a client in the log.
func (t *reply) reportIgnoredFields(r *request.Request) {
	all := r.Ignored()
	if t.e.Ignored = len(all); len(all) == 0 {
		return
	}
	say := strings.Join(all[:min(len(all), maxHeader)], ", ")
	if more := len(all) - maxHeader; more > 0 {
		say += fmt.Sprintf(", and %d more", more)
	}
	t.w.Header().Set(ignoredHeader, say)
	client, agent := t.s.clientID(t.r), errs.Start(t.r.UserAgent(), errs.Most)
	var fresh []string
	for _, path := range all {
		kind := request.Kind(path)
		if seen, _ := t.s.fields.seen.ContainsOrAdd([3]string{client, agent, kind}, struct{}{}); !seen {
			fresh = append(fresh, kind)
		}
	}
	if len(fresh) == 0 ||
		t.s.fields.log.writeLine(t.s.o.Log, slog.LevelInfo, t.r, "ignored", "fields", fresh, "agent", agent) {
		return
	}
	for _, kind := range fresh { // another time
		t.s.fields.seen.Remove([3]string{client, agent, kind})
	}
}
