package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// callScanner parses a tool call that arrives in pieces. The grammar of calls fixes its form: a JSON object with the
// name of a function and then its arguments, which are an object. The arguments that the scanner returns can be sent
// before the call is complete.
type callScanner struct {
	text []byte
	name string // "" until it is known
	from int    // where the arguments begin; 0 until that is known
	sent int    // bytes of the text that precede the next part of the arguments
}

// errCall means that a text is not a tool call.
var errCall = errors.New("not a tool call")

// maxCall is the maximum size of a call, in bytes.
const maxCall = 1 << 20

// callStart matches a call up to its name, and up to its arguments.
var callStart = regexp.MustCompile(`^\{"name": ?"([^"\\]+)",( ?"arguments": ?\{)?`)

// pushPiece adds a piece. It returns true once, when the name is known, and the new part of the arguments from then on.
// A brace at the end may be that of the call: it is returned with the next piece, if there is one.
func (s *callScanner) pushPiece(piece string) (name bool, arguments string, err error) {
	if len(s.text)+len(piece) > maxCall {
		return false, "", fmt.Errorf("more than %d bytes: %w", maxCall, errCall)
	}
	s.text = append(s.text, piece...)
	if s.from == 0 {
		m := callStart.FindSubmatchIndex(s.text)
		if m == nil {
			return false, "", nil
		}
		name, s.name = s.name == "", string(s.text[m[2]:m[3]])
		if m[4] < 0 {
			return name, "", nil
		}
		s.from, s.sent = m[5]-1, m[5]-1
	}
	end := len(s.text)
	if s.text[end-1] == '}' {
		end--
	}
	arguments, s.sent = string(s.text[s.sent:max(end, s.sent)]), max(end, s.sent)
	return name, arguments, nil
}

func (s *callScanner) checkComplete() error {
	switch {
	case s.from == 0:
		return fmt.Errorf("it does not begin as one: %w", errCall)
	case !json.Valid(s.text):
		return fmt.Errorf("it is not JSON: %w", errCall)
	case s.sent != len(s.text)-1 || s.text[s.sent-1] != '}' || !json.Valid(s.text[s.from:s.sent]):
		return fmt.Errorf("more than its arguments follow: %w", errCall)
	}
	return nil
}
