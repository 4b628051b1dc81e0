package tokenizer

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// vocabFile is the metadata of a file for a test. A key with a nil value is left out.
type vocabFile map[string]any

// with returns v with one key changed.
func (v vocabFile) with(key string, value any) vocabFile {
	v = maps.Clone(v)
	v[key] = value
	return v
}

func (v vocabFile) strings(key string) []string { return v[key].([]string) }

// bytes returns the file.
func (v vocabFile) bytes(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gguf.NewWriter(&b)
	for _, key := range slices.Sorted(maps.Keys(v)) {
		switch value := v[key].(type) {
		case string:
			gguf.Put(w, key, value)
		case bool:
			gguf.Put(w, key, value)
		case uint32:
			gguf.Put(w, key, value)
		case int32:
			gguf.Put(w, key, value)
		case []string:
			gguf.PutArray(w, key, value)
		case []int32:
			gguf.PutArray(w, key, value)
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func (v vocabFile) open(t testing.TB) *gguf.File {
	t.Helper()
	f, err := gguf.Parse(v.bytes(t))
	require.NoError(t, err)
	return f
}

func (v vocabFile) tokenizer(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := FromGGUF(v.open(t))
	require.NoError(t, err)
	return tok
}

// reference returns the reference for v, with the given special tokens.
func (v vocabFile) reference(specials ...string) reference {
	r := reference{v[keyPre].(string), make(map[string]int32), make(map[string]int), slices.Clone(specials)}
	for id, text := range v.strings(keyTokens) {
		r.ids[text] = int32(id)
	}
	for rank, merge := range v.strings(keyMerges) {
		r.ranks[merge] = rank
	}
	slices.SortStableFunc(r.specials, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return r
}

// corpus has words, code, numbers, scripts without spaces, combining characters and emoji.
const corpus = `The pilot fish swims ahead of the shark. They're small; the shark isn't. WE'LL SEE what it'd do!
for i := range 10 { fmt.Println("the", i*i, i+1) } // the end
    return the_shark[0], nil   and   then   some    more    space

其实鱼很小，鲨鱼很大。小鱼游在大鱼的前面。今天天气很好，今天我们看鱼。
Le poisson-pilote nage là où le requin est déjà allé. Cafe` + "\u0301 cafe\u0301 नमस्ते नमस्ते 한국어 한국어" + `
👩‍💻👩‍💻👨‍👩‍👧 🦈🐟 🦈🐟 1234567890 3.14159 <b>the</b> <i>shark</i>
`

// The special tokens of the vocabularies below, by kind.
var (
	controlTokens = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im", "im_end|>"}
	userTokens    = []string{"<tool", "<tool_call>", "</tool_call>", "鱼鱼"}
)

// trained returns a small vocabulary with merges learned from corpus. The seed determines the order of the bytes.
func trained(seed uint64) vocabFile {
	return newVocabFile(seed, slices.Clone(learned()))
}

// learned returns merges that are learned from corpus, the most frequent pair first.
var learned = sync.OnceValue(func() []string {
	words := make(map[string]int)
	for _, piece := range referenceSplit("qwen2", corpus) {
		words[piece]++
	}
	var merges []string
	split := make(map[string][]string)
	for range 250 {
		counts := make(map[string]int)
		for word, n := range words {
			split[word] = reference{ranks: rankOf(merges)}.merge(word)
			for i := range len(split[word]) - 1 {
				counts[split[word][i]+" "+split[word][i+1]] += n
			}
		}
		best := slices.MaxFunc(slices.Sorted(maps.Keys(counts)), func(a, b string) int { return counts[a] - counts[b] })
		merges = append(merges, best)
	}
	return merges
})

// scrambled returns a vocabulary with random merges in random order: a pair may merge before the pairs of its halves.
func scrambled(seed uint64) vocabFile {
	r := rand.New(rand.NewPCG(seed, 1))
	tokens := strings.Split("a b c d e Ġ Ċ ! ð Ł", " ")
	made := make(map[string]bool)
	var merges []string
	for len(merges) < 300 {
		left, right := tokens[r.IntN(len(tokens))], tokens[r.IntN(len(tokens))]
		merge := left + " " + right
		if len(left)+len(right) > 24 || slices.Contains(merges, merge) {
			continue
		}
		merges = append(merges, merge)
		if !made[left+right] {
			made[left+right] = true
			tokens = append(tokens, left+right)
		}
	}
	r.Shuffle(len(merges), func(i, j int) { merges[i], merges[j] = merges[j], merges[i] })
	return newVocabFile(seed, merges)
}

func rankOf(merges []string) map[string]int {
	ranks := make(map[string]int)
	for i, m := range merges {
		ranks[m] = i
	}
	return ranks
}

// newVocabFile returns a file with the tokens of all bytes, of the merges, and special ones.
func newVocabFile(seed uint64, merges []string) vocabFile {
	var tokens []string
	for _, b := range rand.New(rand.NewPCG(seed, 0)).Perm(256) {
		tokens = append(tokens, string(byteToRune(byte(b))))
	}
	for _, m := range merges {
		if whole := strings.Replace(m, " ", "", 1); !slices.Contains(tokens, whole) {
			tokens = append(tokens, whole)
		}
	}
	types := slices.Repeat([]int32{1}, len(tokens))
	add := func(kind int32, all ...string) {
		tokens = append(tokens, all...)
		types = append(types, slices.Repeat([]int32{kind}, len(all))...)
	}
	add(3, controlTokens...)
	add(4, userTokens...)
	add(1, "</s>") // a normal token that llama.cpp treats as a control token
	add(2, "<unk>")
	add(6, "<0x41>")
	add(5, "[PAD1]", "[PAD2]")
	id := func(text string) uint32 { return uint32(slices.Index(tokens, text)) }
	return vocabFile{
		keyModel: "gpt2", keyPre: "qwen2", keyTokens: tokens, keyTypes: types, keyMerges: merges,
		keyBOS: id("<|endoftext|>"), prefix + "eos_token_id": id("<|im_end|>"), keyAddBOS: false,
		keyTemplate: qwen2Template,
	}
}

// qwen2Template is a template like that of Qwen2.
const qwen2Template = `{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}` +
	`{{ '<|im_start|>system\nYou swim.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + ` +
	`message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ ` +
	`'<|im_start|>assistant\n' }}{% endif %}`

// randomText mixes characters that matter to the splitter and the merges.
func randomText(r *rand.Rand, n int) string {
	common := []rune(" \t\n\r\v'sStTrReEvVlLdDmMabcdeĀĠĊ019!?.,<|>_-\u0085\u00a0\u2003\u2028\u3000\u200b" +
		"\u180e\u0301éßſK²½Ⅷ٣鱼小かア한👩\u200d💻\ufffd\ufeff\x00\x1c\x7f𝟘\u0903\U0002ebf0\ue000")
	specials := slices.Concat(controlTokens, userTokens,
		[]string{"</s>", "<unk>", "<0x41>", "[PAD1]", "<|im_end", "<|"})
	words := referenceSplit("qwen2", corpus)
	var b strings.Builder
	for range n {
		switch r.IntN(12) {
		case 0:
			b.WriteString(specials[r.IntN(len(specials))])
		case 1, 2:
			b.WriteString(words[r.IntN(len(words))])
		case 3:
			b.WriteRune(rune(r.IntN(0xD800)))
		case 4:
			fmt.Fprint(&b, strings.Repeat(string(common[r.IntN(len(common))]), r.IntN(90)))
		default:
			b.WriteRune(common[r.IntN(len(common))])
		}
	}
	return b.String()
}
