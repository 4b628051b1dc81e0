package tokenizer

import "fmt"

// kind is what a token is, as a set: llama.cpp takes some ordinary tokens for control tokens as well.
type kind uint8

const (
	normal      kind = 1 << iota // bytes in the alphabet of the file
	unknown                      // stands for what the vocabulary cannot say; treated as control
	control                      // steers the model, no text
	userDefined                  // plain text, found whole in any text
	unused                       // fills a row
	rawByte                      // spelled <0xNN>
	end                          // a generation ends here
)

// kindOf maps the numbers of tokenizer.ggml.token_type. A token of undefined type is in the vocabulary, and that is all.
var kindOf = [...]kind{0: 0, 1: normal, 2: unknown, 3: control, 4: userDefined, 5: unused, 6: rawByte}

// newKinds reads the types of n tokens. Without types every token is normal.
func newKinds(types []int64, n int) ([]kind, error) {
	kinds := make([]kind, n)
	if types == nil {
		for i := range kinds {
			kinds[i] = normal
		}
		return kinds, nil
	}
	if len(types) != n {
		return nil, fmt.Errorf("%d types for %d tokens: %w", len(types), n, ErrVocabulary)
	}
	for i, v := range types {
		if v < 0 || v >= int64(len(kindOf)) {
			return nil, fmt.Errorf("type %d of token %d: %w", v, i, ErrVocabulary)
		}
		kinds[i] = kindOf[v]
	}
	return kinds, nil
}
