package tokenizer

// Tokenizer is the vocabulary of one model. It is immutable: any number of goroutines may use it at once.
type Tokenizer struct {
	vocab    vocabulary
	rules    ruleTable
	byteID   [256]int32 // the token of each single byte
	always   []special  // cut out of any text: user-defined tokens
	parsed   []special  // cut out when special tokens are parsed: always and the control tokens
	bos, eos int32      // -1 where the file has none
	addBOS   bool
	chat     chatML
	chatErr  error // why chat cannot be used
	hash     func() [32]byte
}

// Size returns the number of tokens, those that only pad the embedding included.
func (t *Tokenizer) Size() int { return t.vocab.size() }

// BOS returns the id that begins a text (tokenizer.ggml.bos_token_id), and whether the file names one.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos >= 0 }

// EOS returns the id that ends a text (tokenizer.ggml.eos_token_id), and whether the file names one. To stop a
// generation, ask [Tokenizer.IsEnd]: a model has several such tokens.
func (t *Tokenizer) EOS() (int32, bool) { return t.eos, t.eos >= 0 }

// AddBOS reports whether the model was trained with [Tokenizer.BOS] before each text
// (tokenizer.ggml.add_bos_token). If so, BOS exists.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// IsEnd reports whether a generation ends at id: the end-of-text, end-of-turn and end-of-message tokens that the
// file names, and the tokens whose spelling says so, such as <|im_end|> and <|endoftext|>.
func (t *Tokenizer) IsEnd(id int32) bool { return t.vocab.has(id, end) }

// IsControl reports whether id steers the model and stands for no text. Such a token comes from [Tokenizer.Encode]
// only when special tokens are parsed.
func (t *Tokenizer) IsControl(id int32) bool { return t.vocab.has(id, control) }

// Hash returns the SHA-256 of what decides which text an id stands for and which ids a text becomes: tokens, their
// kinds, merges, special ids. Rows that only pad the embedding do not count, so that a small and a large model of one
// family agree. The first call takes about 30 ms for the vocabulary of Qwen2.
func (t *Tokenizer) Hash() [32]byte { return t.hash() }
