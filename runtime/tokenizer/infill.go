package tokenizer

import (
	"fmt"
	"slices"
)

// Infill is a text with a gap to fill, and optionally information about its repository.
type Infill struct {
	Prefix, Suffix string // before the gap and after it; special tokens in them are text
	// Repo and Name are the names of the repository and of the file, and Files are others of the repository, the most
	// important one last. If the vocabulary has no marks for them, the texts of Files precede the prefix.
	Repo, Name string
	Files      []struct{ Name, Text string }
	// Most is the maximum number of tokens of the prompt; 0: any number. Text that does not fit is left out: Files from
	// the first one on, then the beginning of the prefix and the end of the suffix, so that the prefix gets three
	// quarters.
	Most int
}

// fimMarks are the ids of [fimRoles], in order; -1 for none.
type fimMarks [6]int32

// Infill returns the prompt for a text with a gap, in the form that Qwen2.5-Coder was trained on (Hui et al.,
// Qwen2.5-Coder Technical Report, arXiv 2409.12186): for a file PREFIX prefix SUFFIX suffix MIDDLE, and before it for a
// repository REPO name FILE name text … FILE name. The text that the model then generates belongs in the gap. The error
// is [ErrUnsupported] if the vocabulary has no such marks.
func (t *Tokenizer) Infill(f Infill) ([]int32, error) {
	pre, suf, mid := t.fim[0], t.fim[1], t.fim[2]
	if pre < 0 || suf < 0 || mid < 0 {
		return nil, fmt.Errorf("the vocabulary has no marks to fill gaps, such as <|fim_prefix|>: %w", ErrUnsupported)
	}
	prefix, suffix := t.Encode(f.Prefix, false), t.Encode(f.Suffix, false)
	room := len(prefix) + len(suffix)
	if f.Most > 0 {
		room = max(f.Most-3, 0)
		after := min(len(suffix), max(room/4, room-len(prefix)))
		prefix, suffix = prefix[max(len(prefix)-(room-after), 0):], suffix[:after]
		room -= len(prefix) + len(suffix)
	}
	ids := append(t.repositoryPrompt(f, room), pre)
	ids = append(append(append(ids, prefix...), suf), suffix...)
	return append(ids, mid), nil
}

// repositoryPrompt returns the part of the prompt before a file of a repository: as much as fits, from the end on.
func (t *Tokenizer) repositoryPrompt(f Infill, room int) (ids []int32) {
	rep, sep := t.fim[4], t.fim[5]
	marked := rep >= 0 && sep >= 0
	mark := func(id int32, text string) []int32 { return append([]int32{id}, t.Encode(text, false)...) }
	var parts [][]int32 // the last one first
	if marked && f.Name != "" {
		parts = append(parts, mark(sep, f.Name+"\n"))
	}
	for _, other := range slices.Backward(f.Files) {
		if marked {
			parts = append(parts, mark(sep, other.Name+"\n"+other.Text))
		} else {
			parts = append(parts, t.Encode(other.Text+"\n", false))
		}
	}
	if marked && f.Repo != "" {
		parts = append(parts, mark(rep, f.Repo+"\n"))
	}
	for _, part := range parts {
		if f.Most > 0 && len(part) > room {
			break
		}
		room -= len(part)
		ids = slices.Insert(ids, 0, part...)
	}
	return ids
}
