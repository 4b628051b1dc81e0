package record

import "github.com/pilotfish-ai/pilotfish/gguf"

// Model describes a measured model.
type Model struct {
	Name  string           `json:"name"`            // general.name of its file; may be empty
	Hash  string           `json:"hash,omitempty"`  // of metadata and weights, see [gguf.File.Fingerprint]
	Types map[string]int64 `json:"types,omitempty"` // bytes of its tensors by their type
	Bytes int64            `json:"bytes,omitempty"` // of the file
}

// OfModel describes the model in a file.
func OfModel(f *gguf.File) (*Model, error) {
	hash, err := f.Fingerprint()
	if err != nil {
		return nil, err
	}
	name, _ := f.String("general.name") // only for display
	m := &Model{Name: name, Hash: hash, Types: map[string]int64{}, Bytes: f.Size()}
	for _, t := range f.Tensors() {
		m.Types[t.Type.String()] += int64(len(t.Data))
	}
	return m, nil
}

// OfFile is [OfModel] of the file at path.
func OfFile(path string) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return OfModel(f)
}
