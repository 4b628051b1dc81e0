// Package price computes the cost of a large model's work.
//
// What is counted:
//
//   - prefilled: a token of a prompt or a text that the large model had to compute before it could answer. Tokens
//     in its KV cache from an earlier question of the same text do not count.
//   - decoded: a token that was requested, one per answer, even if the device did not need it in the end.
//   - ahead: a token that the large model decoded in addition. It costs the same as a decoded one, used or not.
//
// For the same text, the large model alone prefills the prompt once and decodes every token of the answer, including
// its end token.
package price

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// List is a price list: money per million tokens, in any currency. Each price is finite and 0 or more.
type List struct{ Prefill, Decode float64 }

// maxPrice is the maximum price of a million tokens: far above real prices, and low enough that sums stay finite.
const maxPrice = 1e12

// Parse parses "prefill=0.5,decode=1.5", in either order. Both prices are required.
func Parse(text string) (l List, err error) {
	prices := map[string]*float64{"prefill": &l.Prefill, "decode": &l.Decode}
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		p, known := prices[name]
		if !known {
			return List{}, fmt.Errorf("%.40q is unknown or repeated: give prefill=X,decode=Y", field)
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !(v >= 0 && v <= maxPrice) {
			return List{}, fmt.Errorf("%.40q is not an amount of money per million tokens: give a number from 0 to %g",
				field, maxPrice)
		}
		*p = v
		delete(prices, name)
	}
	for name := range prices {
		return List{}, fmt.Errorf("there is no price for %s: give prefill=X,decode=Y", name)
	}
	if l == (List{}) {
		return List{}, errors.New("both prices are 0")
	}
	return l, nil
}

// String returns the list in the format of [Parse].
func (l List) String() string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	return "prefill=" + number(l.Prefill) + ",decode=" + number(l.Decode)
}

// Work is the work of a large model, in tokens.
type Work struct{ Prefilled, Decoded, Ahead int }

// Alone returns the work of a large model that answers alone: a prompt, and all tokens of the answers.
func Alone(prompt, tokens int) Work { return Work{Prefilled: prompt, Decoded: tokens} }

// Plus returns the sum.
func (w Work) Plus(o Work) Work {
	return Work{w.Prefilled + o.Prefilled, w.Decoded + o.Decoded, w.Ahead + o.Ahead}
}

// Of returns the price of some work.
func (l List) Of(w Work) float64 {
	return (l.Prefill*float64(w.Prefilled) + l.Decode*float64(w.Decoded+w.Ahead)) / 1e6
}

// Cost is the cost of answers. Its JSON format is stable.
type Cost struct {
	PerAnswer float64 `json:"per_answer"`
	Per1000   float64 `json:"per_1000_answers"`
	CloudOnly float64 `json:"cloud_only_per_answer"` // the same texts by the large model alone
}

// Answers returns the cost of at least one answer. work is the actual work, alone that of the large model alone.
func (l List) Answers(answers int, work, alone Work) *Cost {
	n := float64(answers)
	return &Cost{l.Of(work) / n, 1000 * l.Of(work) / n, l.Of(alone) / n}
}

// Money formats an amount with four significant digits, without an exponent.
func Money(x float64) string {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	digits := max(0, 3-int(math.Floor(math.Log10(math.Abs(x)))))
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
