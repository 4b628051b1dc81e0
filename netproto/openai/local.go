package openai

import (
	"crypto/sha256"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Sent is what of a request has left this device.
type Sent struct {
	Tokens int    `json:"tokens"` // of texts, each as often as it was sent
	Bytes  int    `json:"bytes"`  // of the messages, before encryption
	To     string `json:"to"`     // address of the gateway; "" where nothing was sent
}

// add adds what has left for another answer.
func (s *Sent) add(o Sent) {
	s.Tokens += o.Tokens
	s.Bytes += o.Bytes
	if o.To != "" {
		s.To = o.To
	}
}

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
func (k keptMessages) local(messages []Message) (local bool) {
	for _, m := range messages {
		known := k.Contains(m.hash())
		if m.Local && !known {
			k.Add(m.hash(), struct{}{})
		}
		local = local || known || m.Local
	}
	return local
}

// hash identifies a message.
func (m Message) hash() [sha256.Size]byte {
	return sha256.Sum256(encode([]any{m.Role, m.Content, m.Calls}))
}

// mark reads what a message says of itself, beside what answers have there.
func (f *fields) mark(m *Message) {
	f.object(extensionName, func(o *fields) {
		o.flag("local", &m.Local)
		o.harmless("tokens", "shortened", "seed", "receipt")
	})
}
