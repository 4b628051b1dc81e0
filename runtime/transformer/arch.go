package transformer

import (
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// Arch is an architecture of the family, with all in which it differs from the others.
type Arch struct {
	Name      string // general.architecture, which is also the beginning of the other keys
	Title     string // as people write it
	Biases    bool   // matrices may have biases; those of q, k and v have
	HeadNorms bool   // q and k have a norm of each head, before the rotation
	FFNNorm   string // the name of the norm before the feed-forward block
	Recurrent bool   // most layers have a recurrent state in place of attention, and attention has gates: recurrent.go
}

func supportedArchs() []Arch {
	return []Arch{
		{Name: "qwen2", Title: "Qwen2", FFNNorm: "ffn_norm", Biases: true},
		{Name: "qwen3", Title: "Qwen3", FFNNorm: "ffn_norm", HeadNorms: true},
		{Name: "qwen35", Title: "Qwen3.5", FFNNorm: "post_attention_norm", HeadNorms: true, Recurrent: true},
	}
}

// missingFeature says what this package would need for other architectures of Qwen, by general.architecture.
func missingFeature(name string) (what string, known bool) {
	const experts, images = "mixtures of experts", "positions in images (M-RoPE)"
	what, known = map[string]string{
		"qwen": "the layout of the first Qwen", "qwen2moe": experts, "qwen3moe": experts,
		"qwen2vl": images, "qwen3vl": images, "qwen3vlmoe": images + " and " + experts,
		"qwen3next": experts, "qwen35moe": experts,
	}[name]
	return what, known
}

func readArch(f *gguf.File) (Arch, error) {
	name, err := f.String("general.architecture")
	if err != nil {
		return Arch{}, err
	}
	var names []string
	for _, a := range supportedArchs() {
		if a.Name == name {
			return a, nil
		}
		names = append(names, fmt.Sprintf("%q", a.Name))
	}
	last := len(names) - 1
	err = fmt.Errorf("general.architecture: %s is not supported, this program runs %s and %s", errs.Quote(name),
		strings.Join(names[:last], ", "), names[last])
	if what, known := missingFeature(name); known {
		err = fmt.Errorf("%w: it has no %s", err, what)
	}
	return Arch{}, err
}
