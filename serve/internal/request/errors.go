package request

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Error is an error response, in OpenAI's form.
type Error struct {
	Status  int    // of HTTP
	Message string // what is wrong and what to do
	Param   string // path of the parameter; "" if the error concerns none
	Code    string // a code for programs
	Details any    // more for programs, in Anthropic's form; nil: none
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Refuse returns an error.
func Refuse(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...), Code: code}
}

// Of returns the error with the path of a parameter.
func (e *Error) Of(param string) *Error {
	e.Param = param
	return e
}

// Invalid returns the error for an invalid parameter.
func Invalid(param, format string, args ...any) *Error {
	return Refuse(http.StatusBadRequest, "invalid_value", format, args...).Of(param)
}

func (e *Error) errorType() string {
	switch {
	case e.Status >= http.StatusInternalServerError:
		return "server_error"
	case e.Status == http.StatusTooManyRequests:
		return rateLimit
	}
	return invalidRequest
}

// Types of errors in both APIs.
const (
	invalidRequest = "invalid_request_error"
	rateLimit      = "rate_limit_error"
)

// Causes of the end of a request.
var (
	ErrTimeout = errors.New("the answer took longer than this server allows")
	ErrDrained = errors.New("the server is shutting down: try again later")
	ErrSlow    = errors.New("the reader is too slow")
	ErrGone    = errors.New("the client has gone")
)

// StatusGone is the status of a request after its client has disconnected, in logs.
const StatusGone = 499

// ErrorOf returns the error to send to the client. Internal errors are only logged.
func ErrorOf(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if chat, ok := errors.AsType[*ChatError](err); ok {
		return Refuse(http.StatusBadRequest, "chat_template", "%v", chat).Of("messages")
	}
	for _, k := range []struct {
		cause       error
		status      int
		param, code string
	}{
		{ErrNoChat, http.StatusBadRequest, "messages", "no_chat_template"},
		{ErrNoInfill, http.StatusBadRequest, "suffix", "no_infill"},
		{ErrTimeout, http.StatusGatewayTimeout, "", "timeout"},
		{ErrDrained, http.StatusServiceUnavailable, "", "draining"},
		{ErrSlow, StatusGone, "", "slow_reader"},
		{ErrGone, StatusGone, "", "cancelled"},
	} {
		if errors.Is(err, k.cause) || k.cause == ErrGone && errors.Is(err, context.Canceled) {
			return Refuse(k.status, k.code, "%v", k.cause).Of(k.param)
		}
	}
	return Refuse(http.StatusInternalServerError, "internal_error",
		"the answer could not be generated: the server's log says why")
}

// Body returns the body of an error response, in the form of the API that the request belongs to. id is the request's.
func (e *Error) Body(r *http.Request, id string) []byte {
	if isAnthropicRequest(r) {
		return Encode(e.Anthropic(id))
	}
	return Encode(e.Object())
}

func isAnthropicRequest(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/messages") || r.Header.Get("Anthropic-Version") != ""
}

// AnthropicError is an error in Anthropic's form.
type AnthropicError struct {
	Type  string `json:"type"` // "error"
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Details any    `json:"details,omitempty"`
	} `json:"error"`
	Request string `json:"request_id,omitempty"`
}

// Anthropic returns an error in Anthropic's form. id is the request's.
func (e *Error) Anthropic(id string) AnthropicError {
	m := AnthropicError{Type: "error", Request: id}
	m.Error.Message, m.Error.Details = e.Message, e.Details
	m.Error.Type = map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
		http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusTooManyRequests: rateLimit, http.StatusServiceUnavailable: "overloaded_error",
		http.StatusGatewayTimeout: "timeout_error", http.StatusInternalServerError: "api_error",
	}[e.Status]
	if m.Error.Type == "" {
		m.Error.Type = invalidRequest
	}
	return m
}

// Object returns an error in OpenAI's form.
func (e *Error) Object() map[string]any {
	type object struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	o := object{Message: e.Message, Type: e.errorType()}
	if e.Param != "" {
		o.Param = &e.Param
	}
	if e.Code != "" {
		o.Code = &e.Code
	}
	return map[string]any{"error": o}
}

// Encode returns v as JSON without escaping HTML characters. Its values are this package's own and can always be
// encoded.
func Encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("serve: encode %T as JSON: %v", v, err)) // a bug
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
