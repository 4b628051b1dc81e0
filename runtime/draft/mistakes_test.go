package draft

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// mistake is a change of a source file: old occurs once, and new replaces it. PLANTED in new is true while this mistake
// is tried.
type mistake struct {
	name           string
	by             property // must catch it
	file, old, new string
}

// property is what must catch a mistake.
type property int

const (
	inSchedules property = iota // pipelined decoding equals serial decoding
	inPlaces                    // the same with verification, and tokens that are not allowed everywhere
	everywhere                  // both
	liberty                     // none: a change that must not change any result
)

// The liberties.
const (
	twice = "twice" // each answer is delivered twice
	eager = "eager" // a guess is made for every free row, likely or not
)

// mistakes returns the mistakes that [TestMistakes] plants.
func mistakes() []mistake {
	return slices.Concat(answerMistakes, questionMistakes, guessMistakes, treeMistakes, placeMistakes)
}

// answerMistakes are mistakes with what an answer keeps and drops.
var answerMistakes = []mistake{
	{"accept a stale answer", inSchedules, "answer.go",
		`	switch {
	case res.probe:`,
		`	if tip := r.tree.tip.esc; PLANTED && e.Outcome != inFlight && tip != nil && tip.Outcome == inFlight {
		e = tip
	}
	switch {
	case res.probe:`},
	{"keep the best branch whatever the answer", everywhere, "answer.go",
		`		if c.token == token {`,
		`		if c.token == token && !PLANTED || PLANTED && c == e.at.children[0] {`},
	{"keep what was drafted below a wrong token", everywhere, "answer.go",
		`	if outcome == Miss`,
		`	if keep == nil && PLANTED && len(e.at.children) > 0 {
		keep = e.at.children[0]
		keep.token, keep.end = token, r.End(token)
		keep.final = keep.final || keep.end
	}
	if outcome == Miss`},
	{"origin of an answer equal to the local token", inSchedules, "answer.go",
		`	e.at.children = append(`,
		`	if PLANTED && token == e.Local {
		keep.origin = Edge
	}
	e.at.children = append(`},
	{"leave the questions of a dropped branch open", inSchedules, "questions.go",
		`{
		e.cancel(why)`,
		`&& !(PLANTED && why == errDropped) {
		e.cancel(why)`},
}

// questionMistakes are mistakes with when questions are sent.
var questionMistakes = []mistake{
	{"in flight off by one", inSchedules, "ask.go",
		`		case r.questions.openCount() < r.InFlight:`,
		`		case r.questions.openCount() < r.InFlight, PLANTED && len(r.questions.asked) == r.InFlight:`},
	{"forget a question that has to wait", inSchedules, "ask.go",
		`		default:
			return
		}
	}
}`,
		`		case PLANTED:
			r.resolveEscalation(e, Unasked, e.Local, Edge, nil)
			i = 0
		default:
			return
		}
	}
}`},
	{twice, liberty, "ask.go",
		`		r.sched.results.pushResult(res)`,
		`		r.sched.results.pushResult(res)
		if PLANTED {
			r.sched.results.pushResult(res)
		}`},
}

