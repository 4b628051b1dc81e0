package demo

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Draw returns n more questions of the training split, all different and none of [Questions]. The same seed gives the
// same questions. They are made in the way of world.py, from the facts, words and forms of the shipped questions. None
// of them is a held-out question.
func Draw(n int, seed uint64) []Question {
	w := theWorld()
	r := rand.New(rand.NewPCG(seed, 0))
	taken := map[string]bool{}
	for _, q := range parsed()[Train] {
		taken[q.Text] = true
	}
	all := make([]Question, 0, n)
	for len(all) < n {
		if q := w.drawQuestion(r); !taken[q.Text] && !isHeldOut(q.Text) {
			taken[q.Text] = true
			all = append(all, q)
		}
	}
	return all
}

// isHeldOut reports whether a question belongs to the held-out split, by its text alone.
func isHeldOut(text string) bool { return crc32.ChecksumIEEE([]byte(text))%8 == 0 }

// world has the facts and forms of the shipped questions.
type world struct {
	facts         []fact
	places, foods []string // all offered words, sorted
	forms         []form
}

// fact is the facts of a name.
type fact struct{ name, place, food string }

// form is a question and its answer with {name}, {place} and {food} in place of a fact. The words offered follow the
// question.
type form struct{ question, answer string }

const (
	offersPlaces = " Places: "
	offersFoods  = " Foods: "
	offered      = 4 // places and foods in a question
)

var theWorld = sync.OnceValue(func() *world {
	w := new(world)
	// questions are held out, not names: facts in both splits are known
	for _, q := range slices.Concat(parsed()[Train], parsed()[HeldOut]) {
		f := fact{q.Name, q.Place, q.Food}
		if !slices.Contains(w.facts, f) {
			w.facts = append(w.facts, f)
		}
		w.places, w.foods = append(w.places, q.Places...), append(w.foods, q.Foods...)
		question, _, _ := strings.Cut(q.Text, offersPlaces)
		one := form{
			strings.ReplaceAll(question, q.Name, "{name}"),
			strings.NewReplacer(q.Name, "{name}", q.Place, "{place}", q.Food, "{food}").Replace(q.Answer),
		}
		if !slices.Contains(w.forms, one) {
			w.forms = append(w.forms, one)
		}
	}
	for _, words := range []*[]string{&w.places, &w.foods} {
		slices.Sort(*words)
		*words = slices.Compact(*words)
	}
	return w
})

func (w *world) drawQuestion(r *rand.Rand) Question {
	f, form := w.facts[r.IntN(len(w.facts))], w.forms[r.IntN(len(w.forms))]
	q := Question{Split: Train, Name: f.name, Place: f.place, Food: f.food}
	q.Places, q.Foods = drawOptions(w.places, f.place, r), drawOptions(w.foods, f.food, r)
	fill := strings.NewReplacer("{name}", f.name, "{place}", f.place, "{food}", f.food)
	q.Text = fmt.Sprintf("%s%s%s.%s%s.", fill.Replace(form.question),
		offersPlaces, strings.Join(q.Places, ", "), offersFoods, strings.Join(q.Foods, ", "))
	q.Answer = fill.Replace(form.answer)
	return q
}

func drawOptions(words []string, right string, r *rand.Rand) []string {
	some := []string{right}
	for len(some) < offered {
		if w := words[r.IntN(len(words))]; !slices.Contains(some, w) {
			some = append(some, w)
		}
	}
	r.Shuffle(offered, func(i, j int) { some[i], some[j] = some[j], some[i] })
	return some
}
