package answer

import (
	"encoding/json"
	"errors"
	"fmt"
)

// callScanner parses a tool call that arrives in pieces: a JSON object with the name of a function and its arguments.
// The arguments that it returns can be sent before the call is complete.
type callScanner struct {
	text  []byte
	at    int // parsed up to here
	depth int // of brackets; 1: directly in the object
	quote bool
	skip  bool // the next character follows a backslash

	key      string // of the current value; "" in a key
	from     int    // where the current string or value begins; -1: none
	value    bool   // the current string is a value
	name     string
	named    bool
	pending  []byte // arguments that arrived before the name
	done     bool
	argument bool // the arguments are complete
}

// errCall means that a text is not a tool call.
var errCall = errors.New("not a tool call")

// maxCall is the maximum size of a call, in bytes.
const maxCall = 1 << 20

func newCallScanner() *callScanner { return &callScanner{from: -1} }

// push adds a piece. It returns true once, when the name is known, and the new part of the arguments from then on.
// After the end of the object only blanks are allowed.
func (s *callScanner) push(piece string) (name bool, arguments string, err error) {
	if len(s.text)+len(piece) > maxCall {
		return false, "", fmt.Errorf("more than %d bytes: %w", maxCall, errCall)
	}
	s.text = append(s.text, piece...)
	before := s.named
	if before {
		s.pending = s.pending[:0] // it was returned before
	}
	for ; s.at < len(s.text); s.at++ {
		if err := s.step(s.text[s.at]); err != nil {
			return false, "", err
		}
	}
	if !s.named {
		return false, "", nil
	}
	return !before, string(s.pending), nil
}

// step parses one byte.
func (s *callScanner) step(c byte) error {
	inside := s.key == "arguments"
	switch {
	case s.quote:
		s.inString(c)
	case s.done:
		return s.blank(c, "after its end")
	case s.depth == 0 && c == '{':
		s.depth = 1
		return nil
	case s.depth == 0:
		return s.blank(c, "before its beginning")
	case s.depth == 1 && c == ':' && !s.value:
		return s.keyed()
	case s.depth == 1 && (c == ',' || c == '}' || c == ']'):
		s.done = c != ','
		return s.field()
	case s.depth == 1 && isBlank(c):
		return nil
	default:
		if inside && s.from < 0 && c != '{' {
			return fmt.Errorf("the arguments are not an object: %w", errCall)
		}
		s.inValue(c)
	}
	if inside {
		s.pending = append(s.pending, c)
	}
	return nil
}

// inValue parses a byte of a key or value, outside of strings.
func (s *callScanner) inValue(c byte) {
	if s.from < 0 {
		s.from = s.at
	}
	switch c {
	case '"':
		s.quote = true
	case '{', '[':
		s.depth++
	case '}', ']':
		s.depth--
	}
}

// inString parses a byte of a string.
func (s *callScanner) inString(c byte) {
	switch {
	case s.skip:
		s.skip = false
	case c == '\\':
		s.skip = true
	case c == '"':
		s.quote = false
	}
}

// blank returns an error unless c is a blank.
func (s *callScanner) blank(c byte, where string) error {
	if isBlank(c) {
		return nil
	}
	return fmt.Errorf("unexpected text %s: %w", where, errCall)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// keyed ends the key of a field.
func (s *callScanner) keyed() error {
	if s.from < 0 || json.Unmarshal(s.text[s.from:s.at], &s.key) != nil {
		return fmt.Errorf("a field has no name: %w", errCall)
	}
	s.from, s.value = -1, true
	return nil
}

// field ends a field.
func (s *callScanner) field() error {
	if !s.value {
		if s.done && s.from < 0 { // {} or an extra comma, which complete refuses
			return nil
		}
		return fmt.Errorf("a field has no value: %w", errCall)
	}
	if s.from < 0 {
		return fmt.Errorf("a field has no value: %w", errCall) // without the name, since errors are logged
	}
	raw := s.text[s.from:s.at]
	switch s.key {
	case "name":
		if s.named || json.Unmarshal(raw, &s.name) != nil || s.name == "" {
			return fmt.Errorf("the name is not a string: %w", errCall)
		}
		s.named = true
	case "arguments":
		if s.argument {
			return fmt.Errorf("it has arguments twice: %w", errCall)
		}
		s.argument = true
	}
	s.key, s.from, s.value = "", -1, false
	return nil
}

// complete checks that the call is complete and valid JSON.
func (s *callScanner) complete() error {
	switch {
	case !s.done:
		return fmt.Errorf("it is incomplete: %w", errCall)
	case !json.Valid(s.text):
		return fmt.Errorf("it is not JSON: %w", errCall)
	case !s.named:
		return fmt.Errorf("it has no name: %w", errCall)
	}
	return nil
}
