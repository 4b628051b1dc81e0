package serve

import (
	"crypto/sha256"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// maxKept is the maximum number of messages to remember as local. Above it the oldest ones are forgotten.
const maxKept = 1 << 16

// localMessages has the hashes of messages that a request marked as local to this device. Later requests with these
// messages are local too, even if their clients do not repeat the mark.
type localMessages struct {
	*lru.Cache[[sha256.Size]byte, struct{}]
}

func newLocalMessages() localMessages {
	all, err := lru.New[[sha256.Size]byte, struct{}](maxKept)
	if err != nil {
		panic(err) // the size is invalid: a bug
	}
	return localMessages{all}
}

// hasLocal reports whether one of the messages must stay on this device, according to this or an earlier request.
func (k localMessages) hasLocal(messages []pilotfish.Message) (local bool) {
	for _, m := range messages {
		known := k.Contains(hashMessage(m))
		if m.Local && !known {
			k.Add(hashMessage(m), struct{}{})
		}
		local = local || known || m.Local
	}
	return local
}

func hashMessage(m pilotfish.Message) [sha256.Size]byte {
	return sha256.Sum256(request.Encode([]any{m.Role, m.Content, m.Calls}))
}
