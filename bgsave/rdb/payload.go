package rdb

import (
	"encoding/binary"
	"errors"
	"io"

	"spindle/internal/crc"
)

// A payload is DUMP's reply and RESTORE's argument: one value without its key, with a footer that detects damage.
//
//	kind value… | version u16 LE | crc64 u64 LE      the sum covers everything before it
//
// FooterLen is the footer's length.
const FooterLen = 2 + 8

// ErrPayload: the payload's version is too new or its checksum is wrong. ErrPayloadData: its value is invalid.
var (
	ErrPayload     = errors.New("DUMP payload version or checksum are wrong")
	ErrPayloadData = errors.New("Bad data format")
)

// AppendFooter ends the payload that begins at dst[from].
func AppendFooter(dst []byte, from, version int) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(version))
	return binary.LittleEndian.AppendUint64(dst, crc.Update64(0, dst[from:]))
}

// Payload checks a payload's footer and returns its kind and value. anySum skips the checksum.
// Errors: ErrPayload; ErrPayloadData for an unknown kind.
func Payload(p []byte, anySum bool) (kind Kind, value []byte, err error) {
	body, err := Unwrap(p, anySum)
	if err != nil {
		return 0, nil, err
	}
	if len(body) == 0 || !Kind(body[0]).Known() {
		return 0, nil, ErrPayloadData
	}
	return Kind(body[0]), body[1:], nil
}

// Unwrap checks a payload's footer and returns the bytes before it. anySum skips the checksum. Errors: ErrPayload.
func Unwrap(p []byte, anySum bool) (body []byte, err error) {
	if len(p) < FooterLen {
		return nil, ErrPayload
	}
	footer := p[len(p)-FooterLen:]
	if binary.LittleEndian.Uint16(footer) > MaxVersion {
		return nil, ErrPayload
	}
	if !anySum && crc.Update64(0, p[:len(p)-8]) != binary.LittleEndian.Uint64(footer[2:]) {
		return nil, ErrPayload
	}
	return p[:len(p)-FooterLen], nil
}

// StringValue reads a KindString value. rest are the bytes of p after it.
// Errors: ErrPayloadData, and io.ErrUnexpectedEOF for a value that ends too early.
func StringValue(p []byte) (t Text, rest []byte, err error) {
	c := cursor{p: p}
	t, err = c.text()
	switch {
	case err == errShort:
		return t, nil, io.ErrUnexpectedEOF
	case err != nil:
		return t, nil, ErrPayloadData
	}
	return t, p[c.i:], nil
}
