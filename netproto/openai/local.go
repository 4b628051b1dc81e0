package openai

import (
	"crypto/sha256"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
	"github.com/pilotfish-ai/pilotfish/netproto/openai/request"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxKept is how many messages are known that stay on this device. The oldest ones are forgotten where there are more.
const maxKept = 1 << 16

// keptMessages are the messages that a request said may not leave this device, by their hashes: later requests that
// come with them are local too, also where clients do not repeat what was said of them.
type keptMessages struct {
	*lru.Cache[[sha256.Size]byte, struct{}]
}

func newKeptMessages() keptMessages {
	all, err := lru.New[[sha256.Size]byte, struct{}](maxKept)
	if err != nil {
		panic(err) // the size is wrong: a bug of ours
	}
	return keptMessages{all}
}

// local reports whether one of the messages stays on this device, by what it or an earlier request says.
func (k keptMessages) local(messages []answer.Message) (local bool) {
	for _, m := range messages {
		known := k.Contains(hash(m))
		if m.Local && !known {
			k.Add(hash(m), struct{}{})
		}
		local = local || known || m.Local
	}
	return local
}

// hash identifies a message.
func hash(m answer.Message) [sha256.Size]byte {
	return sha256.Sum256(request.Encode([]any{m.Role, m.Content, m.Calls}))
}
