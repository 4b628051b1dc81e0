package answer

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tool is a function that a model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of the arguments, which are an object; nil: there are none
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// IsToolName reports whether a tool can have a name: 1 to 128 letters, digits, and _ - .
func IsToolName(name string) bool { return toolName.MatchString(name) }

// Definition returns the definition of the tool in the form that models are trained on: the JSON text for a prompt.
func (t Tool) Definition() json.RawMessage {
	return encodeJSON(toolDefinition{"function", functionDefinition(t)})
}

// toolDefinition is the definition of a function.
type toolDefinition struct {
	Type     string             `json:"type"`
	Function functionDefinition `json:"function"`
}

type functionDefinition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// encodeJSON does not escape HTML characters. Its values can be encoded, unless a caller's schema is no JSON: then the
// text is empty, which no prompt accepts.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// hasParameters reports whether a JSON schema describes parameters. A schema with only the type object describes none:
// a function that accepts any parameters would have additionalProperties.
func hasParameters(parameters json.RawMessage) bool {
	var all map[string]json.RawMessage
	if json.Unmarshal(parameters, &all) != nil {
		return false // there is none
	}
	for name, value := range all {
		switch name {
		case "type":
			if string(value) != `"object"` {
				return true
			}
		case "required":
			if string(value) != "[]" {
				return true
			}
		case "$schema", "title", "description":
		default:
			return true
		}
	}
	return false
}

// NewCalls returns the JSON schemas of calls of tools, to be used with Settings.Closed and Call. check is called with
// the schema of a call of each tool, and with that of all together, with -1. It returns false for a schema that is not
// supported: arguments may then be any object.
func NewCalls(tools []Tool, check func(tool int, schema []byte) (supported bool, err error)) (c Calls, err error) {
	var all []json.RawMessage
	c.Each = map[string][]byte{}
	for i, t := range tools {
		parameters := t.Parameters
		if !hasParameters(parameters) {
			parameters = json.RawMessage(noParameters)
		}
		supported, err := check(i, callSchema(t.Name, parameters, ""))
		if err != nil {
			return c, err
		}
		if !supported {
			parameters = json.RawMessage(anyObject)
		}
		c.One = callSchema(t.Name, parameters, "")
		c.Each[t.Name] = c.One
		all = append(all, callSchema(t.Name, parameters, "/anyOf/"+strconv.Itoa(len(all))))
	}
	if len(all) == 1 {
		return c, nil
	}
	c.One = encodeJSON(map[string]any{"anyOf": all})
	_, err = check(-1, c.One)
	return c, err
}

// ParameterPaths turns paths in the schema of a call into paths in the schema of the tool's parameters.
func ParameterPaths(paths []string) (all []string) {
	for _, path := range paths {
		_, path, _ = strings.Cut(path, "/properties/arguments")
		all = append(all, "#"+strings.TrimPrefix(path, "/allOf/1"))
	}
	return all
}

// JSON schemas for parameters with an unsupported schema, and for no parameters.
const (
	anyObject    = `{"type":"object"}`
	noParameters = `{"type":"object","properties":{}}`
)

// callSchema returns the JSON schema of a call of a function, which will be at a place in another schema. References in
// the schema of the parameters are adjusted to that place.
func callSchema(name string, parameters []byte, place string) []byte {
	place += "/properties/arguments"
	arguments := parameters
	// a schema without a type, or with several, must not allow other values than objects
	if !allowsOnlyObjects(arguments) {
		place += "/allOf/1"
		arguments = slices.Concat([]byte(`{"allOf":[`+anyObject+`,`), arguments, []byte(`]}`))
	}
	inner := reference.ReplaceAll(arguments, []byte(`"$$ref":"#`+place))
	var b bytes.Buffer
	b.WriteString(`{"type":"object","properties":{"name":{"const":`)
	b.Write(encodeJSON(name))
	b.WriteString(`},"arguments":`)
	b.Write(inner)
	b.WriteString(`},"required":["name","arguments"],"additionalProperties":false}`)
	return b.Bytes()
}

func allowsOnlyObjects(schema []byte) bool {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && string(s.Type) == `"object"`
}

// reference matches the beginning of a reference within a JSON schema. It does not match in a string, where the quotes
// are escaped.
var reference = regexp.MustCompile(`"\$ref"\s*:\s*"#`)