// guessMistakes are mistakes with guesses from the text.
var guessMistakes = []mistake{
	{eager, liberty, "guess.go",
		`	for i, n := range lookup.Share(places, most, g.cost) {`,
		`	share := lookup.Share(places, most, g.cost)
	if PLANTED {
		for i := range share {
			share[i] = min(most, len(likely[i]))
			most -= share[i]
		}
	}
	for i, n := range share {`},
	{"guess one row too many", inSchedules, "guess.go",
		`	if g.Lookup > 0 {
		rows = min(rows, g.Lookup)
	}`,
		`	if g.Lookup > 0 {
		rows = min(rows, g.Lookup)
	}
	if PLANTED {
		rows++
	}`},
	{eager, liberty, "guess.go",
		`	rows = min(rows, g.cost.Reach(leaves))`,
		`	if !PLANTED {
		rows = min(rows, g.cost.Reach(leaves))
	}`},
	{"guess more than there is room for", inSchedules, "guess.go",
		`	if rows > leaves {`,
		`	if rows > leaves && !PLANTED {`},
	{"guess the last token allowed", inSchedules, "tree.go",
		`	end := t.limit - 2 // the last position but one`,
		`	end := t.limit - 2 // the last position but one
	if PLANTED {
		end++
	}`},
	{"guess beyond the window", inSchedules, "tree.go",
		`	return min(end, t.windowEnd(n)) - n.pos`,
		`	if !PLANTED {
		end = min(end, t.windowEnd(n))
	}
	return end - n.pos`},
	{"guess an end token", inSchedules, "guess.go",
		`		if o.End(t) {`,
		`		if o.End(t) && !PLANTED {`},
	{"head of the row before a guess", inSchedules, "guess.go",
		`		r.decideNextToken(n, &heads[accepted])`,
		`		row := accepted
		if PLANTED {
			row = max(0, accepted-1)
		}
		r.decideNextToken(n, &heads[row])`},
	{"router state not carried along guesses", inSchedules, "guess.go",
		`		next.id = chain[accepted].id`,
		`		next.id = chain[accepted].id
		if PLANTED {
			next.state = 0
		}`},
	{"a guess stands where the cloud is to be asked", inSchedules, "guess.go",
		`		next := matchGuess(n, chain[accepted])`,
		`		if n.esc != nil && PLANTED && n.esc.Local == chain[accepted].token {
			r.questions.removeEscalation(n.esc)
			n.esc = nil
			r.tree.addChild(n, chain[accepted].token, 0)
		}
		next := matchGuess(n, chain[accepted])`},
	{"keep a guess where another token follows", everywhere, "guess.go",
		`	if next.token != guess.token {`,
		`	if PLANTED && !next.final {
		next.token = guess.token
	}
	if next.token != guess.token {`},
}

// treeMistakes are mistakes with the nodes of the draft tree.
var treeMistakes = []mistake{
	{"rows off by one", inSchedules, "choose.go",
		`	leaves = leaves[:min(len(leaves), r.Rows, max(0, r.model.Room()))]`,
		`	rows := r.Rows
	if PLANTED {
		rows++
	}
	leaves = leaves[:min(len(leaves), rows, max(0, r.model.Room()))]`},
	{"window off by one", inSchedules, "tree.go",
		`	return end
}`,
		`	if PLANTED && end < math.MaxInt {
		end++
	}
	return end
}`},
	{"wrong parent after settling", inSchedules, "tree.go",
		`	}
	return nodes`,
		`		if PLANTED && len(nodes[i].Path) > 1 && t.base.id > 0 {
			nodes[i].Path = nodes[i].Path[1:]
		}
	}
	return nodes`},
	{"leave the slots of wrong guesses in use", inSchedules, "run.go",
		`	if len(dead) > 0 {`,
		`	if len(dead) > 0 && !PLANTED {`},
	{"count every guess as one that held", inSchedules, "run.go",
		`	r.out.emitEvent(Event{Pass: &report})`,
		`	if PLANTED {
		report.Accepted = report.Proposed
	}
	r.out.emitEvent(Event{Pass: &report})`},
	{"router state of another branch", inSchedules, "run.go",
		`	local := r.pickToken(n, head)`,
		`	if PLANTED {
		n.state = lastState
	}
	defer func() { lastState = n.state }()
	local := r.pickToken(n, head)`},
	{"ignore an end token in a branch", inSchedules, "tree.go",
		`	c.final = c.end || `,
		`	c.final = c.end && !(PLANTED && t.tip.hasOpenEscalation()) || `},
	{"ignore the last position in a branch", inSchedules, "tree.go",
		`c.pos+1 >= t.limit`,
		`c.pos+1 >= t.limit && !(PLANTED && t.tip.hasOpenEscalation())`},
	{"leave the slots of a dropped branch in use", inSchedules, "commit.go",
		`	if len(dead) > 0 {`,
		`	if len(dead) > 0 && !PLANTED {`},
	{"settle out of order", inSchedules, "tree.go",
		`	return t.tip.evaluated && !t.tip.hasOpenEscalation()`,
		`	if PLANTED && t.tip.evaluated && len(t.tip.children) > 0 {
		return true
	}
	return t.tip.evaluated && !t.tip.hasOpenEscalation()`},
}

