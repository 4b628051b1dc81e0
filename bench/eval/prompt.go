package eval

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

func (w *evaluation) tokenizeQuestion(q task.Question) ([]int32, error) {
	if w.Raw {
		return w.Edge.RawPrompt(w.Set.Raw(q))
	}
	ids, err := w.Edge.Chat(w.Set.Chat(q.Text)...)
	if errors.Is(err, tokenizer.ErrUnsupported) {
		err = fmt.Errorf("%w; use --raw to continue a text instead", err)
	}
	return ids, err
}
