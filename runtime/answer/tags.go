package answer

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/schema"
)

// tagScanner parses a call in tags: see [schema.CompileCall], whose grammar fixes its form. Its arguments become JSON.
type tagScanner struct {
	argumentsOf func(name string) (*schema.Arguments, error)

	rest      string // text that is not parsed yet
	size      int    // of the whole text
	name      string
	arguments *schema.Arguments
	count     int    // parameters so far
	parameter string // whose value follows; "" between values
	isText    bool   // it is a string, of which each part is known
	ended     bool
}

func (s *tagScanner) function() string { return s.name }

func (s *tagScanner) end() string { return callEnd } // the text of the call ends with a line end

func (s *tagScanner) checkComplete() error {
	if !s.ended || s.rest != "" {
		return fmt.Errorf("its tags are not closed: %w", errCall)
	}
	return nil
}

func (s *tagScanner) pushPiece(piece string) (name bool, arguments string, err error) {
	if s.size += len(piece); s.size > maxCall {
		return false, "", fmt.Errorf("more than %d bytes: %w", maxCall, errCall)
	}
	s.rest += piece
	named := s.name != ""
	if !named {
		if s.name = s.cutTag(schema.FunctionTag); s.name == "" {
			return false, "", s.checkTag(schema.FunctionTag)
		}
		if s.arguments, err = s.argumentsOf(s.name); err != nil {
			return false, "", err
		}
	}
	for before := ""; s.rest != before && err == nil && !s.ended; {
		before = s.rest
		var part string
		if s.parameter == "" {
			part, err = s.cutBegin()
		} else {
			part, err = s.cutValue()
		}
		arguments += part
	}
	return !named, arguments, err
}

// cutTag cuts a tag off, and returns its name; "" if it is not there yet.
func (s *tagScanner) cutTag(tag string) string {
	rest, ok := strings.CutPrefix(s.rest, tag)
	name, rest, whole := strings.Cut(rest, schema.TagEnd)
	if !ok || !whole {
		return ""
	}
	s.rest = rest
	return name
}

// checkTag returns an error if the rest is not the beginning of one of some tags.
func (s *tagScanner) checkTag(tags ...string) error {
	for _, tag := range tags {
		if strings.HasPrefix(tag, s.rest) || strings.HasPrefix(s.rest, tag) {
			return nil
		}
	}
	return fmt.Errorf("a tag is expected: %w", errCall)
}

// cutBegin cuts off the tag of a parameter, or the end of the call.
func (s *tagScanner) cutBegin() (arguments string, err error) {
	if rest, ok := strings.CutPrefix(s.rest, schema.CallEnd); ok {
		s.rest, s.ended = rest, true
		if s.count == 0 {
			return "{}", nil
		}
		return "}", nil
	}
	if s.parameter = s.cutTag(schema.ParameterTag); s.parameter == "" {
		return "", s.checkTag(schema.ParameterTag, schema.CallEnd)
	}
	s.isText, err = s.arguments.IsText(s.parameter)
	arguments = ", "
	if s.count++; s.count == 1 {
		arguments = "{"
	}
	if arguments += string(encodeJSON(s.parameter)) + ": "; s.isText {
		arguments += `"`
	}
	return arguments, err
}

// cutValue cuts off the part of a value that is known.
func (s *tagScanner) cutValue() (arguments string, err error) {
	value, rest, whole := strings.Cut(s.rest, schema.ValueEnd)
	if s.isText {
		if !whole {
			value, rest = cutBeginningOf(s.rest, schema.ValueEnd)
		}
		quoted := encodeJSON(value)
		arguments = string(quoted[1 : len(quoted)-1])
		if whole {
			arguments += `"`
		}
	} else if whole {
		var known json.RawMessage
		known, err = s.arguments.Value(s.parameter, value)
		arguments = string(known)
	} else {
		return "", nil
	}
	if s.rest = rest; whole {
		s.parameter = ""
	}
	return arguments, err
}

// cutBeginningOf cuts the longest end off a text that is the beginning of another one.
func cutBeginningOf(text, of string) (before, begun string) {
	for n := min(len(text), len(of)-1); n > 0; n-- {
		if strings.HasSuffix(text, of[:n]) {
			return text[:len(text)-n], of[:n]
		}
	}
	return text, ""
}
