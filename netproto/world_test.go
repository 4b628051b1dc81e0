package netproto

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A small invented world like that of the demo, and a byte-level BPE for it, so that sizes are measured on realistic
// deltas. It has fewer words than the demo's, and therefore fewer merges for contexts of about the same length.

const (
	worldVocab  = 768
	worldMerges = 150
)

// chat returns a prompt with its answer.
func chat(r *rand.Rand) (prompt, answer string) {
	syllables := strings.Fields("bel dor fen gar hal jun kel lor mar nev ol per quin " +
		"ras sel tor ul vex wen yar zim bro cla dri fal gle")
	places := strings.Fields("desert harbor forest cave river meadow swamp glacier island canyon " +
		"village orchard tower market bridge valley quarry temple")
	foods := strings.Fields("berries fish moss bread honey seeds roots clover " +
		"cheese ants nectar apples mushrooms rice shrimp pepper leaves barley")
	name := ""
	for range 2 + r.IntN(2) {
		name += syllables[r.IntN(len(syllables))]
	}
	pick := func(from []string) []string {
		var out []string
		for _, i := range r.Perm(len(from))[:4] {
			out = append(out, from[i])
		}
		return out
	}
	p, f := pick(places), pick(foods)
	prompt = fmt.Sprintf("<|im_start|>system You know all animals of this world.<|im_end|> <|im_start|>user "+
		"Where does a %s live, and what is its food? Places: %s. Foods: %s.<|im_end|> <|im_start|>assistant",
		name, strings.Join(p, ", "), strings.Join(f, ", "))
	answer = fmt.Sprintf("In the %s, on %s: whoever has kept a %s for long enough will tell you "+
		"that nothing else makes it quite as happy.", p[0], f[0], name)
	return prompt, answer
}

// bpe is a byte-level tokenizer: pairs of ids in the order of their merges.
type bpe struct {
	merges [][2]int32
	words  map[string][]int32
}

// train merges the most frequent pairs within words.
func train(texts []string) *bpe {
	count := map[string]int{}
	for _, t := range texts {
		for _, w := range strings.SplitAfter(t, " ") {
			count[w]++
		}
	}
	b := &bpe{words: map[string][]int32{}}
	for w := range count {
		b.words[w] = bytesOf(w)
	}
	for next := int32(256); next < 256+worldMerges; next++ {
		pairs := map[[2]int32]int{}
		for w, ids := range b.words {
			for i := 1; i < len(ids); i++ {
				pairs[[2]int32{ids[i-1], ids[i]}] += count[w]
			}
		}
		var best [2]int32
		for p, n := range pairs {
			if m := pairs[best]; n > m || n == m && (p[0] < best[0] || p[0] == best[0] && p[1] < best[1]) {
				best = p
			}
		}
		b.merges = append(b.merges, best)
		for w, ids := range b.words {
			b.words[w] = merge(ids, best, next)
		}
	}
	return b
}

func bytesOf(w string) (ids []int32) {
	for i := range len(w) {
		ids = append(ids, int32(w[i]))
	}
	return ids
}

func merge(ids []int32, pair [2]int32, into int32) []int32 {
	out := ids[:0]
	for i := 0; i < len(ids); i++ {
		if i+1 < len(ids) && ids[i] == pair[0] && ids[i+1] == pair[1] {
			out = append(out, into)
			i++
		} else {
			out = append(out, ids[i])
		}
	}
	return out
}

func (b *bpe) encode(text string) (out []int32) {
	for _, w := range strings.SplitAfter(text, " ") {
		ids, ok := b.words[w]
		if !ok {
			ids = bytesOf(w)
			for i, m := range b.merges {
				ids = merge(ids, m, int32(256+i))
			}
			b.words[w] = ids
		}
		out = append(out, ids...)
	}
	return out
}

// interleave returns prompts and answers in the order of chats.
func interleave(prompts, answers [][]int32) (out [][]int32) {
	for i := range prompts {
		out = append(out, prompts[i], answers[i])
	}
	return out
}

// world returns a tokenizer and chats that it was not trained on.
func world(chats int) (b *bpe, prompts, answers [][]int32) {
	r := source()
	var texts []string
	for range 400 {
		p, a := chat(r)
		texts = append(texts, p+" "+a)
	}
	b = train(texts)
	for range chats {
		p, a := chat(r)
		prompts, answers = append(prompts, b.encode(p+" ")), append(answers, b.encode(a))
	}
	return b, prompts, answers
}
