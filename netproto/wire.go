package netproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// The reasons why a message is invalid. An incomplete message gives [io.ErrUnexpectedEOF].
var (
	ErrType    = errors.New("another type of message")
	ErrTooLong = errors.New("longer than allowed")
	ErrValue   = errors.New("value out of range, or not in its shortest form")
	ErrRest    = errors.New("bytes are left over")
)

// A ParseError names the invalid field of a message.
type ParseError struct {
	Message string // such as "Ask"
	Field   string // such as "deadline"
	Err     error  // ErrType, ErrTooLong, ErrValue, ErrRest, WrongVersion or io.ErrUnexpectedEOF
}

// Error returns message, field and reason.
func (e *ParseError) Error() string {
	return fmt.Sprintf("parse %s: %s: %v", e.Message, e.Field, e.Err)
}

// Unwrap returns the reason.
func (e *ParseError) Unwrap() error { return e.Err }

// Limits of messages, independent of the limits of a gateway.
const (
	MaxMessage  = 1 << 22 // bytes of a frame's body
	MaxPosition = 1 << 24 // tokens of a path
	maxString   = 1 << 10 // bytes
	maxMillis   = 1 << 32 // about 50 days
)

func appendFrame(b []byte, kind Kind, body func([]byte) []byte) []byte {
	const room = 1 // most bodies are shorter than 128 bytes: their length takes one byte
	b = append(b, byte(kind), 0)
	start := len(b)
	b = body(b)
	n := uint64(len(b) - start)
	if n < 1<<7 {
		b[start-room] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(length[:], n)
	b = append(b, length[:size-room]...)
	copy(b[start-room+size:], b[start:start+int(n)])
	copy(b[start-room:], length[:size])
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// parser takes fields from the front of a frame's body. The first error is kept.
type parser struct {
	message string
	b       []byte
	err     error
}

// openFrame returns a parser of the body of the frame at the front of b, and the length of the frame.
func openFrame(b []byte, kind Kind) (p *parser, n int) {
	head := parser{message: kind.String(), b: b}
	if t := head.readUint8("type"); head.err == nil && Kind(t) != kind {
		head.failField("type", ErrType)
	}
	size := head.readUvarint("length", MaxMessage)
	body := head.readBytes("body", int(size))
	return &parser{message: head.message, b: body, err: head.err}, len(b) - len(head.b)
}

// closeFrame returns the first error. Unparsed bytes are an error too.
func (p *parser) closeFrame() error {
	if p.err == nil && len(p.b) > 0 {
		p.failField("end", ErrRest)
	}
	return p.err
}

func (p *parser) failField(field string, err error) {
	if p.err == nil {
		p.err = &ParseError{Message: p.message, Field: field, Err: err}
		p.b = nil
	}
}

// readBytes returns n bytes without copying them.
func (p *parser) readBytes(field string, n int) []byte {
	if p.err != nil || n > len(p.b) {
		p.failField(field, io.ErrUnexpectedEOF)
		return nil
	}
	taken := p.b[:n:n]
	p.b = p.b[n:]
	return taken
}

func (p *parser) readUint8(field string) byte {
	if b := p.readBytes(field, 1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) readUint32(field string) uint32 {
	if b := p.readBytes(field, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (p *parser) readUint64(field string) uint64 {
	if b := p.readBytes(field, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// readPositiveFloat64 reads a finite number above 0.
func (p *parser) readPositiveFloat64(field string) float64 {
	f := math.Float64frombits(p.readUint64(field))
	if p.err == nil && !(f > 0 && f <= math.MaxFloat64) {
		p.failField(field, ErrValue)
		return 0
	}
	return f
}

func (p *parser) readUvarint(field string, limit uint64) uint64 {
	if p.err != nil {
		return 0
	}
	v, n := binary.Uvarint(p.b)
	switch {
	case n == 0:
		p.failField(field, io.ErrUnexpectedEOF)
	case n < 0 || n > 1 && p.b[n-1] == 0:
		p.failField(field, ErrValue)
	case v > limit:
		p.failField(field, ErrTooLong)
	default:
		p.b = p.b[n:]
		return v
	}
	return 0
}

// readCount refuses more than limit entries, or more of size bytes than are left.
func (p *parser) readCount(field string, limit, size int) int {
	n := int(p.readUvarint(field, uint64(limit)))
	if n*size > len(p.b) {
		p.failField(field, io.ErrUnexpectedEOF)
		return 0
	}
	return n
}

func (p *parser) readString(field string) string {
	return string(p.readBytes(field, int(p.readUvarint(field, maxString))))
}

func (p *parser) readTokenID(field string) int32 { return int32(p.readUvarint(field, math.MaxInt32)) }
