package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/schema"
)

// callParser parses a tool call that arrives in pieces. The arguments that it returns, as JSON, can be sent before the
// call is complete.
type callParser interface {
	// pushPiece adds a piece. It returns true once, when the name is known, and the new part of the arguments from
	// then on.
	pushPiece(piece string) (name bool, arguments string, err error)
	checkComplete() error
	function() string // the name
	end() string      // what follows the call
}

// callReader is a parser of a call in any form.
type callReader struct {
	callParser
	argumentsOf func(name string) (*schema.Arguments, error)
}

func (a *Answer) newCallReader(ctx context.Context) *callReader {
	return &callReader{new(callScanner), func(name string) (*schema.Arguments, error) {
		of := a.Calls.Each[name]
		if of == nil {
			return nil, fmt.Errorf("no tool is called %.40q: %w", name, errCall)
		}
		return schema.ReadArguments(ctx, of)
	}}
}

func (r *callReader) pushPiece(piece string) (name bool, arguments string, err error) {
	if s, ok := r.callParser.(*callScanner); ok && len(s.text) == 0 && strings.HasPrefix(piece, "<") {
		r.callParser = &tagScanner{argumentsOf: r.argumentsOf}
	}
	return r.callParser.pushPiece(piece)
}

// callScanner parses a call in JSON. The grammar of calls fixes its form: a JSON object with the
// name of a function and then its arguments, which are an object.
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

// pushPiece is that of a [callParser]. A brace at the end may be that of the call: it is returned with the next piece,
// if there is one.
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

func (s *callScanner) function() string { return s.name }

func (s *callScanner) end() string { return "\n" + callEnd }

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
