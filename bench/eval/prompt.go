package eval

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

func (e *evaluation) tokenizeQuestion(q task.Question) ([]int32, error) {
	if e.Raw {
		return e.Edge.RawPrompt(e.Set.Raw(q))
	}
	ids, err := e.Edge.Chat(e.Set.Chat(q.Text)...)
	if errors.Is(err, tokenizer.ErrUnsupported) {
		err = fmt.Errorf("%w; use --raw to continue a text instead", err)
	}
	return ids, err
}
