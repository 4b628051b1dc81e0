package openai

import (
	"crypto/sha256"
	"sync"
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

// maxKept is how many messages are known that stay on this device. Beyond, the oldest ones are forgotten.
const maxKept = 1 << 16

// keptMessages are the messages that a request said may not leave this device, so that later requests that come with
// them are local too, also where clients do not repeat what was said of them. It keeps hashes alone.
type keptMessages struct {
	mu    sync.Mutex
	all   map[[sha256.Size]byte]struct{}
	order [][sha256.Size]byte // a ring: the next one to be forgotten is at next
	next  int
}

// local reports whether one of the messages stays on this device, by what it or an earlier request says.
func (k *keptMessages) local(messages []Message) (local bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range messages {
		id := m.hash()
		if _, known := k.all[id]; known {
			local = true
		} else if m.Local {
			local = true
			k.add(id)
		}
	}
	return local
}

// add is called with the lock held.
func (k *keptMessages) add(id [sha256.Size]byte) {
	if k.all == nil {
		k.all = map[[sha256.Size]byte]struct{}{}
	}
	if len(k.order) < maxKept {
		k.order = append(k.order, id)
	} else {
		delete(k.all, k.order[k.next])
		k.order[k.next] = id
		k.next = (k.next + 1) % maxKept
	}
	k.all[id] = struct{}{}
}

// hash tells messages apart.
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