// placeMistakes are mistakes with what may stand at a place.
var placeMistakes = []mistake{
	{"an answer that may not stand there", inPlaces, "place.go",
		`	case o.Verify:
		ok = p.Allows`,
		`	case PLANTED:
	case o.Verify:
		ok = p.Allows`},
	{"the place before a guess", inPlaces, "tree.go",
		`		c.place = n.place.Behind(token)`,
		`		if c.place = n.place.Behind(token); PLANTED && n.hasOpenEscalation() {
			c.place = n.place
		}`},
	{"a token is turned into one that may not stand", inPlaces, "verify.go",
		` && !n.allowsToken(n.fact.token):`,
		` && !n.allowsToken(n.fact.token) && !PLANTED:`},
	{"a token from another answer is not allowed there", inPlaces, "verify.go",
		`	if !e.at.allowsToken(token) ||`,
		`	if !e.at.allowsToken(token) && !PLANTED ||`},
	{"a dial does not count what is replaced", inPlaces, "tree.go",
		`t.Dial.Count(n.state, token != n.local)`,
		`t.Dial.Count(n.state, !PLANTED && token != n.local)`},
	{"the answer to a question takes a place without a dial", inPlaces, "place.go",
		`!o.allowsReplacement(e.at, token)`,
		`!PLANTED && !o.allowsReplacement(e.at, token)`},
	{"a token from another answer takes a place without a dial", inPlaces, "verify.go",
		`!r.allowsReplacement(e.at, token)`,
		`!PLANTED && !r.allowsReplacement(e.at, token)`},
}

// TestMistakes checks that the properties detect mistakes. It builds this package's tests with all mistakes in the
// source, each in a condition, and runs testdata/planted.go.txt there: each mistake must be caught within a few
// schedules, and liberties must not change any result.
func TestMistakes(t *testing.T) {
	racing.Spare(t) // the child process is built without the race detector
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs the go command")
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	replace := func(name, text string) {
		there := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(there, []byte(text), 0o644))
		overlay.Replace[filepath.Join(here, name)] = there
	}
	sources, tries := map[string]string{}, 0
	for _, m := range mistakes() {
		tries += map[property]int{everywhere: 2, inSchedules: 1, inPlaces: 1}[m.by]
		if sources[m.file] == "" {
			b, err := os.ReadFile(m.file)
			require.NoError(t, err)
			sources[m.file] = string(b)
		}
		require.Equal(t, 1, strings.Count(sources[m.file], m.old), "%s: %q must be in %s once", m.name, m.old, m.file)
		planted := strings.ReplaceAll(m.new, "PLANTED", "planted[\""+m.name+"\"]")
		sources[m.file] = strings.Replace(sources[m.file], m.old, planted, 1)
	}
	for name, text := range sources {
		replace(name, text)
	}
	replace("planted.go", "package draft\n\nvar planted = map[string]bool{}\n\nvar lastState uint64\n")
	inner, err := os.ReadFile("testdata/planted.go.txt")
	require.NoError(t, err)
	replace("planted_test.go", string(inner))
	list, err := json.Marshal(overlay)
	require.NoError(t, err)
	listed, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "planted.test")
	require.NoError(t, os.WriteFile(listed, list, 0o644))
	build := exec.CommandContext(t.Context(), goTool, "test", "-c", "-overlay", listed, "-o", binary, ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	args := []string{"-test.run", "^TestPlanted", "-test.v"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	out, err = exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	assert.NoError(t, err, "%s", out)
	assert.Equal(t, tries, strings.Count(string(out), "caught by schedule"), "%s", out)
}
