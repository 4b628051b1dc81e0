package tokenizer

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// reference is a slow and simple encoder: on strings, by the definition.
type reference struct {
	pre      string // see [preTokenizers]
	ids      map[string]int32
	ranks    map[string]int // of "left right"
	specials []string       // in order of precedence
}

// encode returns the ids of a UTF-8 text.
func (r reference) encode(text string) []int32 {
	for i, special := range r.specials {
		if !strings.Contains(text, special) {
			continue
		}
		var ids []int32
		rest := reference{r.pre, r.ids, r.ranks, r.specials[i+1:]}
		for j, part := range strings.Split(text, special) {
			if j > 0 {
				ids = append(ids, r.ids[special])
			}
			ids = append(ids, rest.encode(part)...)
		}
		return ids
	}
	var ids []int32
	for _, piece := range referenceSplit(r.pre, text) {
		for _, token := range r.merge(piece) {
			ids = append(ids, r.ids[token])
		}
	}
	return ids
}

// merge applies the merge with the lowest rank, the leftmost of several, until there is none.
func (r reference) merge(piece string) []string {
	var tokens []string
	for i := range len(piece) {
		tokens = append(tokens, string(byteToRune(piece[i])))
	}
	for {
		at, best := -1, 0
		for i := range len(tokens) - 1 {
			rank, ok := r.ranks[tokens[i]+" "+tokens[i+1]]
			if ok && (at < 0 || rank < best) {
				at, best = i, rank
			}
		}
		if at < 0 {
			return tokens
		}
		tokens = slices.Replace(tokens, at, at+2, tokens[at]+tokens[at+1])
	}
}

// Parts of the expressions for package regexp, which has no look-ahead and only ASCII blanks.
const (
	blanks  = `\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}`
	letters = `\p{L}\x{2EBF0}-\x{2EE5D}`
)

var (
	firstPiece = map[string]*regexp.Regexp{"qwen2": firstPieceOf(letters), "qwen35": firstPieceOf(letters + `\p{M}`)}
	allBlank   = regexp.MustCompile(`^[` + blanks + `]{2,}$`)
)

// firstPieceOf returns the expression with the characters of words.
func firstPieceOf(word string) *regexp.Regexp {
	return regexp.MustCompile(`^(?:'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])` +
		`|[^\r\n\p{N}` + letters + `]?[` + word + `]+|\p{N}| ?[^\p{N}` + word + blanks + `]+[\r\n]*` +
		`|[` + blanks + `]*[\r\n]+|[` + blanks + `]+)`)
}

func referenceSplit(pre, text string) (pieces []string) {
	for text != "" {
		piece := firstPiece[pre].FindString(text)
		lineEnd := strings.HasSuffix(piece, "\n") || strings.HasSuffix(piece, "\r")
		if allBlank.MatchString(piece) && !lineEnd && len(piece) < len(text) {
			_, n := utf8.DecodeLastRuneInString(piece) // \s+(?!\S): the last one belongs to the next piece
			piece = piece[:len(piece)-n]
		}
		pieces = append(pieces, piece)
		text = text[len(piece):]
	}
	return pieces
}
