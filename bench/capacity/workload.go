package capacity

import (
	"math"
	"math/rand/v2"
	"time"
)

// Mode is a way to use the large model.
type Mode string

// The modes.
const (
	// Cloud: the large model generates the whole answer and streams it. Texts share passes like sessions of one engine.
	Cloud Mode = "cloud"
	// Routed: the small model of the device generates the answer and asks the gateway for single tokens. It waits for
	// each of them.
	Routed Mode = "routed"
	// Verified: as Routed; in addition, with each ask, and with a last one at the end, the large model checks all
	// tokens since the previous ask. The small model continues from the first token that the large model would not have
	// chosen.
	Verified Mode = "verified"
)

// Modes are all modes.
func Modes() []Mode { return []Mode{Cloud, Routed, Verified} }

// Workload describes the work of the devices.
type Workload struct {
	Prompt  int           `json:"prompt_tokens"`    // of each prompt; prompts have no common beginning; at least 1
	Tokens  int           `json:"generated_tokens"` // of each answer; at least 1
	RTT     time.Duration `json:"rtt_ms"`           // round trip, half of it each way; 0 or more
	EdgeTPS float64       `json:"edge_tps"`         // passes of the small model per second: one per prompt and token
	Budget  float64       `json:"budget"`           // share of tokens that the device asks for; 0 to 1
}

const (
	// verifyEvery is the number of unchecked tokens at which verification asks.
	verifyEvery = 64
	// replaced is the share of the small model's tokens that verification replaces.
	replaced = 0.1
)

func (w *Workload) edgePassTime(n int) time.Duration {
	return time.Duration(math.Round(float64(n) / w.EdgeTPS * float64(time.Second)))
}

// ask is one question of a device to the large model.
type ask struct {
	passes int // of the small model, since the previous ask
	keep   int // common prefix with the text of the previous ask, in tokens
	text   int // tokens of the context
	from   int // first position to verify; 0: none
}

// script has the steps of a device for one answer.
type script struct {
	asks []ask
	rest int // passes of the small model after the last ask
}

// user has the random choices of a device.
type user struct {
	w       *Workload
	mode    Mode
	choices *rand.Rand
}

func newUser(w *Workload, mode Mode, device int) user {
	return user{w, mode, rand.New(rand.NewPCG(0, uint64(device)))}
}

// planAnswer computes the steps of the device for its next answer. It reuses the memory of s. In the mode cloud there
// are no asks.
func (u *user) planAnswer(s *script) {
	s.asks, s.rest = s.asks[:0], 0
	switch u.mode {
	case Routed:
		u.planRoutedAnswer(s)
	case Verified:
		u.planVerifiedAnswer(s)
	}
}

func (u *user) planRoutedAnswer(s *script) {
	before := 0
	for t := range u.w.Tokens {
		s.rest++
		if u.choices.Float64() < u.w.Budget {
			text := u.w.Prompt + t
			s.asks = append(s.asks, ask{passes: s.rest, keep: before, text: text})
			before, s.rest = text, 0
		}
	}
}

func (u *user) planVerifiedAnswer(s *script) {
	w, keep := u.w, 0
	for begin := 0; begin < w.Tokens; {
		t := begin
		for t < w.Tokens-1 && t-begin < verifyEvery && u.choices.Float64() >= w.Budget {
			t++
		}
		a := ask{passes: t - begin + 1, keep: keep, text: w.Prompt + t}
		if t > begin {
			a.from = w.Prompt + begin
		}
		s.asks = append(s.asks, a)
		end := begin
		for end < t && u.choices.Float64() >= replaced {
			end++
		}
		begin, keep = end+1, w.Prompt+end // the token at end is from the large model
	}
}
