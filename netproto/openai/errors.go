package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// Error is what a request gets in place of an answer, in OpenAI's form.
type Error struct {
	Status  int    // of HTTP
	Message string // what is wrong, with what, and what to do
	Type    string // such as "invalid_request_error"
	Param   string // path of the parameter that it is about; "" where it is about none
	Code    string // a word for programs; "" where there is none
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// The types of errors.
const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
	rateLimit      = "rate_limit_error"
)

// invalid is the error of a parameter that is wrong.
func invalid(param, format string, args ...any) *Error {
	return &Error{http.StatusBadRequest, fmt.Sprintf(format, args...), invalidRequest, param, "invalid_value"}
}

// Causes of the end of a request.
var (
	errTimeout = errors.New("the answer took longer than this server allows")
	errDrained = errors.New("the server is shutting down: try again later")
	errSlow    = errors.New("the reader is too slow")
	errGone    = errors.New("the client has gone")
)

// statusGone is the status of a request whose client has gone, as logs know it.
const statusGone = 499

// errorOf returns what is told of an error. What went wrong inside is for the log alone.
func errorOf(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	switch {
	case errors.Is(err, answer.ErrNoChat):
		return &Error{http.StatusBadRequest, answer.ErrNoChat.Error(), invalidRequest, "messages", "no_chat_template"}
	case errors.Is(err, answer.ErrNoInfill):
		return &Error{http.StatusBadRequest, answer.ErrNoInfill.Error(), invalidRequest, "suffix", "no_infill"}
	case errors.Is(err, errTimeout):
		return &Error{http.StatusGatewayTimeout, errTimeout.Error(), serverError, "", "timeout"}
	case errors.Is(err, errDrained):
		return &Error{http.StatusServiceUnavailable, errDrained.Error(), serverError, "", "draining"}
	case errors.Is(err, errSlow):
		return &Error{statusGone, errSlow.Error(), invalidRequest, "", "slow_reader"}
	case errors.Is(err, errGone), errors.Is(err, context.Canceled):
		return &Error{statusGone, errGone.Error(), invalidRequest, "", "cancelled"}
	}
	return &Error{http.StatusInternalServerError, "the answer could not be generated: the server's log says why",
		serverError, "", "internal_error"}
}

// body returns an error as it is sent in place of an answer, in the form of the API that the request belongs to. id is
// the request's.
func (e *Error) body(r *http.Request, id string) []byte {
	if ofAnthropic(r) {
		return encode(e.message(id))
	}
	return encode(e.object())
}

// ofAnthropic reports whether a request belongs to Anthropic's API: its clients say so wherever they ask.
func ofAnthropic(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/messages") || r.Header.Get("Anthropic-Version") != ""
}

// messageError is an error in Anthropic's form.
type messageError struct {
	Type  string `json:"type"` // "error"
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Request string `json:"request_id,omitempty"`
}

// message returns an error in Anthropic's form. id is the request's.
func (e *Error) message(id string) messageError {
	m := messageError{Type: "error", Request: id}
	m.Error.Message = e.Message
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

// object returns an error in OpenAI's form.
func (e *Error) object() map[string]any {
	type object struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	o := object{Message: e.Message, Type: e.Type}
	if e.Param != "" {
		o.Param = &e.Param
	}
	if e.Code != "" {
		o.Code = &e.Code
	}
	return map[string]any{"error": o}
}

// encode returns v as JSON with the characters as they are. Values are this package's own and always have a form.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("openai: %T has no form as JSON: %v", v, err)) // a bug of ours
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
